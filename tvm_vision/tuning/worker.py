"""What runs in processes of its own: building, measuring and running one candidate.

A candidate that hangs or crashes takes its process with it, not the search.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from ..errors import DeviceLostError
from ..linking import link_library
from ..options import CompileOptions
from ..runtime.library import load_library
from ..whole_files import hold
from .busy import MOST_SECONDS, Busy, device_to_itself

ENTRY = "kernel"
SEED = 7
WARM_UP_MS = 20
FEWEST_RUNS, MOST_RUNS = 4, 1000  # on a processor: for each that counts, and of a candidate

# What a process keeps: the arguments of the last kernel, and the last two libraries by their path.
_KEPT: dict[Any, list[Any]] = {}
_LIBRARIES: dict[str, Any] = {}
_BUSY: list[Busy] = []  # what keeps the device busy now


@dataclass(frozen=True)
class Argument:
    """A tensor that a kernel takes: its shape, type, and whether the kernel writes it.

    values: those of a small constant of integers, which schedules may know; else there are none.
    """

    shape: tuple[int, ...]
    dtype: str
    written: bool
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class MeasureRuns:
    """How often a kernel is run for one measurement, as TVM's time_evaluator has it.

    repeat: measurements, of which the median of each counts.
    number: runs in each, more where they take less than ``min_repeat_ms`` together.
    """

    repeat: int = 3
    number: int = 1
    min_repeat_ms: int = 5


@dataclass(frozen=True)
class Board:
    """A machine behind an RPC tracker; without one the device is this machine's own."""

    host: str = ""
    port: int = 0
    key: str = ""
    patience: int = 60


# The lock of a device that processes share, and seconds to wait for it: see device_to_itself.
Alone = tuple[str, float]
SHARED_WITH_NOBODY: Alone = ("", 0.0)
CPU_THREADS = "tvm_vision.runtime.cpu_threads"  # of the native library
METASCHEDULE_BUILD = "tvm_vision.tuning.build"


def start(folder: str) -> None:
    """Registers the Vulkan backend in a new process, and how MetaSchedule builds there.

    folder: a scratch folder for all temporary files of the process, TVM's and the linker's too.
    """
    use_scratch(folder)
    # Who started it ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Thousands of candidates would push out what networks keep.
    os.environ["TVM_VISION_CACHE_DIR"] = ""
    import tvm_vision.vulkan  # noqa: F401

    tvm_ffi.register_global_func(METASCHEDULE_BUILD, _build_module, override=True)


