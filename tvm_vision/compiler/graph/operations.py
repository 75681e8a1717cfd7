"""How much arithmetic a kernel is: what its time can be held against."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.analysis import estimate_tir_flops


def count_operations(function: Any) -> int | None:
    """Additions, multiplications, comparisons and so on of one call, as TVM counts them: a
    multiply-add is two, the arithmetic of indices is none.

    Of a function without a schedule: what a tile computes beyond the edge does not count. None
    where a loop has no fixed number of steps, or TVM has no rule for a statement.
    """
    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.For, loops.append), (tirx.While, loops.append)])
    # Of other extents TVM takes the most that an int32 can be.
    if not all(isinstance(getattr(loop, "extent", None), tirx.IntImm) for loop in loops):
        return None
    try:
        return int(estimate_tir_flops(tvm.IRModule({"main": function})))
    except Exception:  # it raises every kind for what it does not know
        return None
