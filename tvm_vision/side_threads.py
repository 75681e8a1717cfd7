"""Work that goes on meanwhile, where a thread for it can be had."""

from __future__ import annotations

import _thread
import atexit
from collections.abc import Callable

# What is waited for before the interpreter ends.
_unfinished: set[Callable[[], None]] = set()


def done() -> None:
    """The wait for what has come to its end, or never began."""


def meanwhile(
    work: Callable[..., object], *arguments: object, daemon: bool = False
) -> Callable[[], None]:
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

    def wait() -> None:
        do()
        over.acquire()
        over.release()

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
