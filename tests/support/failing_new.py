"""Memory that is refused to libraries of ours: tests/runtime/cpp/failing_new.cc, preloaded."""

from __future__ import annotations

import ctypes

FOREVER = 1 << 40  # as many requests as there are


class FailingNew:
    """What was preloaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        for name in ("failing_new_calls", "failing_new_end"):
            getattr(self._library, name).restype = ctypes.c_long

    def refuse(self, first: int, last: int) -> None:
        """Requests from one to another, counted from now on; the first is 1."""
        self._library.failing_new_begin(ctypes.c_long(first), ctypes.c_long(last))

    def calls(self) -> int:
        """Requests since then."""
        return int(self._library.failing_new_calls())

    def end(self) -> int:
        """Refuse no more; returns how many were refused."""
        return int(self._library.failing_new_end())
