"""Whether kernels of few waves would be faster with more, as their device's driver compiles them.

    python -m benchmarks.more_waves after.json --device renoir,phoenix --network squeezenet1_1

Reads what ``benchmarks.static --json`` wrote. Of each kernel with less than four waves a SIMD the
likeliest tiles that are estimated to have four are compiled, and the model times them as it timed
the kernel. Those that turn out to have four waves and to be faster are listed: by the model such a
kernel has the wrong tile. Ends with 1 where there are any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tvm_vision.errors import TvmVisionError
from tvm_vision.offline.report import FEW_WAVES
from tvm_vision.schedules import ScheduleConfig
from tvm_vision.schedules.cost import coopmat_gemm, direct_conv
from tvm_vision.schedules.cost.device_model import DeviceModel
from tvm_vision.schedules.templates import shape_of
from tvm_vision.tools.table import table
from tvm_vision.tuning.kernels import TunableKernel
from tvm_vision.tuning.static_measure import StaticMeasurer

from .few_waves import Frame, estimated_waves, few_kernels, network_of

# As fast, by a model whose estimates of instructions are off by 4 to 19 % (benchmarks/static.md).
ALIKE = 0.05
HEADER = ("network", "precision", "device", "kernel", "waves", "us", "of four: waves", "us", "")


@dataclass(frozen=True)
class Compared:
    """A kernel of few waves beside the fastest tile of four that was compiled.

    Attributes:
        name: of the kernel.
        waves, seconds: of it; ``more`` and ``other`` of that tile, 0 where none has four waves.
        choice: that tile; None where there is none.
    """

    name: str
    waves: float
    seconds: float
    more: float = 0.0
    other: float = 0.0
    choice: ScheduleConfig | None = None

    @property
    def wrong(self) -> bool:
        """Whether more waves are faster by more than ALIKE."""
        return self.choice is not None and self.other < (1 - ALIKE) * self.seconds


def tiles_of_more(kernel: TunableKernel, device: DeviceModel, most: int) -> list[ScheduleConfig]:
    """The likeliest tiles of each template that are estimated to have four waves."""
    found: dict[str, list[ScheduleConfig]] = {}
    for decision in kernel.decisions:
        choice = ScheduleConfig.from_dict(dict(decision))
        waves = _waves(choice, kernel, device)
        if waves is not None and waves >= FEW_WAVES:
            found.setdefault(choice.template, []).append(choice)
    return [choice for choices in found.values() for choice in choices[:most]]


def _waves(choice: ScheduleConfig, kernel: TunableKernel, device: DeviceModel) -> float | None:
    tile = choice.parameters
    if choice.template == "contraction":
        return estimated_waves(tile, shape_of(choice.template, kernel.function), device)
    if choice.template == "coopmat_gemm":
        return coopmat_gemm.waves(tile, device)
    if choice.template == "direct_conv":
        return direct_conv.waves(tile, shape_of(choice.template, kernel.function), device)
    return None


def compared(
    frame: Frame, most: int, measurer: StaticMeasurer | None = None, only: int | None = None
) -> Iterator[Compared]:
    """Each kernel of few waves of a frame, with the best of four that was compiled.

    most: tiles of each template. only: so many kernels, the longest first.

    Raises TvmVisionError where the network or a tile cannot be compiled.
    """
    few = few_kernels(frame)
    network, device = network_of(frame)
    order = sorted(few, key=lambda name: -_seconds(few[name]))[:only]
    kernels = {kernel.job.name: kernel for kernel in network.kernels}
    with closing(
        measurer or StaticMeasurer.for_target(network.target, options=network.options)
    ) as measuring:
        for name in order:
            tiles = tiles_of_more(kernels[name], device, most) if name in kernels else []
            yield _compared(name, few[name], tiles, kernels.get(name), measuring)


def _compared(
    name: str,
    kernel: Mapping[str, Any],
    tiles: Sequence[ScheduleConfig],
    tunable: TunableKernel | None,
    measurer: StaticMeasurer,
) -> Compared:
    now = Compared(name, kernel["occupancy"]["per_simd"], _seconds(kernel))
    best = now
    if tunable is None or not tiles:
        return now
    results = measurer.measure(tunable.job, [tile.to_dict() for tile in tiles])
    with closing(results):
        for result in results:
            if not result.seconds or (best.choice is not None and result.best >= best.other):
                continue
            modelled = measurer.modelled(result.library, tunable.job.arguments)
            waves = modelled[0][0].occupancy.per_simd
            if waves >= FEW_WAVES:
                choice = ScheduleConfig.from_dict(dict(result.decision))
                best = Compared(now.name, now.waves, now.seconds, waves, result.best, choice)
    return best


def _seconds(kernel: Mapping[str, Any]) -> float:
    """Of one launch."""
    launches = kernel["launches"]
    return float(kernel["seconds"]) / len(launches)


def _row(frame: Frame, each: Compared) -> tuple[str, ...]:
    head = (frame["network"], frame["precision"], frame["device"], each.name[:48])
    now = (f"{each.waves:g}", f"{1e6 * each.seconds:.1f}")
    if each.choice is None:
        return (*head, *now, "", "", "none of four")
    return (
        *head, *now, f"{each.more:g}", f"{1e6 * each.other:.1f}", "FASTER" if each.wrong else "",
    )  # fmt: skip


@click.command()
@click.argument("frames", type=click.Path(path_type=Path, exists=True))
@click.option("--device", "devices", default="renoir,phoenix", show_default=True)
@click.option("--network", "networks", help="Of these alone, several with commas.")
@click.option("--precision", "precisions", default="fp32,fp16", show_default=True)
@click.option("--tiles", default=2, show_default=True, help="Of each template, to compile.")
@click.option("--kernels", "only", type=int, help="Only so many of each network, the longest.")
def main(
    frames: Path, devices: str, networks: str | None, precisions: str, tiles: int, only: int | None
) -> None:
    """Compile tiles of four waves for kernels of fewer, and compare what the model says."""
    lines, wrong = [], 0
    try:
        for frame in json.loads(frames.read_text()):
            chosen = frame["device"] in devices.split(",") and frame["precision"] in precisions
            if not chosen or (networks and frame["network"] not in networks.split(",")):
                continue
            for each in compared(frame, tiles, only=only):
                lines.append(_row(frame, each))
                wrong += each.wrong
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.more_waves: {error}") from None
    for line in table(HEADER, lines, left=4):
        click.echo(line)
    click.echo(f"{len(lines)} kernels of few waves, {wrong} of them faster with four, by the model")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main(prog_name="benchmarks.more_waves")