def use_scratch(folder: str) -> None:
    """Put this process's temporary files, and those of what it starts, into a scratch folder of the
    process that started it, which stays until both are gone."""
    hold(Path(folder))
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def _build_module(module: Any, target: Any, params: Any) -> Any:
    """As TVM's own, which would parse hundreds of intrinsics first: 16 s in each process."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.tirx.build(module, target=target)


def build(
    function: str,
    decision: Mapping[str, Any],
    target: str,
    folder: str,
    options: CompileOptions | None = None,
) -> str:
    """Schedule and compile a kernel; the path of a library with the function ENTRY.

    function: TVM's JSON of a PrimFunc without schedule. decision: of a ``ScheduleConfig``; none
        leaves the order of the sums as it is. target: as ``str(Target)`` writes it. options: of
        the network's compilation.
    """
    from tvm.target import Target
    from tvm_ffi.serialization import from_json_graph_str

    from ..compiler import build_function
    from ..schedules import ScheduleConfig

    kernel = from_json_graph_str(function)
    choice = ScheduleConfig.from_dict(dict(decision)) if decision else None
    if choice is None:
        kernel = _on_all_cores(kernel)
    library = build_function(kernel, Target(target), choice, name=ENTRY, options=options)
    handle, path = tempfile.mkstemp(suffix=".so", dir=folder)
    os.close(handle)
    library.export_library(path, fcompile=link_library)
    return path


def _on_all_cores(kernel: Any) -> Any:
    """A function for processors, its outermost loop over outputs in parallel, else as it is."""
    from tvm import tirx
    from tvm.s_tir import Schedule, ScheduleError

    schedule = Schedule(kernel)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        body, loops = schedule.get(block), schedule.get_loops(block)
        kinds = [axis.iter_type for axis in body.iter_vars]
        if len(kinds) != len(loops):
            continue
        outer = 0
        while outer < len(kinds) - 1 and kinds[outer] == tirx.IterVar.DataPar:
            outer += 1
        with suppress(ScheduleError):
            if outer:
                schedule.parallel(schedule.fuse(*loops[:outer]))
    return schedule.mod["main"]


def measure(
    path: str,
    kind: str,
    arguments: Sequence[Argument],
    timing: MeasureRuns,
    limit: float,
    alone: Alone,
    board: Board,
) -> list[float] | None:
    """Seconds of one run on the device, a value for each repeat; None where it was not to be had.

    A first look wakes the device, which may clock lower while it is idle; where that took longer
    than ``limit`` seconds a run, it is all there is. This machine's own GPU is kept busy from one
    measurement to the next.
    """
    with _loaded(path, kind, board) as (library, device):
        tensors = _inputs(arguments, device, keep=not board.key)
        if kind == "vulkan" and not board.key:
            _load_and_rest(library, device)
        with device_to_itself(*alone) as ours:
            if not ours:
                return None
            if kind == "llvm":
                found = _quickest(library, device, tensors, timing, limit)
            else:
                found = _seconds(library, device, tensors, timing, limit)
        if _idles(kind, board):
            _keep_busy(partial(library[ENTRY], *tensors), device, min(found), alone)
        return found


def evaluate(
    alone: Alone, library: Any, device: Any, config: Any, arguments: Sequence[Sequence[Any]]
) -> list[float]:
    """As MetaSchedule's own measurement, under the conditions of ``measure``."""
    from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common

    _load_and_rest(library, device)
    with device_to_itself(*alone) as ours:
        if not ours:
            raise TimeoutError(f"the device was not to be had in {alone[1]:g} s")
        costs = list(run_evaluator_common(library, device, config, arguments))
    if _idles("vulkan", Board()):
        run = partial(library[library.entry_name], *arguments[0])
        _keep_busy(run, device, min(costs), alone)
    return costs


def _load_and_rest(library: Any, device: Any) -> None:
    """Compiles a library for the device, which then has nothing to do."""
    tvm_ffi.get_global_func("tvm_vision.vulkan.prepare")(library, device.index)
    _rest()


def _rest() -> None:
    while _BUSY:
        _BUSY.pop().stop()


# A thread that comes back from C++ into an interpreter that is ending takes the process with it.
atexit.register(_rest)


def _keep_busy(run: Callable[[], Any], device: Any, seconds: float, alone: Alone) -> None:
    _BUSY.append(Busy(run, device.sync, seconds, MOST_SECONDS, alone[0]))


def _seconds(
    library: Any, device: Any, tensors: list[Any], timing: MeasureRuns, limit: float
) -> list[float]:
    def seconds(number: int, repeat: int, least_ms: int) -> list[float]:
        evaluate = library.time_evaluator(
            ENTRY, device, number=number, repeat=repeat, min_repeat_ms=least_ms
        )
        return [float(value) for value in evaluate(*tensors).results]

    look = seconds(1, 1, min(WARM_UP_MS, timing.min_repeat_ms * timing.repeat))
    if look[0] > limit:
        return look
    if timing.number == 1 and 1e3 * look[0] >= timing.min_repeat_ms:
        return look + (seconds(1, timing.repeat - 1, 0) if timing.repeat > 1 else [])
    return seconds(timing.number, timing.repeat, timing.min_repeat_ms)


def _quickest(
    library: Any, device: Any, tensors: list[Any], timing: MeasureRuns, limit: float
) -> list[float]:
    """Of a processor: the quickest of all runs that the same time has room for, each by itself.

    What else the processor does only ever lengthens a run, and a mean by whatever there is of it.
    """

    def seconds(number: int, repeat: int) -> list[float]:
        evaluate = library.time_evaluator(ENTRY, device, number=number, repeat=repeat)
        return sorted(float(value) for value in evaluate(*tensors).results)

    look = seconds(1, FEWEST_RUNS)[0]
    if look > limit:
        return [look]
    room = 1e-3 * timing.repeat * timing.min_repeat_ms / (look * timing.number)
    runs = int(min(max(room, FEWEST_RUNS * timing.repeat), MOST_RUNS))
    return seconds(timing.number, runs)[: timing.repeat]


