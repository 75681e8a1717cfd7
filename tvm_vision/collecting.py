"""Python's search for garbage in circles, made seldom while modules are imported and kernels made.

It begins whenever some hundred objects are new, and looks at all that there are, of which nearly
all stay: a tenth of the import of TVM, and a thirtieth of the making of kernels. A leaf.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# New objects after which the young ones are looked at, and how often that is done before older and
# the oldest ones are.
SELDOM = (200_000, 20, 20)


class _Users:
    """How many want it seldom now, and what it was before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = gc.get_threshold()


_USERS = _Users()


@contextmanager
def collected_seldom() -> Iterator[None]:
    """In the block, for the whole process; of several at a time the last one to end puts it back as
    it was before the first. Where somebody has switched it off it stays so."""
    with _USERS.lock:
        _USERS.count += 1
        if _USERS.count == 1:
            _USERS.before = gc.get_threshold()
            if _USERS.before[0]:
                gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        with _USERS.lock:
            _USERS.count -= 1
            if not _USERS.count:
                gc.set_threshold(*_USERS.before)
