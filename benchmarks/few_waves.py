"""Which kernels leave a SIMD less than four waves, and what the likeliest tile of four would take.

    python -m benchmarks.few_waves after.json --document benchmarks/static.md

Reads what ``benchmarks.static --json`` wrote of devices whose products are estimated by pipelines
(schedules/cost/gemm_pipelines.py), and sets beside each such kernel the least cycles that the
estimate gives to a tile with four waves and more. Nothing is compiled by a driver.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scripts.markdown_tables import document
from scripts.markdown_tables import table as markdown_table
from tvm_vision.devices import known_devices
from tvm_vision.errors import TvmVisionError
from tvm_vision.offline.report import FEW_WAVES
from tvm_vision.schedules import ScheduleConfig, TargetLimits
from tvm_vision.schedules.common import up
from tvm_vision.schedules.cost.device_model import DeviceModel
from tvm_vision.schedules.cost.gemm import cycles
from tvm_vision.schedules.cost.gemm_pipelines import resident_tiles
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.cost.tile_costs import PipelineCosts
from tvm_vision.schedules.templates import shape_of
from tvm_vision.tools.table import table
from tvm_vision.tuning.session import TuningNetwork
from tvm_vision.whole_files import write_whole

PRODUCTS = "contraction"
MARK = "few waves"
LISTED = ("network", "precision", "device", "kernel", "waves", "by", "held up by", "of four")
HEADER = (
    "network | precision | device | kernels | of few waves | held up by memory | of four, median | "
    "least | most"
)
Frame = dict[str, Any]


@dataclass(frozen=True)
class FewWaves:
    """A kernel of few waves.

    Attributes:
        name: of the kernel.
        waves: of a SIMD, and what keeps it from more.
        held_up: what its longest launch waits for.
        ratio: estimated cycles of the best tile of four waves over its own; None where none is
            offered.
    """

    name: str
    waves: float
    bound: str
    held_up: str
    ratio: float | None


def estimated_waves(tile: GemmTile, shape: Product, device: DeviceModel) -> float:
    """Waves of a scheduler that a tile is estimated to have; of devices with PipelineCosts."""
    costs = device.gemm_costs(shape.fp16)
    assert isinstance(costs, PipelineCosts)
    units = device.units_of(costs)
    groups = resident_tiles(tile, costs, units)
    return groups * up(tile.threads, units.lanes) / units.schedulers


def few_kernels(frame: Frame) -> dict[str, Any]:
    """Those of its kernels that leave a SIMD less than four waves, by the names of functions."""
    return {
        name.removesuffix("_kernel"): kernel
        for name, kernel in frame["kernels"].items()
        if kernel["occupancy"]["per_simd"] < FEW_WAVES
    }


def network_of(frame: Frame) -> tuple[TuningNetwork, DeviceModel]:
    """What was compiled, and what for. Raises TvmVisionError where it cannot be prepared."""
    from .peers.networks import NETWORKS

    network = TuningNetwork.of(
        NETWORKS[frame["network"]].model(),
        target=known_devices()[frame["device"]].target_config(),
        precision=frame["precision"],
    )
    return network, TargetLimits.of(network.target).device


def few_waves(frame: Frame) -> list[FewWaves]:
    """Its kernels of few waves, with what the estimate says of more.

    Raises TvmVisionError where the network cannot be prepared for the frame's device.
    """
    few = few_kernels(frame)
    network, device = network_of(frame)
    ratios = {
        kernel.job.name: _ratio(kernel.function, kernel.decisions, device)
        for kernel in network.kernels
        if kernel.job.name in few
    }
    return [
        FewWaves(
            name, kernel["occupancy"]["per_simd"], kernel["occupancy"]["bound"],
            max(kernel["launches"], key=lambda each: each["seconds"])["bound"], ratios.get(name),
        )
        for name, kernel in few.items()
    ]  # fmt: skip


def _ratio(function: Any, decisions: Sequence[Any], device: DeviceModel) -> float | None:
    tiles = [
        ScheduleConfig.from_dict(dict(each)).parameters
        for each in decisions
        if each["template"] == PRODUCTS
    ]
    shape = shape_of(PRODUCTS, function)
    more = [tile for tile in tiles if estimated_waves(tile, shape, device) >= FEW_WAVES]
    if not more:
        return None
    best = min(cycles(tile, shape, device) for tile in more)
    return best / min(cycles(tile, shape, device) for tile in tiles)


def summary(frame: Frame, few: Sequence[FewWaves]) -> tuple[str, ...]:
    """A line of the table below HEADER."""
    ratios = [each.ratio for each in few if each.ratio is not None]
    numbers = (statistics.median(ratios), min(ratios), max(ratios)) if ratios else ()
    held = sum(each.held_up == "memory" for each in few)
    counts = (len(frame["kernels"]), len(few), held)
    head = (frame["network"], frame["precision"], frame["device"], *map(str, counts))
    return (*head, *(f"{number:.2f}" for number in numbers), *[""] * (3 - len(numbers)))


def _listed(frame: Frame, few: Sequence[FewWaves]) -> Iterator[tuple[str, ...]]:
    head = (frame["network"], frame["precision"], frame["device"])
    for each in few:
        ratio = "" if each.ratio is None else f"{each.ratio:.3f}"
        yield (*head, each.name[:48], f"{each.waves:g}", each.bound, each.held_up, ratio)


@click.command()
@click.argument("frames", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
@click.option("--device", default="renoir", show_default=True)
@click.option("--document", "page", type=click.Path(path_type=Path, exists=True))
def main(frames: tuple[Path, ...], device: str, page: Path | None) -> None:
    """List the kernels of few waves of FRAMES, files of ``benchmarks.static --json``."""
    found = []
    try:
        for path in frames:
            for frame in json.loads(path.read_text()):
                if frame["device"] == device:
                    found.append((frame, few_waves(frame)))
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.few_waves: {error}") from None
    lines = [line for frame, few in found for line in _listed(frame, few)]
    for line in table(LISTED, lines, left=4):
        click.echo(line)
    if page is not None:
        made = markdown_table(HEADER, [summary(frame, few) for frame, few in found])
        text = document(page.read_text("utf-8"), {MARK: lambda: made}, page.name)
        write_whole(page, text.encode())


if __name__ == "__main__":
    main(prog_name="benchmarks.few_waves")
