"""Times many networks, ours beside other engines, and sorts them by where ours does worst.

    python -m benchmarks.zoo --output zoo.json --most-seconds 560
    python -m benchmarks.zoo --output zoo.json --inductor vit_b_16 --only vit
    python -m benchmarks.zoo zoo.json --document docs/performance/zoo.md

The first, on a machine with the GPU, PyTorch with CUDA, torchvision, timm, transformers,
ultralytics and segmentation_models_pytorch, and with ncnn, pnnx and onnxruntime-ep-webgpu where
they are to be timed: exports and compiles all networks on all cores, then times them one after
another. What was measured is on the disk; what is not reached in time is said, and the same command
goes on with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from benchmarks.peers.measure import versions
from benchmarks.peers.processes import ROOT
from scripts.markdown_tables import document
from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.whole_files import write_whole

from . import trials
from .networks import CORE, LARGE, NETWORKS, Network
from .prepare import export
from .report import page
from .trials import ENGINES, OURS, PRECISIONS, SLOW_TO_LOAD, Trial

PATH = click.Path(path_type=Path)
FOLDER = ROOT / "build" / "zoo"


def read(path: Path) -> dict[str, Any]:
    """Results. Raises InputError where a file is none of this program."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        assert {"device", "rows"} <= set(found)
    except (OSError, ValueError, AssertionError, TypeError) as problem:
        raise InputError(
            f"results that this program wrote are needed, found '{path}': {problem}"
        ) from None
    return found


def measure_all(
    networks: Sequence[Network], output: Path, most_seconds: float, engines: Sequence[str],
    inductor: Sequence[str] = (), precisions: Collection[str] = PRECISIONS[OURS],
) -> dict[str, Any]:  # fmt: skip
    """Measures what ``output`` has not, as far as the time allows.

    engines: keys of trials.ENGINES. inductor: parts of the names of networks that PyTorch's
        compiler is timed on, too, where it is ready after SLOW_SHARE of the time. precisions: those
        that are timed.
    """
    from tvm_vision import vulkan

    begin = time.monotonic()

    def tell(words: str) -> None:
        click.echo(f"{time.monotonic() - begin:4.0f} s: {words}")

    results: dict[str, Any] = read(output) if output.exists() else {"rows": []}
    results["device"] = vulkan.devices()[0].describe()
    known = {row["name"] for row in results["rows"]}
    left = [network for network in networks if network.name not in known]
    found = versions(ENGINES[name] for name in engines)
    results["engines"] = found
    missing = {
        name: f"not installed: {said}"
        for name in engines
        if (said := found[ENGINES[name]].get("not_installed"))
    }
    planned = []
    slow_until = begin + trials.SLOW_SHARE * most_seconds
    for network, problem in export(left, FOLDER):
        tell(f"{network.name}: {problem or 'is exported'}")
        if problem:
            results["rows"].append(_failed(network, problem))
            continue
        slow = any(part in network.name for part in inductor)
        wanted = [name for name in engines if slow or name != SLOW_TO_LOAD]
        planned.append(trials.plan(network, FOLDER, wanted, missing, tell, precisions, slow_until))
    planned.sort(key=lambda trial: left.index(trial.network))
    try:
        trials.make_ready(planned)
        for some in _groups(planned, trials.TOGETHER):
            if time.monotonic() > begin + most_seconds:
                names = ", ".join(trial.network.name for trial in some)
                tell(f"{names}: not reached; the same command goes on with them")
                continue
            trials.load(some)
            for trial in some:
                row = trial.time()
                results["rows"].append(row)
                write_whole(output, json.dumps(results).encode())
                tell(f"{trial.network.name}: {row}")
    finally:
        for trial in planned:
            trial.close()
    return results


def _failed(network: Network, problem: str) -> dict[str, Any]:
    return {"name": network.name, "shape": network.shape, "failed": {OURS: problem}}


def _groups(planned: Sequence[Trial], size: int) -> Iterator[list[Trial]]:
    left = iter(planned)
    while some := list(islice(left, size)):
        yield some


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", type=PATH, required=False)
@click.option("--output", type=PATH, help="Measure, and write to this file.")
@click.option("--most-seconds", type=float, default=3600.0, show_default=True, help="For all.")
@click.option(
    "--only", multiple=True, metavar="PART",
    help="Networks with this in their name; again for more.  [default: one or a few of a family]",
)  # fmt: skip
@click.option("--more", is_flag=True, help="The networks besides these, too.")
@click.option("--large", is_flag=True, help="Larger networks, images and batches, and no others.")
@click.option(
    "--engine", "engines", multiple=True, type=click.Choice(list(ENGINES)),
    help="Again for more.  [default: all]",
)  # fmt: skip
@click.option(
    "--precision", "precisions", multiple=True, type=click.Choice(PRECISIONS[OURS]),
    help="Again for more; each is compiled first.  [default: all]",
)  # fmt: skip
@click.option(
    "--inductor", multiple=True, metavar="PART",
    help="Time PyTorch's compiler on networks with this in their name, where it is ready after "
    f"{trials.SLOW_SHARE} of the time for all; it takes minutes for each.",
)  # fmt: skip
@click.option("--document", "into", type=PATH, help="Write the tables between its marks there.")
@click.option("--mark", default="zoo", show_default=True, help="The name of those marks.")
def main(
    results: Path | None, output: Path | None, most_seconds: float, only: tuple[str, ...],
    more: bool, large: bool, engines: tuple[str, ...], precisions: tuple[str, ...],
    inductor: tuple[str, ...], into: Path | None, mark: str,
) -> None:  # fmt: skip
    """Measure (--output), or show RESULTS."""
    try:
        if output is not None:
            listed = LARGE if large else NETWORKS if only or more else CORE
            chosen = [n for n in listed if not only or any(part in n.name for part in only)]
            names = engines or tuple(ENGINES)
            found = measure_all(
                chosen, output, most_seconds, names, inductor, precisions or PRECISIONS[OURS]
            )
        elif results is not None:
            found = read(results)
        else:
            raise click.UsageError("RESULTS to show, or --output to measure")
    except TvmVisionError as problem:
        raise click.ClickException(str(problem)) from problem
    text = page(found)
    click.echo(text)
    if into is not None:
        tables = {mark: lambda: text}
        write_whole(into, document(into.read_text("utf-8"), tables, str(into)).encode())


if __name__ == "__main__":
    main()