def _idles(kind: str, board: Board) -> bool:
    """Whether a device is a GPU of this machine, which rests while the next candidate loads."""
    from tvm_vision import vulkan

    return kind == "vulkan" and not board.key and not vulkan.devices()[0].is_cpu


def outputs(
    path: str, kind: str, arguments: Sequence[Argument], alone: Alone, board: Board
) -> list[np.ndarray] | None:
    """What a kernel makes of the inputs that ``random_array`` gives: its written tensors.

    None where the device was not to be had.
    """
    import tvm

    with _loaded(path, kind, board) as (library, device):
        tensors = _inputs(arguments, device, keep=not board.key)
        for number, argument in enumerate(arguments):
            if argument.written:
                tensors[number] = tvm.runtime.tensor(random_array(argument, number), device)
        with device_to_itself(*alone) as ours:
            if not ours:
                return None
            library[ENTRY](*tensors)
            device.sync()
        written = zip(tensors, arguments, strict=True)
        return [tensor.numpy() for tensor, argument in written if argument.written]


def random_array(argument: Argument, number: int) -> np.ndarray:
    """The values of the argument of that number: the same in every process.

    Constants as they are; floats in -1..1; all int8, which are quantized numbers; other integers in
    0..3, which index safely into whatever has four or more entries. Written tensors start as NaN or
    77, so that what is left unwritten shows.
    """
    dtype = np.dtype(argument.dtype)
    if argument.values:
        return np.array(argument.values, dtype).reshape(argument.shape)
    if argument.written:
        return np.full(argument.shape, np.nan if dtype.kind == "f" else 77).astype(dtype)
    random = np.random.default_rng(SEED + number)
    if dtype.kind == "f":
        return random.uniform(-1.0, 1.0, argument.shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, argument.shape).astype(dtype)
    low, high = (-128, 128) if dtype == np.int8 else (0, 4)
    return random.integers(low, high, argument.shape).astype(dtype)


def _inputs(arguments: Sequence[Argument], device: Any, *, keep: bool) -> list[Any]:
    """The arguments on a device; the process keeps them for the kernel's next candidate."""
    import tvm

    key = (str(device), tuple(arguments))
    if keep and key in _KEPT:
        return list(_KEPT[key])
    _KEPT.clear()
    tensors = [
        tvm.runtime.tensor(random_array(argument, number), device)
        for number, argument in enumerate(arguments)
    ]
    if keep:
        _KEPT[key] = tensors
    return list(tensors)


def _local_device(kind: str) -> Any:
    import tvm

    return tvm.device("cpu" if kind == "llvm" else kind, 0)


def connect(host: str, port: int) -> Any:
    """A session with a tracker: tvm.rpc.TrackerSession.

    Raises OSError at once where nothing listens: TVM would try for a minute.
    """
    from tvm import rpc

    socket.create_connection((host, port), timeout=5.0).close()
    return rpc.connect_tracker(host, port)


@contextmanager
def session(board: Board) -> Iterator[Any]:
    """A session with a board of that key, which waits for one; None for this machine's own."""
    if not board.key:
        yield None
        return
    remote = connect(board.host, board.port).request(
        board.key, priority=1, session_timeout=board.patience
    )
    try:
        yield remote
    finally:
        # Not left to the garbage collector: an error that is kept would keep the board.
        with suppress(Exception):  # where the board was lost
            remote.get_function("CloseRPCConnection")()


@contextmanager
def _loaded(path: str, kind: str, board: Board) -> Iterator[tuple[Any, Any]]:
    """The library and the device, here or on a board."""
    with session(board) as remote:
        if kind == "llvm":  # threads as a network has them
            there = tvm_ffi.get_global_func if remote is None else remote.get_function
            there(CPU_THREADS)()
        if remote is None:
            if path not in _LIBRARIES:
                # Two, since the last comparison takes turns between them.
                while len(_LIBRARIES) > 1:
                    del _LIBRARIES[next(iter(_LIBRARIES))]
                _LIBRARIES[path] = load_library(path)
            try:
                yield _LIBRARIES[path], _local_device(kind)
            except DeviceLostError:
                # The next candidate finds the device opened anew; what is kept lies on the old one.
                _KEPT.clear()
                raise
            return
        name = Path(path).name
        remote.upload(path)
        try:
            yield remote.load_module(name), remote.device("cpu" if kind == "llvm" else kind, 0)
        finally:
            remote.remove(name)
