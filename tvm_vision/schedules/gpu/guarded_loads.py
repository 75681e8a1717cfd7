"""Marks kernels whose guarded loads (padding, the rest of a tile) are to do without branches.

The code generator reads the mark (vulkan/codegen/glsl/guards.py has what it does and why).
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

MARK = "pragma_select_loads"


def with_selected_loads(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled function with the mark on its loops over threads, where lowering keeps it."""

    def marked(loop: Any) -> Any:
        threads = loop.thread_binding
        if threads is None or not str(threads.thread_tag).startswith("threadIdx"):
            return loop
        notes = {**dict(loop.annotations), MARK: tirx.const(1)}
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, threads, notes, loop.step
        )

    body = tvm_ffi.structural_map(function.body, [(tirx.For, marked)], order="post")
    return function.with_body(body)
