"""Work that goes on meanwhile, where a thread for it can be had."""

from __future__ import annotations

import _thread
import atexit
from collections.abc import Callable

# Waits for the end of work, for so many seconds where they are given; returns whether it came.
Wait = Callable[..., bool]
# A thread that has not begun after so many seconds may have died.
BEGINS = 1.0
# What is waited for before the interpreter ends.
_unfinished: set[Wait] = set()


def done(seconds: float = -1.0) -> bool:
    """The wait for what has come to its end, or never began."""
    return True


def meanwhile(work: Callable[..., object], *arguments: object, daemon: bool = False) -> Wait:
    """Begin work in a thread; what is returned waits for its end, or does what has not begun yet.

    Where no more threads are to be had, as a container limits them, it is done before this returns.
    Not by ``threading.Thread``, whose start waits for good for a thread that found no memory for
    its first step. daemon: the interpreter may end before it has.
    """
    begun, over = _thread.allocate_lock(), _thread.allocate_lock()
    over.acquire()

    def do() -> None:
        if not begun.acquire(blocking=False):
            return  # by another thread
        try:
            work(*arguments)
        finally:
            _unfinished.discard(wait)
            over.release()

    def wait(seconds: float = -1.0) -> bool:
        if seconds >= 0 and over.acquire(timeout=min(seconds, BEGINS)):
            over.release()
            return True
        do()
        if not over.acquire(timeout=-1.0 if seconds < 0 else max(seconds - BEGINS, 0.0)):
            return False
        over.release()
        return True

    if not daemon:
        _unfinished.add(wait)
    try:
        _thread.start_new_thread(do, ())
    except RuntimeError:  # which is all that Python says of it
        do()
    return wait


@atexit.register
def _finish() -> None:
    for wait in list(_unfinished):
        wait()


__all__ = ["done", "meanwhile"]
