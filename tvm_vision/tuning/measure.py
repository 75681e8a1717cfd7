"""Builds candidates on all cores and measures them on one device, or on many boards at once."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import queue
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..compiler import parse_target
from ..error_lines import lines_of
from ..errors import TuningError, TvmVisionError
from ..options import CompileOptions
from ..whole_files import ScratchFolder
from . import worker
from .turns import Turns
from .worker import SHARED_WITH_NOBODY, Argument, Board, MeasureRuns

Decision = Mapping[str, Any]

LOCAL = Board()
ATTEMPTS = 3  # boards that a candidate is given before its failure counts as its own
MOST_LOADERS = 4  # processes that load candidates for one device
CORES_A_LOADER = 4  # of the machine; the others build
CLOSING_SECONDS = 0.01  # until a process that is being closed is killed, and between tries
LEAST_ROOM = 4 << 20  # bytes; a library takes some 50 kB
TOLERANCE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-6}


@dataclass(frozen=True)
class MeasureJob:
    """One kernel to measure: its TVM JSON, its arguments and how it is called for people."""

    key: str
    name: str
    function: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Measured:
    """What came of a candidate: seconds of each repeat, or why there are none."""

    decision: Decision
    seconds: tuple[float, ...] = ()
    error: str = ""
    library: str = ""

    @property
    def best(self) -> float:
        """The median of the repeats; infinite for a failure."""
        return float(np.median(self.seconds)) if self.seconds else math.inf


class Results(Protocol):
    """What is being measured."""

    def __iter__(self) -> Iterator[Measured]:
        """Waits for each in turn."""

    def close(self) -> object:
        """Leaves out what was not begun."""


class Measurer(Protocol):
    """What a search needs of the world."""

    def measure(
        self, job: MeasureJob, decisions: Sequence[Decision], limit: float = math.inf
    ) -> Results:
        """Starts building and measuring, after all that was asked before; a result for each
        decision. One that takes longer than ``limit`` seconds is not measured again to be sure."""

    def check(self, job: MeasureJob, measured: Measured) -> str:
        """Why a candidate's results are wrong; "" where they are right."""

    def close(self) -> None:
        """Frees processes and files."""


class MeasureProcess:
    """A process that is started when it is needed, and anew after it hung or died."""

    def __init__(self, folder: Path) -> None:
        """folder: for its temporary files, a scratch folder."""
        from tvm.support.popen_pool import PopenWorker

        self._worker = PopenWorker(worker.start, (str(folder),))
        self._closed = False
        self._calling = threading.Lock()

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        """Raises TimeoutError, ChildProcessError, or what the function raises."""
        with self._calling:
            if self._closed:
                raise ChildProcessError("closed")
            self._worker.send(function, arguments, timeout=timeout)
            try:
                return self._worker.recv()
            except TvmVisionError as error:
                # TVM's worker made it anew of its traceback, whose last line has what it said.
                lines = str(error).removesuffix(r"\n").split(r"\n")
                raise type(error)(lines[-1]) from None

    def close(self) -> None:
        """Kills it, also from another thread than that which waits in ``call``."""
        self._closed = True
        # Again: a call may just be starting it.
        while not self._calling.acquire(timeout=CLOSING_SECONDS):
            kill(self._worker)
        # What did not come to be started has no pipe, which TVM would close.
        if hasattr(self._worker, "_writer"):
            self._worker.kill()
        else:
            kill(self._worker)
        self._calling.release()


def kill(worker: Any) -> None:
    """Ends the process of a PopenWorker of TVM while another thread waits for its answer.

    Its own ``kill`` closes their pipe first, and that waits for the answer.
    """
    process = worker._proc
    if process is not None:
        process.kill()


