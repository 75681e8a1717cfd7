"""Kernels made by several processes beside each other.

Python does one thing at a time in a process, and making kernels is most of a compilation. What a
kernel becomes is the same whoever makes it. One that cannot be made ends it all: what is missing
then is made by this process alone, in its order, and the error is that of the first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from subprocess import Popen
from typing import NamedTuple

import tvm

from ...child_processes import start_python
from ...side_threads import meanwhile
from .code import KernelCode
from .maker import Job, KernelMaker

LOGGER = logging.getLogger(__name__)
# A process imports TVM first, as long as it takes to make ten kernels, and has some 330 MB then.
LEAST_EACH = 16
# Of a network that has fewer, one process has made the kernels before another is there.
LEAST_OPERATORS = 32
MOST_PROCESSES = 4
# A kernel takes a second, few take ten: whoever has made none for so long may be stopped.
PATIENCE_SECONDS = 60.0


class Waiting(NamedTuple):
    """A process that imports what makes kernels, and then waits for some."""

    process: Popen[bytes]
    connection: Connection


def started_ahead(operators: int) -> contextlib.AbstractContextManager[Waiting | None]:
    """A process that will have imported TVM when the operators of a network are kernels, in the
    block; None where they are few, or there is no processor for it."""
    if operators < LEAST_OPERATORS or _processors() < 2:
        return contextlib.nullcontext()
    return _started()


def processes_for(kernels: int, waiting: Waiting | None = None) -> int:
    """How many processes make so many kernels, this one and that which waits among them."""
    with_work = max(kernels // LEAST_EACH + 1, 2 if waiting and kernels > 1 else 1)
    return min(_processors(), MOST_PROCESSES, with_work)


def made_beside(
    jobs: Mapping[str, Job],
    maker: KernelMaker,
    processes: int,
    waiting: Waiting | None = None,
) -> dict[str, KernelCode]:
    """The code of kernels, by the same keys; of some of them where one cannot be made.

    processes: how many there are to be, this one among them, and that which waits.
    """
    work = _Work(jobs)
    with contextlib.ExitStack() as stack:
        for number in range(processes - 1):
            ready = waiting if number == 0 else None
            other = ready or stack.enter_context(_started())
            if other is not None:
                stack.callback(_fed_by(work, maker, other))
        stack.callback(work.stop)
        while (key := work.take(PATIENCE_SECONDS)) is not None:
            try:
                work.finish(key, maker.made(jobs[key]))
            except Exception as error:  # it comes again where it is told
                LOGGER.debug("kernel %s cannot be made: %s", jobs[key].name, error)
                work.stop()
    return work.code


class _Work:
    """Kernels to be made, and those that were; for several threads."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self.jobs = jobs
        self.code: dict[str, KernelCode] = {}
        self._left = sorted(jobs, key=lambda key: len(jobs[key].function))
        self._taken: list[str] = []
        self._stopped = False
        self._changed = threading.Condition()

    def take(self, patience: float | None = None) -> str | None:
        """The largest that is left, so that the last ones are soon done; where others have taken
        all, what one of them gives back. None for the end.

        patience: seconds without a change, after which one that another has is taken as well.
        """
        with self._changed:
            while not self._left and self._taken and not self._stopped:
                if not self._changed.wait(patience):
                    LOGGER.warning(
                        "another process has made no kernel for %.0f s: this one makes its",
                        patience,
                    )
                    self._left.append(self._taken.pop(0))
            if self._stopped or not self._left:
                return None
            self._taken.append(self._left.pop())
            return self._taken[-1]

    def finish(self, key: str, code: KernelCode | None) -> None:
        """What became of a kernel that was taken; None where somebody else is to make it."""
        with self._changed:
            if key in self._taken:
                self._taken.remove(key)
            if code is not None:
                self.code[key] = code
            elif key not in self.code and key not in self._left:
                self._left.append(key)
            self._changed.notify_all()

    def stop(self) -> None:
        """No more are to be made."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def _processors() -> int:
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def _started() -> Iterator[Waiting | None]:
    """Another process that can make kernels in the block; None where it cannot be started."""
    try:
        process, connection = start_python(f"{__package__}.worker")
    except OSError as error:
        LOGGER.debug("kernels are made by a process less: %s", error)
        yield None
        return
    try:
        yield Waiting(process, connection)
    finally:
        process.kill()
        process.wait()
        connection.close()


def _fed_by(work: _Work, maker: KernelMaker, other: Waiting) -> Callable[[], None]:
    """Have a process make kernels meanwhile; what is returned ends both."""
    fed = meanwhile(_feed, work, maker, other.connection)

    def end() -> None:
        other.process.kill()
        fed()

    return end


def _feed(work: _Work, maker: KernelMaker, connection: Connection) -> None:
    """Have a process make kernels until there are none, or it is gone."""
    level = LOGGER.getEffectiveLevel()
    key = None
    with contextlib.suppress(EOFError, OSError):
        connection.send((tvm.ir.save_json(maker.target), maker.limits, level, os.getpid()))
        while (key := work.take()) is not None:
            connection.send(work.jobs[key])
            content, said = connection.recv()
            for name, of_level, message in said:
                logging.getLogger(name).log(of_level, "%s", message)
            code = None if content is None else KernelCode.from_bytes(content)
            work.finish(key, code)
            if code is None:
                return
            key = None
    if key is not None:
        work.finish(key, None)
