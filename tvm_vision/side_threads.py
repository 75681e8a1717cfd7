"""Work that goes on meanwhile, where a thread for it can be had."""

from __future__ import annotations

import threading
from collections.abc import Callable


def done() -> None:
    """The wait for what has come to its end, or never began."""


def meanwhile(
    work: Callable[..., object], *arguments: object, name: str, daemon: bool = False
) -> Callable[[], None]:
    """Begin work in a thread of this name; what is returned waits for its end.

    Where no more threads are to be had, as a container limits them, it is done before this returns.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=daemon)
    try:
        thread.start()
    except RuntimeError:  # which is all that Python says of it
        work(*arguments)
        return done

    def wait() -> None:
        thread.join()

    return wait
