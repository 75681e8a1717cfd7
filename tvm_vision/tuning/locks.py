"""Locks of files between processes, waited for with a limit."""

from __future__ import annotations

import fcntl
import time


def take_lock(handle: int, patience: float, pause: float) -> bool:
    """Whether this process has the lock of an open file, for which it waits ``patience`` seconds at
    most and looks every ``pause`` seconds.

    The system's own wait has no limit: a process that was stopped with the lock in its hands would
    stop all others. Raises OSError on a file system without locks.
    """
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(pause)
