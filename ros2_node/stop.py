"""Ending a program by a signal, whatever its threads are at."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import weakref
from typing import Any


class Stop:
    """A wish to end, that signals express and the main thread waits for: a byte in a pipe.

    Not a threading.Event. A signal may come to any thread, and Python runs the handler in the main
    one, when that wakes up: waiting for a lock, it does not. And a handler must not take the lock
    that its own thread may just hold.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._ends = weakref.finalize(self, _close, self._read, self._write)

    def on_signals(self) -> None:
        """Let SIGINT, SIGTERM and SIGHUP express it, instead of what they did; for the main thread.

        SIGHUP stays ignored where it is, as under nohup.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.request)
        # Written to in the thread that the signal comes to, at once.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def request(self, *_: Any) -> None:
        """Express it; from any thread or signal handler, any number of times."""
        # Full: it was expressed often enough.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    @property
    def requested(self) -> bool:
        """Whether it was expressed."""
        return self.wait(timeout=0)

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is expressed, or for ``timeout`` seconds; returns whether it was."""
        # Never read from: once expressed it stays.
        return bool(select.select([self._read], [], [], timeout)[0])


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)
