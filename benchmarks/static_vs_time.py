"""How well rankings of candidates that were made without a device agree with measured time.

    python -m benchmarks.static_vs_time --most-seconds 140 --output times.json
    python -m benchmarks.static_vs_time times.json --walk phoenix --most-seconds 1200
    python -m benchmarks.static_vs_time times.json --document benchmarks/static.md

The first, on a machine with the device: builds candidates of the kernels of ranked_kernels.py on
all cores, times them one after another, and writes down what was measured and what costs say. What
is not reached in time is left out, and what was measured is on the disk. The second, on any machine
with the drivers of ``benchmarks.static``: what AMD's compiler makes of the same candidates goes
through the model of ``tune --static``, with the numbers of the device that was measured. Each
prints how the orders agree.

Ways to rank:
    costs: the order in which the device's templates offer their candidates.
    costs, AMD: estimated cycles by the costs that are AMD's, with the units of the device.
    walk: modelled seconds of the machine code that AMD's compiler makes.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
from tvm.s_tir import Schedule

from tvm_vision.compiler import parse_target
from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.offline.machines import Machine
from tvm_vision.schedules import ScheduleConfig, TargetLimits
from tvm_vision.schedules.cost.device_model import GCN, RDNA3_DIRECT, RDNA3_GEMM
from tvm_vision.schedules.templates import TEMPLATES
from tvm_vision.tools.table import table
from tvm_vision.tuning.kernels import TunableKernel
from tvm_vision.tuning.measure import LOCAL, Decision, DeviceMeasurer, Measured, MeasureJob
from tvm_vision.tuning.session import TuningNetwork
from tvm_vision.tuning.static_measure import StaticMeasurer
from tvm_vision.tuning.worker import MeasureRuns
from tvm_vision.whole_files import write_whole

from .fit_costs import CYCLES
from .rank_agreement import (
    CHOSEN_HEADER,
    HEADER,
    LEAST,
    Ranked,
    RankedKernel,
    agreements,
    chosen_rows,
    rows,
)
from .ranked_kernels import LAYERS, Layer, layer_of, model_of

PATH = click.Path(path_type=Path)
PRECISIONS = ("fp32", "fp16")
COSTS, AMD_COSTS, WALK = "costs", "costs, AMD", "walk"
WAYS = (COSTS, AMD_COSTS, WALK)
HANGING = 20.0  # seconds of a candidate to be built, or loaded and timed

# What the model of `tune --static` takes a measured GPU for: its data sheet and programming guide
# (NVIDIA, H100 whitepaper, 2022; CUDA C++ Programming Guide, "Compute Capability 9.0"). 132 units
# of four schedulers, each with 16,384 registers and 16 waves of 32 lanes; 228 KiB of shared memory
# a unit, 128 bytes a cycle. Two thirds of the memory's bandwidth, and latencies, are as
# machines.py assumes them; a product of matrices takes twice the data sheet's time. The launch was
# measured (benchmarks/static.md). Nothing is fitted to the times that it is compared with.
_HOPPER = Machine(
    "h200", "NVIDIA H200", "RDNA3", 132, 1.98e9, simds=4, lanes=32, slots=16, registers=256,
    granule=4, groups=32, cache_rate=128, issue=1, bandwidth=3.2e12, matrix=16,
    shared_bytes=233_472, shared_granule=1024, launch=1.9e-6,
)  # fmt: skip
MACHINES = {
    "NVIDIA H200": _HOPPER,
    "NVIDIA H100": replace(_HOPPER, device="h100", title="NVIDIA H100", bandwidth=2.2e12),
}


@dataclass
class Study:
    """What was compared, as it lies on the disk.

    Attributes:
        device, driver: that were measured.
        target: JSON of what the candidates were built for.
        layers: names of those that were asked for.
        most: candidates of a kernel's first template; of others half.
        kernels: all of them, measured or not.
    """

    device: str
    driver: str
    target: str
    layers: list[str]
    most: int
    kernels: list[RankedKernel]

    @classmethod
    def read(cls, path: Path) -> Study:
        """Raises InputError where it is no file of this program."""
        try:
            data = json.loads(path.read_text())
            kernels = [
                RankedKernel(**{**k, "candidates": [Ranked(**c) for c in k["candidates"]]})
                for k in data.pop("kernels")
            ]
            return cls(**data, kernels=kernels)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"a file that this program wrote is needed, found '{path}': {error}"
            ) from None

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        write_whole(path, json.dumps(asdict(self)).encode())


def spread(count: int, most: int) -> list[int]:
    """Places to compare among ``count``: half of ``most`` from the top, the others evenly from
    there to the end."""
    taken = min(count, most)
    top = (taken + 1) // 2
    left, rest = taken - top, count - top
    return [*range(top), *(top + (2 * i + 1) * rest // (2 * left) for i in range(left))]


def prepared(
    layers: Sequence[Layer], precision: str, target: Any, most: int
) -> tuple[TuningNetwork, list[RankedKernel], dict[str, MeasureJob]]:
    """The kernels of layers that have a choice, each with candidates to compare and its job."""
    network = TuningNetwork.of(model_of(tuple(layers)), target=target, precision=precision)
    limits = TargetLimits.of(network.target)
    found, jobs = [], {}
    for kernel in network.kernels:
        layer = layer_of(kernel.nodes)
        candidates = list(_candidates(kernel, limits, most)) if layer else []
        if candidates:
            jobs[kernel.job.key] = kernel.job
            about = (layer, kernel.job.name, kernel.job.key, precision)
            found.append(RankedKernel(*about, dict(kernel.decisions[0]), candidates))
    return network, found, jobs


def _candidates(kernel: TunableKernel, limits: TargetLimits, most: int) -> Iterator[Ranked]:
    """Of the template that comes first, and of others that have costs."""
    offered: dict[str, list[Decision]] = {}
    for decision in kernel.decisions:
        offered.setdefault(str(decision["template"]), []).append(decision)
    for number, (template, decisions) in enumerate(offered.items()):
        if len(decisions) < LEAST or (number and template not in CYCLES):
            continue
        for place in spread(len(decisions), most if number == 0 else most // 2):
            decision = dict(decisions[place])
            said = {COSTS: float(place), **_amd_costs(kernel, decision, limits)}
            yield Ranked(template, decision, place, len(decisions), said)


def _amd_costs(kernel: TunableKernel, decision: Decision, limits: TargetLimits) -> dict[str, float]:
    """Estimated cycles by the costs that were fitted to what AMD's compiler makes of tiles."""
    template = str(decision["template"])
    if template not in CYCLES:
        return {}
    shape = TEMPLATES[template].shape_of(Schedule(kernel.function))
    tile = ScheduleConfig.from_dict(dict(decision)).parameters
    device = replace(limits.device, gemm=GCN, coopmat=RDNA3_GEMM, direct_conv=RDNA3_DIRECT)
    return {AMD_COSTS: CYCLES[template](tile, shape, device)}


