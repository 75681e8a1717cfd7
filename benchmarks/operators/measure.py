"""Compiles single operators and takes their times, by a model or on a device."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import tvm_vision
from tvm_vision.errors import TvmVisionError, UnsupportedModelError
from tvm_vision.evaluate import Reference
from tvm_vision.offline import drivers, machines, model, network, pipelines, survey
from tvm_vision.report.floors import Ceilings, ceilings_of
from tvm_vision.whole_files import ScratchFolder

from .cases import CASES, Case

# Medians of so many runs, of which the least counts: other processes only make them longer.
REPEAT, ROUNDS = 20, 3


@dataclass(frozen=True)
class Row:
    """What an operator takes. Times in microseconds.

    Attributes:
        name: of its case.
        us: of a run; None where there is none, and ``problem`` says why.
        floor_us, bound: see the module; "bytes", "products" or "launch".
        launches: of kernels.
        error: the largest difference from ONNX Runtime over its largest number; None where it was
            not compared.
        longest, longest_us: the kernel that takes the longest.
        problem: "" where all is well.
    """

    name: str
    us: float | None = None
    floor_us: float = 0.0
    bound: str = ""
    launches: int = 0
    error: float | None = None
    longest: str = ""
    longest_us: float = 0.0
    problem: str = ""

    @property
    def ratio(self) -> float:
        """Times its floor; without a time or a floor the worst."""
        return self.us / self.floor_us if self.us is not None and self.floor_us else float("inf")


def compile_case(job: tuple[int, str, str, Any]) -> str:
    """Compiles the case of a number for a target into a file; gives the problem, "" without one."""
    number, output, precision, target = job
    try:
        case = CASES[number]
        tvm_vision.compile(case.model(), output, target=target, precision=precision, name=case.name)
    except TvmVisionError as error:
        return str(error)
    return ""


def compile_all(
    numbers: Sequence[int], folder: Path, target: Any, precision: str, jobs: int
) -> dict[int, str]:
    """Compiles cases by number into ``folder``; gives their problems."""
    work = [(n, str(folder / f"{n}.tar"), precision, target) for n in numbers]
    with ExitStack() as stack:
        mapped: Callable[..., Iterable[str]] = map
        if jobs > 1:
            # Of a process that has started a device nothing may be forked.
            context = multiprocessing.get_context("spawn")
            ignored = (signal.SIGINT, signal.SIG_IGN)
            pool = ProcessPoolExecutor(jobs, context, signal.signal, ignored)
            mapped = stack.enter_context(pool).map
        bar = click.progressbar(mapped(compile_case, work), length=len(work), label="compiling")
        return dict(zip(numbers, stack.enter_context(bar), strict=True))


def model_case(case: Case, package: Path, device: str) -> Row:
    """An operator by the model of a device."""
    found = network.read_network(package)
    compiled = pipelines.compile_kernels(list(found.kernels.values()), drivers.find(device))
    machine = machines.of_target(device, found.target)
    times, lost = _modelled(found, compiled, device)
    kernels: dict[str, float] = {}
    for name, seconds in times:
        kernels[name] = kernels.get(name, 0.0) + 1e6 * seconds
    floats = machine.units * machine.simds * machine.lanes * machine.hertz * 2
    ceilings = Ceilings(
        "", "", machine.bandwidth, {"float32": floats, "float16": 2 * floats}, machine.launch
    )
    row = _row(case, sum(kernels.values()), kernels, ceilings, found.precision)
    problem = f"longer: a loop of {', '.join(lost)}" if lost else ""
    return replace(row, launches=len(times), problem=problem)


def _modelled(
    found: network.Network, compiled: pipelines.Compiled, device: str
) -> tuple[list[tuple[str, float]], list[str]]:
    """Kernel and seconds of each launch, and kernels with loops of unknown length; of Intel's GPUs
    by the model of their own machine code."""
    if device in machines.XE:
        kernels = survey.survey(found, compiled, device)["kernels"]
        launches = [launch for kernel in kernels.values() for launch in kernel["launches"]]
        return [(each["kernel"], each["seconds"]) for each in launches], []
    frame = model.examine(found, compiled, machines.of_target(device, found.target))
    lost = [name for name, kernel in frame.kernels.items() if kernel.unknown]
    return [(each.kernel, each.seconds) for each in frame.launches], lost


def time_case(case: Case, package: Path, precision: str) -> Row:
    """An operator on the device that its package was compiled for."""
    executor = tvm_vision.load(package)
    feed = case.feed()
    for name, value in feed.items():
        executor.set_input(name, value)
    executor.run()
    error = _error(case, feed, executor)
    profiles = [executor.profile(repeat=REPEAT) for _ in range(ROUNDS)]
    best = min(profiles, key=lambda profile: profile.span_us)
    kernels: dict[str, float] = {}
    for kernel in best.kernels:
        kernels[kernel.function] = kernels.get(kernel.function, 0.0) + kernel.median_us
    row = _row(case, best.span_us, kernels, ceilings_of(executor.device), precision)
    return replace(row, launches=len(best.kernels), error=error)


def _row(
    case: Case, us: float, kernels: Mapping[str, float], ceilings: Ceilings, precision: str
) -> Row:
    """A row, the floor of which is by a device's ceilings."""
    longest = max(kernels, key=kernels.__getitem__)
    row = Row(
        case.name, us, launches=len(kernels), longest=longest, longest_us=kernels[longest],
        problem="" if ceilings.known else f"its floor is {ceilings.words}",
    )  # fmt: skip
    if row.problem:
        return row
    inputs, constants, outputs = case.sizes(case.model())
    if precision == "fp16":
        constants //= 2
    if case.is_lookup:
        # Of a table only the rows that are asked for are read.
        constants = min(constants, outputs)
    arithmetic = "float16" if precision == "fp16" else "float32"
    parts = {
        "bytes": (inputs + constants + outputs) / ceilings.bandwidth,
        "products": 2 * case.products / ceilings.rate(arithmetic),
        "launch": ceilings.launch,
    }
    bound = max(parts, key=parts.__getitem__)
    return replace(row, floor_us=1e6 * parts[bound], bound=bound)


def _error(case: Case, feed: Mapping[str, Any], executor: Any) -> float | None:
    """The largest difference from ONNX Runtime; None where it does not know the operator."""
    try:
        expected = Reference(case.model()).run(dict(feed))
    except UnsupportedModelError:
        return None
    found = executor.outputs()
    return max(_difference(found[name], value) for name, value in expected.items())


def _difference(found: Any, expected: Any) -> float:
    """Of the largest number; rows that data decide the number of have space for more."""
    found = found[: len(expected)] if found.ndim and expected.ndim else found
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    return float(np.max(difference) / max(1e-6, float(np.abs(expected).max())))


def measure(
    numbers: Sequence[int], device: str | None, target: str | None, precision: str, jobs: int
) -> list[Row]:
    """Compiles and times cases by number, by the model of ``device`` or on ``target``."""
    with ScratchFolder() as folder:
        problems = compile_all(numbers, folder, device or target, precision, jobs)
        rows = []
        for number in numbers:
            case, package = CASES[number], folder / f"{number}.tar"
            try:
                if problems[number]:
                    rows.append(Row(case.name, problem=problems[number]))
                elif device:
                    rows.append(model_case(case, package, device))
                else:
                    rows.append(time_case(case, package, precision))
            except TvmVisionError as error:
                rows.append(Row(case.name, problem=str(error)))
        return rows
