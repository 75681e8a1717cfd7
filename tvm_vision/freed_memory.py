"""Memory that was freed, given back to the system.

glibc keeps what is freed between two pieces that are in use. Weights are read, changed and let go
one network after the other, so that it keeps as much as a network's weights, again and again.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# Bytes by which a process has to have grown, for it takes some milliseconds.
_GROWN = 64 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


class FreedMemory:
    """What is freed goes back to the system once the process has grown."""

    def __init__(self) -> None:
        self._before = 0

    def give_back(self) -> None:
        """Where the process has grown since the last time; other libraries than glibc do it by
        themselves."""
        now = resident()
        if _trim is not None and now > self._before + _GROWN:
            _trim(0)
            now = resident()
        self._before = now