def results(
    kernels: Sequence[RankedKernel],
    jobs: dict[str, MeasureJob],
    measurer: DeviceMeasurer,
    end: float,
) -> Iterator[tuple[RankedKernel, list[Measured]]]:
    """A kernel's results as soon as all are there, until ``end`` (of time.monotonic) at the latest,
    whatever hangs; then what there is of the last.

    Raises TuningError where there is no room for libraries."""
    come: queue.Queue[tuple[RankedKernel, Measured] | Exception | None] = queue.Queue()

    def work() -> None:
        try:
            asked = [
                (
                    kernel,
                    measurer.measure(jobs[kernel.key], [c.decision for c in kernel.candidates]),
                )
                for kernel in kernels
            ]
            for kernel, running in asked:
                for result in running:
                    come.put((kernel, result))
            come.put(None)
        except Exception as error:  # which nobody reads once the time is over
            come.put(error)

    threading.Thread(target=work, daemon=True).start()
    last: RankedKernel | None = None
    found: list[Measured] = []
    while True:
        try:
            result = come.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            result = None
        if isinstance(result, Exception):
            raise result
        if last is not None and (result is None or result[0] is not last):
            yield last, found
            found = []
        if result is None:
            return
        last = result[0]
        found.append(result[1])


def measure(output: Path, target: Any, layers: Sequence[Layer], most: int, end: float) -> Study:
    """Times candidates of layers on this machine's device until ``end``; ``output`` is whole after
    each kernel."""
    kernels: list[RankedKernel] = []
    jobs: dict[str, MeasureJob] = {}
    for precision in PRECISIONS:
        network, found, own = prepared(layers, precision, target, most)
        # What computes in float32 in either is measured once.
        kernels += [kernel for kernel in found if kernel.key not in jobs]
        jobs |= own
    order = [layer.name for layer in layers]
    kernels.sort(key=lambda kernel: order.index(kernel.layer))
    place = network.place
    study = Study(place.device, place.driver, str(network.target), order, most, kernels)
    measurer = DeviceMeasurer.of(network.target, MeasureRuns(), (LOCAL,), checks=False)
    measurer.timeout = HANGING
    with closing(measurer):
        for kernel, found_of in results(kernels, jobs, measurer, end):
            for candidate, result in zip(kernel.candidates, found_of, strict=False):
                candidate.seconds, candidate.error = list(result.seconds), result.error
            study.write(output)
            _tell(kernel, found_of)
    study.write(output)
    return study