@dataclass
class DeviceMeasurer:
    """Measures on this machine's device, or on the boards of a tracker.

    Attributes:
        target: JSON of what to compile for.
        kind: of the device, "vulkan" or "llvm".
        timing: how often a kernel is run.
        boards: one entry a board that may measure at the same time; of this machine, one a process
            that loads candidates: they take turns on the device.
        builders: processes that compile.
        timeout: seconds after which a build or a measurement counts as hung.
        checks: whether results are going to be compared: the reference is made meanwhile.
        options: of the network's compilation, by which candidates are built as it would build them.
    """

    target: str
    kind: str
    timing: MeasureRuns = field(default_factory=MeasureRuns)
    boards: Sequence[Board] = (LOCAL,)
    builders: int = field(default_factory=lambda: max(1, len(os.sched_getaffinity(0)) - 1))
    timeout: float = 60.0
    checks: bool = True
    options: CompileOptions = field(default_factory=CompileOptions)

    @classmethod
    def of(
        cls, target: Any, timing: MeasureRuns, boards: Sequence[Board], **more: Any
    ) -> DeviceMeasurer:
        """For a tvm.target.Target, other attributes by name. This machine's own GPU has several
        processes that load candidates, while one of them measures."""
        of_a_gpu = "gpu" in target.keys and str(target.attrs.get("device_type", "")) != "cpu"
        if tuple(boards) == (LOCAL,) and of_a_gpu:
            boards = (LOCAL,) * max(
                1, min(MOST_LOADERS, len(os.sched_getaffinity(0)) // CORES_A_LOADER)
            )
        if tuple(boards) == (LOCAL,) and target.kind.name == "llvm":
            # Nobody builds while it measures: see Turns.
            more.setdefault("builders", len(os.sched_getaffinity(0)))
        return cls(str(target), target.kind.name, timing, boards, **more)

    def metaschedule_runners(self) -> list[Any]:
        """Runners for MetaSchedule with the same timing: for this device as many as load
        candidates at a time, or one for each board."""
        from tvm.s_tir import meta_schedule as ms

        config = ms.runner.EvaluatorConfig(
            number=self.timing.number,
            repeat=self.timing.repeat,
            min_repeat_ms=self.timing.min_repeat_ms,
        )

        def runner(board: Board) -> Any:
            if not board.key:
                evaluate = partial(worker.evaluate, self._alone) if self.kind == "vulkan" else None
                return ms.runner.LocalRunner(
                    timeout_sec=self.timeout,
                    evaluator_config=config,
                    initializer=self.start_process,
                    f_run_evaluator=evaluate,
                )
            return ms.runner.RPCRunner(
                ms.runner.RPCConfig(
                    board.host, board.port, board.key, session_timeout_sec=board.patience
                ),
                evaluator_config=config,
                max_workers=1,
                initializer=self.start_process,
            )

        return [runner(board) for board in self.boards]

    @property
    def start_process(self) -> Callable[[], object]:
        """What MetaSchedule is to call in each process that it starts."""
        return partial(worker.start, str(self._folder))

    def __post_init__(self) -> None:
        self._scratch = ScratchFolder()
        self._folder = self._scratch.path
        local = not self.boards[0].key
        # Who waits for a process that hangs still has half of its own time after that.
        self._alone = (str(self._folder / "device.lock"), self.timeout / 2)
        self._alone = self._alone if local else SHARED_WITH_NOBODY
        self._turns = Turns() if local and self.kind == "llvm" else None
        self._build = _Pool(self.builders, self._folder)
        self._run = _Pool(len(self.boards), self._folder)
        self._free: queue.Queue[Board] = queue.Queue()
        for board in self.boards:
            self._free.put(board)
        self._libraries: dict[tuple[str, str], Future[str]] = {}
        self._references: dict[str, Future[list[np.ndarray]]] = {}

    def measure(
        self, job: MeasureJob, decisions: Sequence[Decision], limit: float = math.inf
    ) -> _Running:
        """See Measurer. All are built by the other processes while the first is measured."""
        built = [(d, self._library(job, d)) for d in decisions]
        if self.checks and job.key not in self._references:
            self._references[job.key] = self._build.submit(self._reference, job)
        return _Running(
            [self._run.submit(self._measured, job, d, path, limit) for d, path in built],
            [path for _, path in built],
        )

    def check(self, job: MeasureJob, measured: Measured) -> str:
        """See Measurer. The reference is TVM's code for the processor, with its sums as they are
        written."""
        try:
            reference = self._references.get(job.key)
            if reference is None:
                reference = self._references[job.key] = self._build.submit(self._reference, job)
            found = self._run.submit(
                self._attempt, worker.outputs, measured.library, self.kind, job.arguments,
                self._alone, urgent=True,
            )  # fmt: skip
            return compare(found.result(), reference.result())
        except Exception as error:  # the candidate's own failure, of whatever kind
            return _line(error)

    def _library(self, job: MeasureJob, decision: Decision) -> Future[str]:
        """A candidate's library, built once."""
        key = (job.key, json.dumps(decision, sort_keys=True))
        if key not in self._libraries or self._libraries[key].cancelled():
            self._libraries[key] = self._build.submit(self._built, job, decision)
        return self._libraries[key]

    def _reference(self, process: MeasureProcess, job: MeasureJob) -> list[np.ndarray]:
        # With the processor's own instructions: fp16 takes ten times as long without them.
        target = str(parse_target("llvm"))
        with self._building():
            path = process.call(
                worker.build, job.function, {}, target, str(self._folder), timeout=self.timeout
            )
            arguments = (path, "llvm", job.arguments, SHARED_WITH_NOBODY, LOCAL)
            return list(process.call(worker.outputs, *arguments, timeout=10 * self.timeout))

    def _built(self, process: MeasureProcess, job: MeasureJob, decision: Decision) -> str:
        arguments = (job.function, dict(decision), self.target, str(self._folder), self.options)
        with self._building():
            return str(process.call(worker.build, *arguments, timeout=self.timeout))

    def _building(self) -> AbstractContextManager[None]:
        """While nobody measures, where that is on the processor which builds."""
        return self._turns.build() if self._turns else contextlib.nullcontext()

    def _measuring(self) -> AbstractContextManager[None]:
        """While nobody builds on the processor that measures."""
        return self._turns.measure() if self._turns else contextlib.nullcontext()

    def _measured(
        self,
        process: MeasureProcess,
        job: MeasureJob,
        decision: Decision,
        built: Future[str],
        limit: float,
    ) -> Measured:
        try:
            path = built.result()
            seconds = self._seconds(process, job, path, limit)
            return Measured(decision, tuple(seconds), "", path)
        except Exception as error:  # every failure of a candidate is a result
            self._need_room()
            return Measured(decision, error=_line(error))

    def _seconds(
        self, process: MeasureProcess, job: MeasureJob, library: str, limit: float
    ) -> Sequence[float]:
        """Of each repeat. Raises whatever the candidate does."""
        arguments = (library, self.kind, job.arguments, self.timing, limit, self._alone)
        with self._measuring():
            return tuple(self._attempt(process, worker.measure, *arguments))

    def _need_room(self) -> None:
        """Raises TuningError where candidates fail for want of it: no fault of theirs."""
        free = shutil.disk_usage(self._folder).free
        if free < LEAST_ROOM:
            raise TuningError(
                f"room for libraries is needed in '{self._folder.parent}', found {free} bytes: "
                "make some, or set TMPDIR; what was measured is kept, and the same command goes on"
            )

    def _attempt(
        self, process: MeasureProcess, function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Calls a function with a free board as its last argument; again where it is lost or busy.

        On this machine's own device a failure is the candidate's.
        """
        for attempt in range(ATTEMPTS):
            # There are as many threads as boards.
            board = self._free.get_nowait()
            try:
                result = process.call(function, *arguments, board, timeout=self.timeout)
                if result is not None:
                    return result
            except TimeoutError:
                raise TimeoutError(f"hung: no result in {self.timeout:g} s") from None
            except Exception as error:
                if not board.key or attempt == ATTEMPTS - 1 or not _is_lost(error):
                    raise
            finally:
                self._free.put(board)
        raise TimeoutError(f"the device was not to be had in {ATTEMPTS * self.timeout / 2:g} s")

    def close(self) -> None:
        self._build.close()
        self._run.close()
        self._scratch.close()


@dataclass(frozen=True)
class _Running:
    """Measurements that were asked for; see Results."""

    futures: Sequence[Future[Measured]]
    libraries: Sequence[Future[str]]

    def __iter__(self) -> Iterator[Measured]:
        for future in self.futures:
            yield future.result()

    def close(self) -> None:
        for measured in self.futures:
            measured.cancel()
        for library in self.libraries:
            library.cancel()


class _Pool:
    """Threads that each have a process of their own, and take work in the order it came."""

    def __init__(self, size: int, folder: Path) -> None:
        self._work: queue.PriorityQueue[tuple[bool, int, Any]] = queue.PriorityQueue()
        self._count = itertools.count()
        self._processes = [MeasureProcess(folder) for _ in range(size)]
        self._threads: list[threading.Thread] = []

    def submit(
        self, function: Callable[..., Any], *arguments: Any, urgent: bool = False
    ) -> Future[Any]:
        """Calls function(process, *arguments) in a thread; urgent work comes before other."""
        future: Future[Any] = Future()
        self._work.put((not urgent, next(self._count), (future, function, arguments)))
        if len(self._threads) < len(self._processes):
            process = self._processes[len(self._threads)]
            self._threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
            self._threads[-1].start()
        return future

    def _serve(self, process: MeasureProcess) -> None:
        # Ctrl-C is for the main thread; processes that this one starts inherit it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (task := self._work.get()[2]) is not None:
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(process, *arguments))
            except Exception as error:
                future.set_exception(error)

    def close(self) -> None:
        """Ends the processes; what was not begun is left out."""
        with contextlib.suppress(queue.Empty):
            while task := self._work.get_nowait()[2]:
                task[0].cancel()
        for _ in self._threads:
            self._work.put((True, next(self._count), None))
        for process in self._processes:
            process.close()


def compare(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """Why results differ from the reference by more than rounding; "" where they do not."""
    for number, (have, want) in enumerate(zip(found, wanted, strict=True)):
        if have.dtype.kind != "f":
            differs = have != want
            if have.dtype == np.int8:  # rounded from numbers that may lie on either side of a half
                differs = np.abs(have.astype(np.int16) - want) > 1
            wrong = int(np.count_nonzero(differs))
            if wrong:
                return f"wrong results: {wrong} of {want.size} values of output {number} differ"
            continue
        scale = float(np.nanmax(np.abs(want.astype(np.float64)), initial=0.0)) or 1.0
        error = float(np.max(np.abs(have.astype(np.float64) - want), initial=0.0)) / scale
        allowed = TOLERANCE[str(have.dtype)]
        if not error <= allowed:  # NaN is wrong, too
            return f"wrong results: output {number} is off by {error:.1e} of its largest value"
    return ""


def _is_lost(error: Exception) -> bool:
    """Whether a failure is the connection's."""
    text = str(error).lower()
    signs = ("connection", "socket", "rpc", "cannot request", "broken pipe", "eof")
    return isinstance(error, (ConnectionError, OSError)) or any(sign in text for sign in signs)


def _line(error: BaseException) -> str:
    """The line of an error that says what is wrong: TVM puts it last."""
    said = lines_of(error) or ["no message"]
    return f"{type(error).__name__}: {said[-1]}"[:300]
