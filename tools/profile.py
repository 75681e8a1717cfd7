"""``tvm-vision profile``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import (
    PATH,
    UNMEASURED,
    device_option,
    input_options,
    interruptible,
    json_option,
    package_argument,
    rate_option,
)
from .progress import progress
from .session import load_network, set_inputs
from .table import table

if TYPE_CHECKING:
    from tvm_vision.evaluate.layers import LayerError
    from tvm_vision.runtime.profiler import ProfileReport

MAX_NODES = 60


@click.command()
@package_argument()
@input_options
@click.option("--repeat", type=click.IntRange(min=1), default=30, show_default=True, help="Frames.")
@click.option(
    "--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Frames before."
)
@rate_option()
@click.option(
    "--per-layer-error",
    type=PATH,
    metavar="MODEL",
    help="Compare each layer's output with onnxruntime's on the ONNX file MODEL.",
)
@click.option("--sort", is_flag=True, help="The slowest kernel first, not in the order of running.")
@device_option()
@json_option("the profile")
def profile(
    package: Path,
    inputs: Path | None,
    image: Path | None,
    fill_mode: str,
    repeat: int,
    warmup: int,
    rate: float,
    per_layer_error: Path | None,
    sort: bool,
    device: str,
    as_json: bool,
) -> None:
    """Time every kernel of a package.

    With the nodes of the network that each kernel of PACKAGE computes. On Vulkan with the
    device's timestamps, on the CPU by the host's clock. Below the table: the sum of the
    kernels, the span of a frame without timestamps in between, upload, read-back, wall time,
    and what of it is unexplained.

    \b
    Example:
      tvm-vision profile model.tar --sort
      tvm-vision profile model.tar --json > profile.json
      tvm-vision profile model.tar --per-layer-error model.onnx
    """
    executor = load_network(package, device)
    arrays = set_inputs(executor, inputs, image, fill_mode)
    with interruptible(UNMEASURED), progress("profiling"):
        report = executor.profile(repeat=repeat, warmup=warmup, rate=rate)
    errors: Mapping[int, LayerError] | None = None
    if per_layer_error is not None:
        from tvm_vision.evaluate.layers import layer_errors

        with progress("comparing layers"):
            errors = layer_errors(package, arrays, per_layer_error, device=device)
    if as_json:
        document = report.to_dict()
        if errors is not None:
            document["layer_errors"] = [error.to_dict() for error in errors.values()]
        click.echo(json.dumps(document, indent=2))
        return
    for line in report_lines(report, errors, sort=sort):
        click.echo(line)


def report_lines(
    report: ProfileReport,
    errors: Mapping[int, LayerError] | None = None,
    *,
    sort: bool = False,
) -> list[str]:
    """The table of kernels and, below it, where the time of a frame goes."""
    kernels = sorted(report.kernels, key=lambda k: -k.median_us) if sort else report.kernels
    header = ["#", "kernel", "nodes", "device", "median us", "p95 us", "share"]
    rows: list[Sequence[object]] = []
    for kernel in kernels:
        row: list[object] = [
            kernel.index,
            kernel.function,
            _shortened(" ".join(kernel.nodes)),
            kernel.device,
            f"{kernel.median_us:.1f}",
            f"{kernel.p95_us:.1f}",
            f"{100 * kernel.share:.1f} %",
        ]
        if errors is not None:
            error = errors.get(kernel.index)
            row.append("-" if error is None else f"{error.error.max_rel:.1e}")
        rows.append(row)
    if errors is not None:
        header.append("max rel error")
    return [*table(header, rows, left=4), "", *_stages(report)]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_NODES else f"{text[: MAX_NODES - 3]}..."


def _stages(report: ProfileReport) -> list[str]:
    rows = [
        ("sum of kernels", report.sum_us, "each alone, between two timestamps"),
        ("span", report.span_us, "first to last kernel, as they run in production"),
        ("upload", report.upload_us, ""),
        ("read-back", report.readback_us, ""),
        ("wall", report.wall_us, f"a whole frame, median of {report.repeat}"),
        ("unexplained", report.unexplained_us, "wall - span - upload - read-back"),
    ]
    return [f"{name:<15}{value:>12.1f} us  {text}".rstrip() for name, value, text in rows]