def walk(study: Study, path: Path, driver: str, end: float) -> None:
    """Adds what the model of ``tune --static`` says of each measured candidate, as the driver of
    ``driver`` compiles it; goes on where it was.

    Raises InputError for a device that is not described here, or candidates that this checkout
    does not make; DeviceError where the driver is missing.
    """
    machine = next((m for name, m in MACHINES.items() if study.device.startswith(name)), None)
    if machine is None:
        known = ", ".join(MACHINES)
        raise InputError(f"numbers of {known} are known to the model, found '{study.device}'")
    layers = [layer for layer in LAYERS if layer.name in study.layers]
    left = [replace(kernel, candidates=_to_walk(kernel)) for kernel in study.kernels]
    jobs: dict[str, MeasureJob] = {}
    for precision in PRECISIONS:
        jobs |= prepared(layers, precision, json.loads(study.target), study.most)[2]
    if missing := [kernel.name for kernel in left if kernel.key not in jobs]:
        raise InputError(
            f"the checkout that was measured with is needed, this one has no {missing[0]}"
        )
    measurer = StaticMeasurer(study.target, "vulkan", device=driver, machine=machine)
    with closing(measurer):
        for kernel, found in results([k for k in left if k.candidates], jobs, measurer, end):
            for candidate, result in zip(kernel.candidates, found, strict=False):
                if result.seconds:
                    candidate.predicted[WALK] = result.best
            study.write(path)
            _tell(kernel, found)


def _to_walk(kernel: RankedKernel) -> list[Ranked]:
    return [each for each in kernel.candidates if each.seconds and WALK not in each.predicted]


def _tell(kernel: RankedKernel, found: Sequence[Measured]) -> None:
    failed = [each.error for each in found if each.error]
    why = f", {len(failed)} failed: {failed[0][:120]}" if failed else ""
    done = len(found) - len(failed)
    click.echo(f"{kernel.layer} {kernel.precision} {kernel.name}: {done}{why}", err=True)


def report(study: Study, kernels: int) -> Iterator[str]:
    """Lines for people."""
    yield f"{study.device}, {study.driver}: {_counts(study)}"
    yield from table(HEADER, rows(agreements(study.kernels, WAYS)), left=3)
    if kernels:
        yield ""
        yield from table(CHOSEN_HEADER, chosen_rows(study.kernels)[:kernels], left=2)


def _counts(study: Study) -> str:
    known = [k for k in study.kernels if any(c.seconds for c in k.candidates)]
    timed = sum(bool(c.seconds) for k in known for c in k.candidates)
    failed = sum(bool(c.error) for k in study.kernels for c in k.candidates)
    return (
        f"{timed} candidates of {len(known)} kernels timed, {failed} failed; "
        f"{len(study.kernels) - len(known)} kernels not reached"
    )


def _document(page: Path, study: Study) -> None:
    """Puts the table between the page's ``<!-- ranking -->`` marks."""
    from scripts.markdown_tables import document
    from scripts.markdown_tables import table as markdown_table

    lines = [tuple(row) for row in rows(agreements(study.kernels, WAYS))]
    made = f"{study.device}, {study.driver}: {_counts(study)}.\n\n"
    made += markdown_table(" | ".join(HEADER), lines)
    text = document(page.read_text("utf-8"), {"ranking": lambda: made}, page.name)
    write_whole(page, text.encode())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("study", required=False, type=PATH)
@click.option("--output", type=PATH, help="Measure, and write to this file.")
@click.option("--most-seconds", type=float, default=600.0, show_default=True, help="For all of it.")
@click.option("--only", multiple=True, help="Layers with this in their name; again for more.")
@click.option("--candidates", type=int, default=12, show_default=True, help="Of a template.")
@click.option("--target", default="auto", help="To measure on, as of tvm-vision compile.")
@click.option("--walk", "driver", help="Model STUDY's candidates as this device's driver has them.")
@click.option("--kernels", type=int, default=12, show_default=True, help="To list, by their loss.")
@click.option("--document", "page", type=PATH, help="Write the table between its marks there.")
def main(
    study: Path | None,
    output: Path | None,
    most_seconds: float,
    only: tuple[str, ...],
    candidates: int,
    target: str,
    driver: str | None,
    kernels: int,
    page: Path | None,
) -> None:
    """Compare rankings with time: of STUDY, or of what is measured now (--output)."""
    end = time.monotonic() + most_seconds
    if (study is None) == (output is None):
        raise click.UsageError("either STUDY, or --output to measure one, is needed")
    layers = [layer for layer in LAYERS if not only or any(part in layer.name for part in only)]
    if not layers:
        raise click.UsageError(f"no layer's name has {' or '.join(only)} in it")
    try:
        if output is not None:
            found = measure(output, parse_target(target), layers, candidates, end)
        else:
            assert study is not None
            found = Study.read(study)
            if driver is not None:
                walk(found, study, driver, end)
        for line in report(found, kernels):
            click.echo(line)
        if page is not None:
            _document(page, found)
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.static_vs_time: {error}") from None


if __name__ == "__main__":
    main(prog_name="benchmarks.static_vs_time")
