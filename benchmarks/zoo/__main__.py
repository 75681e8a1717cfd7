"""Times many networks beside PyTorch's CUDA graph, and sorts them by where ours does worst.

    python -m benchmarks.zoo --output zoo.json --most-seconds 560
    python -m benchmarks.zoo --output zoo.json --inductor --only vit
    python -m benchmarks.zoo zoo.json --document docs/performance/zoo.md

The first, on a machine with the GPU, PyTorch with CUDA, torchvision, timm and transformers: exports
and compiles all networks on all cores, then times them one after another. What was measured is on
the disk; what is not reached in time is said, and the same command goes on with it. With --inductor
PyTorch's compiler is timed, too, which tunes each network for half a minute or more.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from scripts.reference_doc import document
from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.whole_files import write_whole

from . import measure
from .networks import NETWORKS, Network
from .prepare import PRECISIONS, prepare
from .report import page

PATH = click.Path(path_type=Path)
FOLDER = Path("build/zoo")


def measured(
    network: Network, folder: Path, failed: dict[str, str], inductor: bool = False
) -> dict[str, Any]:
    """A row of the results. inductor: whether PyTorch's compiler is timed, too."""
    said = dict(failed)
    row: dict[str, Any] = {"name": network.name, "shape": network.shape, "failed": said}
    image, reference = measure.image_of(network.shape), None
    for precision in PRECISIONS:
        try:
            output, row[f"cuda_{precision}"] = measure.cuda_graph(network.build(), precision, image)
            reference = output if reference is None else reference
        except (AssertionError, RuntimeError) as problem:  # the first in a build without CUDA
            said[f"cuda_{precision}"] = str(problem).partition("\n")[0]
        if inductor:
            row |= compiled_by_inductor(network, precision, image, said)
    for precision in PRECISIONS:
        if precision not in failed:
            package = folder / f"{network.file}_{precision}.tar"
            output, row[precision] = measure.ours(package, image)
            if reference is not None:
                row[precision]["error"] = measure.error(output, reference)
    return row


def compiled_by_inductor(
    network: Network, precision: str, image: measure.Image, said: dict[str, str]
) -> dict[str, Any]:
    """What a row has of PyTorch's compiler; where it fails, ``said`` gets why."""
    name = f"inductor_{precision}"
    try:
        return {name: measure.inductor(network.build(), precision, image)[1]}
    except Exception as problem:  # of a compiler of many parts, each with errors of its own
        said[name] = str(problem).partition("\n")[0]
    return {}


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
    networks: list[Network], output: Path, most_seconds: float, inductor: bool = False
) -> dict[str, Any]:
    """Measures what ``output`` has not, as far as the time allows."""
    from tvm_vision import vulkan

    end = time.monotonic() + most_seconds
    results: dict[str, Any] = read(output) if output.exists() else {"rows": []}
    results["device"] = vulkan.devices()[0].describe()
    known = {row["name"] for row in results["rows"]}
    left = [network for network in networks if network.name not in known]
    made = {}
    for found in prepare(left, FOLDER):
        made[found.network.name] = found
        click.echo(f"compiled {found.network.name}: {found.seconds:.1f} s {found.failed or ''}")
    for network in left:
        if time.monotonic() > end:
            click.echo(f"{network.name}: not reached; the same command goes on with it")
            continue
        found = made[network.name]
        row = measured(network, FOLDER, found.failed, inductor)
        results["rows"].append({**row, "compile_s": found.seconds})
        write_whole(output, json.dumps(results).encode())
        click.echo(f"{network.name}: {row}")
    return results


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", type=PATH, required=False)
@click.option("--output", type=PATH, help="Measure, and write to this file.")
@click.option("--most-seconds", type=float, default=3600.0, show_default=True, help="For all.")
@click.option("--only", multiple=True, help="Networks with this in their name; again for more.")
@click.option("--inductor", is_flag=True, help="Time PyTorch's compiler, too.")
@click.option("--document", "into", type=PATH, help="Write the tables between its marks there.")
@click.option("--mark", default="zoo", show_default=True, help="The name of those marks.")
def main(
    results: Path | None, output: Path | None, most_seconds: float, only: tuple[str, ...],
    inductor: bool, into: Path | None, mark: str,
) -> None:  # fmt: skip
    """Measure (--output), or show RESULTS."""
    try:
        if output is not None:
            chosen = [n for n in NETWORKS if not only or any(part in n.name for part in only)]
            found = measure_all(chosen, output, most_seconds, inductor)
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
