"""Signals that end a command as Ctrl-C does, and Ctrl-C while TVM's C++ calls Python."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .side_threads import meanwhile

# What ends a service, and what a terminal that goes away sends.
ENDING = (signal.SIGTERM, signal.SIGHUP)
_met: list[int] = []
# How many blocks of ended_as_by_ctrl_c() there are: in them every signal is met.
_within = 0
# How many blocks of held() the main thread is in, and whether a signal waits for their end.
_depth = 0
A_MOMENT = 0.01  # s
_waits = False


def met() -> int:
    """The signal that ended this process' work: SIGINT, where it was none of ``ENDING``."""
    return _met[-1] if _met else int(signal.SIGINT)


def _interrupt(number: int, _: FrameType | None) -> None:
    global _waits
    _met.append(number)
    if _depth:
        _waits = True
        return
    raise KeyboardInterrupt


def _tell_again() -> None:
    time.sleep(A_MOMENT)
    os.kill(os.getpid(), met())


@contextmanager
def held(*, in_callback: bool = False) -> Iterator[None]:
    """In the block no signal of ``ended_as_by_ctrl_c`` raises: the end of the block does. For what
    takes no time and must not be cut in two, as to make a folder and to know of it.

    in_callback: Python drops what is raised there, so that the signal comes again a moment later.
    """
    global _depth, _waits
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _waits and not _depth:
            _waits = False
            if not in_callback:
                raise KeyboardInterrupt
            meanwhile(_tell_again, daemon=True)


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """In the block the signals of ``ENDING`` raise KeyboardInterrupt as Ctrl-C does, so that what
    it cleans up is cleaned up, and ``held`` holds all of them. One that is ignored stays so, as
    under nohup; a thread has none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _within
    _met.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    usual = (signal.SIG_DFL, signal.default_int_handler)
    taken = [number for number, handler in before.items() if handler in usual]
    for number in taken:
        signal.signal(number, _interrupt)
    _within += 1
    try:
        yield
    finally:
        _within -= 1
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def silent_ctrl_c() -> Iterator[None]:
    """In the block Ctrl-C ends the process without a word, where it would raise
    KeyboardInterrupt; shells have 130 for it all the same."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ctrl_c_as_itself() -> Iterator[None]:
    """An error without a text, as which Ctrl-C in a Python function comes back through TVM's C++,
    leaves the block as KeyboardInterrupt; in ``ended_as_by_ctrl_c`` only where a signal came."""
    try:
        yield
    except RuntimeError as error:
        if str(error) or (_within and not _met):
            raise
        raise KeyboardInterrupt from None
