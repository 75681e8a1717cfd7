"""``tune_model``: from a model to records of the best schedules, within a time that is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError, TuningError
from ..options import CompileOptions
from .records import METASCHEDULE, STATIC, TEMPLATES, Records, RecordWriter, TuningKey, read_records
from .search import KernelSearch
from .tuner import Tuner, TuningOptions, TuningOutcome, TuningState

if TYPE_CHECKING:
    from .kernels import TunableKernel
    from .measure import DeviceMeasurer
    from .metaschedule import DeepSearch
    from .places import ProcessorHere
    from .worker import MeasureRuns

ELSEWHERE = (
    "tune there, or let it measure for this machine ('tvm-vision rpc-server' there, --tracker here)"
)
# What of a board's these targets are, which are this machine's own without boards.
ASKED_OF_BOARDS = {"auto": "vulkan", "llvm": "llvm", "cpu": "llvm"}


def searches_of(
    kernels: Sequence[TunableKernel],
    known: Records,
    place: TuningKey,
    only: Sequence[str] = (),
    *,
    static: bool = False,
) -> list[KernelSearch]:
    """A search for each kernel that has a choice, with what the records already say.

    known: records of this place count as measured, others as hints. static: those of a model's
        at this place count instead.

    Raises InputError where ``only`` names none of the kernels.
    """
    wanted = [kernel for kernel in kernels if _named(kernel, only)]
    if only and not wanted:
        names = ", ".join(sorted(kernel.job.name for kernel in kernels)[:12])
        raise InputError(f"no kernel is called {' or '.join(only)}: there are {names}")
    searches = []
    for kernel in wanted:
        if len(kernel.decisions) < 2:
            continue
        key = kernel.job.key
        search = KernelSearch(
            key, kernel.job.name, kernel.calls, kernel.decisions, known.hints(key, place)
        )
        for record in known.modelled_for(place) if static else known.at(place):
            if record.kernel == key and record.place == place:
                # What was never compared with the reference was no better than the best of then.
                least = 0.0 if record.checked or static else search.best_seconds
                search.report(record.decision, max(record.best, least))
        searches.append(search)
    return searches


def _named(kernel: TunableKernel, only: Sequence[str]) -> bool:
    names = (kernel.job.name, *kernel.nodes)
    return not only or any(part in name for part in only for name in names)


@dataclass(frozen=True)
class TuningNetwork:
    """A model's kernels on a target.

    Attributes:
        target: tvm.target.Target.
        place: where measurements of it hold.
        kernels: all that a run calls, each structure once.
        options: by which it is compiled.
    """

    target: Any
    place: TuningKey
    kernels: Sequence[TunableKernel]
    options: CompileOptions

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        target: Any = "auto",
        input_shapes: Mapping[str, Sequence[int]] | None = None,
        input_values: Mapping[str, Any] | None = None,
        options: CompileOptions | Mapping[str, Any] | None = None,
        processor: ProcessorHere | None = None,
        **given: Any,
    ) -> TuningNetwork:
        """Arguments as for ``tvm_vision.compile``; processor: as for ``place_of``."""
        from ..compiler import parse_target, prepare
        from ..frontend.model import import_model
        from ..schedules import limits_of
        from .kernels import tunable_kernels
        from .places import place_of

        chosen = parse_target(target)
        how = CompileOptions.of(options, **given)
        module, _ = import_model(model, input_shapes=input_shapes, input_values=input_values)
        graph = prepare(module, target=chosen, options=how)
        kernels = tunable_kernels(graph, limits_of(chosen, how))
        return cls(chosen, place_of(chosen, how.precision, processor), kernels, how)


def reason_not_to_tune(target: Any) -> tuple[str, bool]:
    """Why a target should not be tuned without being asked for, and whether asking does not help;
    "" for a GPU of this machine."""
    from .. import vulkan
    from ..compiler import parse_target
    from ..compiler.target import what_is_elsewhere

    chosen = parse_target(target)
    name = str(chosen.attrs.get("device_name", ""))
    if missing := what_is_elsewhere(chosen):
        return f"{missing} is not here: {ELSEWHERE}", True
    if "gpu" not in chosen.keys:
        return "it is compiled for the CPU, whose first choices are close to the best", False
    if any(device.is_cpu and device.name == name for device in vulkan.devices()):
        return f"{name} is a CPU, whose times say nothing about GPUs", False
    return "", False


def tune_model(
    model: Any,
    *,
    records: str | os.PathLike[str],
    prior: Sequence[str | os.PathLike[str]] = (),
    tuning: TuningOptions | None = None,
    timing: MeasureRuns | None = None,
    tracker: tuple[str, int, str] | None = None,
    search: str = TEMPLATES,
    tell: Callable[[TuningState], object] = lambda state: None,
    target: Any = "auto",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Mapping[str, Any] | None = None,
    opt_level: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    options: CompileOptions | Mapping[str, Any] | None = None,
) -> TuningOutcome:
    """Search for the best schedules of a model's kernels and keep what is found.

    model, target, input_shapes, input_values, opt_level, precision, layout, options: as for
        ``tvm_vision.compile``.
    records: a file of records; what is in it counts, what is measured is appended. It is complete
        after every measurement: an interrupted search goes on where it was.
    prior: more files of records to start from.
    tuning: how long to search, and where.
    timing: how often a candidate is run.
    tracker: host, port and key of boards that measure instead of this machine; where the target is
        "auto" (their GPU) or "llvm" (their processor), one of them tells it.
    search: "templates", or "metaschedule" for TVM's own search, on GPUs; "static" ranks the
        templates' candidates by a model of the target's device, which need not be here. Nothing is
        run then: what it chooses counts where nothing was measured.
    tell: called with a TuningState after each measurement.

    Raises InputError, TuningError, DeviceError, UnsupportedModelError.
    """
    from ..compiler.target import parse_host, what_is_elsewhere
    from .measure import LOCAL, DeviceMeasurer
    from .rpc import count_boards, remote_processor, remote_target
    from .worker import Board, MeasureRuns

    if search not in (TEMPLATES, METASCHEDULE, STATIC):
        raise InputError(
            f"a search of {TEMPLATES}, {METASCHEDULE} or {STATIC} is needed, found '{search}'"
        )
    if search == STATIC and tracker is not None:
        raise InputError("a static search measures nothing: leave the boards of a tracker out")
    tuning = tuning or TuningOptions()
    known = read_records(records, missing_ok=True)
    for path in prior:
        known.add(read_records(path))
    boards: Sequence[Board] = (LOCAL,)
    processor = None
    if tracker is not None:
        boards = (Board(*tracker),) * count_boards(*tracker)
        if isinstance(target, str) and target in ASKED_OF_BOARDS:
            target = remote_target(*tracker, ASKED_OF_BOARDS[target])
        processor = remote_processor(*tracker)
    found = TuningNetwork.of(
        model,
        target=target,
        input_shapes=input_shapes,
        input_values=input_values,
        options=options,
        opt_level=opt_level,
        precision=precision,
        layout=layout,
        processor=processor,
    )
    static = search == STATIC
    if search == METASCHEDULE and "gpu" not in found.target.keys:
        raise InputError(
            "a target with a GPU is needed for MetaSchedule's search, found "
            f"{found.target.kind.name}: search the templates"
        )
    missing = what_is_elsewhere(found.target)
    if missing and not static and tracker is None:
        raise TuningError(f"tuning measures on the device, and {missing} is not here: {ELSEWHERE}")
    searches = searches_of(found.kernels, known, found.place, tuning.only, static=static)
    jobs = {kernel.job.key: kernel.job for kernel in found.kernels}
    if static:
        from .static_measure import StaticMeasurer

        # Only what a driver makes of the kernels counts: the host that launches them may be any.
        here = found.target.with_host(parse_host("llvm"))
        measurer: DeviceMeasurer = StaticMeasurer.for_target(here, options=found.options)
    else:
        measurer = DeviceMeasurer.of(
            found.target, timing or MeasureRuns(), boards, options=found.options
        )
    with RecordWriter(records) as writer, closing(measurer):
        tuner = Tuner(searches, jobs, measurer, writer.write, found.place, tuning, tell)
        if static:
            tuner.by = STATIC
        if search == METASCHEDULE:
            tuner.deep = _deep(found, known, measurer, tuning)
        return tuner.run()


def _deep(
    network: TuningNetwork, known: Records, measurer: DeviceMeasurer, tuning: TuningOptions
) -> DeepSearch:
    from .metaschedule import DeepSearch, Effort

    return DeepSearch(
        functions={kernel.job.key: kernel.function for kernel in network.kernels},
        target=network.target,
        runners=measurer.metaschedule_runners(),
        start_process=measurer.start_process,
        effort=Effort.within(tuning.time_budget),
        past=known.at(network.place).items,
    )


def list_kernels(model: Any, *, only: Sequence[str] = (), **network: Any) -> list[KernelSummary]:
    """The kernels that can be tuned, those that are called most first; arguments as tune_model."""
    found = TuningNetwork.of(model, **network)
    return [
        KernelSummary(kernel.job.name, kernel.calls, len(kernel.decisions), kernel.nodes)
        for kernel in found.kernels
        if len(kernel.decisions) > 1 and _named(kernel, only)
    ]


@dataclass(frozen=True)
class KernelSummary:
    """A kernel by its name, calls in a run of the network, candidates and nodes."""

    name: str
    calls: int
    candidates: int
    nodes: tuple[str, ...]
