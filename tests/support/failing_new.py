"""Memory that is refused to libraries of ours: tests/runtime/cpp/failing_new.cc, preloaded."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "runtime" / "cpp" / "failing_new.cc"
FOREVER = 1 << 40  # as many requests as there are


def compile_failing_new(folder: Path) -> Path:
    """The library to preload."""
    library = folder / "failing_new.so"
    compiler = os.environ.get("CXX") or "g++"
    words: list[str | Path] = [compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
    subprocess.run(words, check=True)
    return library


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
