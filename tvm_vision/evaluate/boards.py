"""Packages on the boards of an RPC tracker, as many at once as there are boards.

A board that is lost is named in a line, and what it was at goes to another.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import DeviceError
from ..tuning.measure import ATTEMPTS, MeasureProcess
from ..tuning.rpc import count_boards
from ..tuning.worker import Board
from ..whole_files import ScratchFolder
from .board_session import BoardModel, LostBoard

Use = Callable[[BoardModel], dict[str, Any]]
# Seconds until a board ends a session by itself, for each image: whoever vanishes without a word
# must not keep it.
SECONDS_AN_IMAGE, SECONDS_A_SESSION = 10, 600


@dataclass
class _Work:
    name: str
    package: Path
    use: Use
    done: Future[dict[str, Any]] = field(default_factory=Future)
    lost: int = 0


class Boards:
    """The boards of a key; a context manager. Raises TuningError where the tracker has none."""

    def __init__(
        self, tracker: tuple[str, int, str], images: int, tell: Callable[[str], object]
    ) -> None:
        """tracker: host, port, key. images: that each package looks at. tell: called with a line
        where a board is lost."""
        host, port, self.key = tracker
        self._board = Board(host, port, self.key, SECONDS_A_SESSION + SECONDS_AN_IMAGE * images)
        self._tell = tell
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._scratch = ScratchFolder()
        self._alive = threading.Lock()
        self._closed = False
        self._processes: list[MeasureProcess] = []
        for _ in range(count_boards(host, port, self.key)):
            self._processes.append(MeasureProcess(self._scratch.path))
        self._driving = len(self._processes)
        for process in self._processes:
            threading.Thread(target=self._drive, args=(process,), daemon=True).start()

    def __enter__(self) -> Boards:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        for process in self._processes:
            self._work.put(None)
            process.close()
        self._scratch.close()

    def submit(self, name: str, package: Path, use: Use) -> Future[dict[str, Any]]:
        """What ``use`` makes of a package on a board that is free; again from its beginning where
        the board was lost.

        The result raises what ``use`` does, and DeviceError where the package cannot be loaded, or
        ATTEMPTS boards were lost with it.
        """
        work = _Work(name, package, use)
        self._work.put(work)
        return work.done

    def _drive(self, process: MeasureProcess) -> None:
        # Ctrl-C is for the main thread; processes that this one starts inherit it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (work := self._work.get()) is not None:
            try:
                work.done.set_result(self._one(process, work))
            except LostBoard as error:
                if self._closed or self._goes_on_without(work, error):
                    return
            except Exception as error:  # the package's, or of what is done with it
                work.done.set_exception(error)

    def _one(self, process: MeasureProcess, work: _Work) -> dict[str, Any]:
        model = BoardModel(process, self._board, work.package)
        try:
            return work.use(model)
        finally:
            with contextlib.suppress(LostBoard):  # what was to be had was had
                model.end()

    def _goes_on_without(self, work: _Work, error: LostBoard) -> bool:
        """Hands work on. Returns whether others are there to do it, so that nobody waits for a
        board that may not come back."""
        work.lost += 1
        given_up = work.lost == ATTEMPTS
        what = "it is given up" if given_up else "it begins again on another"
        self._tell(f"a board '{self.key}' was lost during {work.name}, and {what} ({error})")
        if given_up:
            work.done.set_exception(
                DeviceError(
                    f"a board '{self.key}' that stays is needed, and {ATTEMPTS} were lost during "
                    "it: look at them, and the same command goes on"
                )
            )
        else:
            self._work.put(work)
        with self._alive:
            self._driving -= 1
            if self._driving:
                return True
            self._driving = 1
            return False
