"""``tvm-vision benchmark``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.runtime.choices import FIGURES

from .options import (
    PATH,
    UNMEASURED,
    OutputFile,
    device_option,
    input_options,
    interruptible,
    json_option,
    rate_option,
    timing_options,
)
from .progress import progress
from .session import load_network, set_inputs
from .table import table
from .verbosity import note

if TYPE_CHECKING:
    from tvm_vision.runtime.benchmark import BenchmarkResult
    from tvm_vision.runtime.graph_executor import GraphExecutor


@click.command()
@click.argument("packages", type=PATH, nargs=-1, required=True, metavar="PACKAGE...")
@input_options
@timing_options(repeat=50, warmup=10)
@rate_option()
@click.option(
    "--most-seconds", type=click.FloatRange(min=0.0), default=60.0, show_default=True,
    help="Take fewer measurements, 3 at least, where they would take longer; of one package.",
)  # fmt: skip
@click.option(
    "--plot", type=OutputFile(*FIGURES), metavar="FILE.png",
    help="Draw the times there (.png, .svg or .pdf); needs matplotlib.",
)  # fmt: skip
@device_option()
@json_option("the times")
def benchmark(
    packages: tuple[Path, ...],
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    repeat: int,
    number: int,
    warmup: int,
    rate: float,
    most_seconds: float,
    plot: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """Time whole frames of packages, side by side.

    From the upload of PACKAGE's inputs to its outputs read back, by the host's clock.
    'tvm-vision profile' says where the time goes.

    Several packages are timed in turns, so that a device's clocks and whatever else the machine
    does meet all of them: this is how to compare precisions, tuning records or switches. Beside
    the frames stands what the device works for one, by its own clock, and how many times as fast
    as the first package's that is.

    \b
    Example:
      tvm-vision benchmark model.tar --repeat 200
      tvm-vision benchmark model.tar --rate 30
      tvm-vision benchmark model.tar --device cpu --json
      tvm-vision benchmark fp32.tar fp16.tar int8.tar --repeat 200 --plot times.png
    """
    if plot is not None:
        from tvm_vision.runtime.figures import figure_path

        figure_path(plot)
    executors = [load_network(package, device, rebuilds=0) for package in packages]
    for executor in executors:
        set_inputs(executor, inputs, image, fill_mode)
    if len(executors) > 1:
        _draw(plot, _side_by_side(packages, executors, repeat, number, warmup, rate, as_json))
        return
    (executor,) = executors
    with interruptible(UNMEASURED), progress("measuring"):
        times = executor.benchmark(repeat, number, warmup, rate, most_seconds)
    if as_json:
        click.echo(json.dumps(_document(executor, times, rate), indent=2))
    else:
        click.echo(str(times))
    _draw(plot, [(packages[0].name, times)])


def _draw(plot: Path | None, times: Sequence[tuple[str, BenchmarkResult]]) -> None:
    if plot is not None:
        from tvm_vision.runtime.figures import draw_times

        draw_times(times, plot)
        note(f"wrote {plot}")


def _side_by_side(
    packages: Sequence[Path],
    executors: Sequence[GraphExecutor],
    repeat: int,
    number: int,
    warmup: int,
    rate: float,
    as_json: bool,
) -> Sequence[tuple[str, BenchmarkResult]]:
    """Prints the times of all, and returns them with the packages' paths."""
    from statistics import median

    from tvm_vision.runtime.benchmark import BenchmarkResult, in_turns

    def frames(executor: GraphExecutor, count: int) -> Sequence[float]:
        return executor.benchmark(count, number, warmup, rate).seconds

    def span(executor: GraphExecutor, count: int) -> Sequence[float]:
        return [executor.profile(count, warmup, rate).span_us / 1e3]

    with interruptible(UNMEASURED), progress("measuring"):
        seconds, spans = (
            in_turns([partial(take, executor) for executor in executors], repeat)
            for take in (frames, span)
        )
    times = [BenchmarkResult(tuple(found), number) for found in seconds]
    device = [median(found) for found in spans]
    named = [(str(package), found) for package, found in zip(packages, times, strict=True)]
    if as_json:
        documents = [
            {"package": str(package), **_document(executor, found, rate), "device_ms": span_ms}
            for package, executor, found, span_ms in zip(
                packages, executors, times, device, strict=True
            )
        ]
        click.echo(json.dumps(documents, indent=2))
        return named
    header = ["package", "precision", "kernels", "frame, ms", "p95", "device, ms", "first ÷ this"]
    for line in table(header, list(_rows(packages, executors, times, device)), left=2):
        click.echo(line)
    return named


def _rows(
    packages: Sequence[Path],
    executors: Sequence[GraphExecutor],
    times: Sequence[BenchmarkResult],
    device: Sequence[float],
) -> Iterator[list[str]]:
    for package, executor, found, span in zip(packages, executors, times, device, strict=True):
        yield [
            str(package), _precision(executor), str(len(executor.info["graph"]["kernels"])),
            f"{found.median_ms:.3f}", f"{found.p95_ms:.3f}", f"{span:.3f}",
            f"{device[0] / span:.2f}",
        ]  # fmt: skip


def _precision(executor: GraphExecutor) -> str:
    """Of what is stored; "int8" where weights are bytes."""
    graph = executor.info["graph"]
    weights = {graph["tensors"][i]["dtype"] for i in graph["params"].values()}
    return "int8" if "int8" in weights else str(executor.info["precision"])


def _document(executor: GraphExecutor, times: BenchmarkResult, rate: float) -> dict[str, Any]:
    return {"device": executor.device_description, "rate": rate, **times.to_dict()}
