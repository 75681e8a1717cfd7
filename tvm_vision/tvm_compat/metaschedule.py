"""MetaSchedule from within."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Matrix instructions of CUDA and of processors, by the hundred, that TVM parses for every search.
INTRINSICS = "tvm.s_tir.tensor_intrin"


def python_part(part: Any) -> Any:
    """TVM's builders and runners are Python behind its C++, which would turn Ctrl-C into an error
    without a word."""
    return getattr(part, "_inst", part)


@contextmanager
def without_intrinsics() -> Iterator[None]:
    """Spares a search for Vulkan, which has none of TVM's intrinsics, 16 s of a core."""
    if INTRINSICS in sys.modules:
        yield
        return
    sys.modules[INTRINSICS] = ModuleType(INTRINSICS)
    try:
        yield
    finally:
        del sys.modules[INTRINSICS]
