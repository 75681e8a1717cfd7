"""Marks that tell the code generator how a kernel is meant, on its loops over threads.

SELECT_LOADS: guarded loads (padding, the rest of a tile) do without branches
(vulkan/codegen/glsl/guards.py has what it does and why). SUBGROUP: lanes of the subgroups that
the kernel is best with, where the device has a choice. KEEP_LOOPS: a loop over tiles stays one,
however few its rounds are: unrolled, it takes registers that wide subgroups have not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm import tirx

SELECT_LOADS = "pragma_select_loads"
SUBGROUP = "pragma_subgroup"
KEEP_LOOPS = "pragma_keep_loops"
# A call: each number of a cooperative matrix times that of another.
SCALE_MATRIX = "tvm_vision_scale_matrix"


def with_marks(function: tirx.PrimFunc, marks: Mapping[str, int]) -> tirx.PrimFunc:
    """A scheduled function with marks on its loops over threads, where lowering keeps them."""
    if not marks:
        return function

    def marked(loop: Any) -> Any:
        threads = loop.thread_binding
        if threads is None or not str(threads.thread_tag).startswith("threadIdx"):
            return loop
        notes = dict(loop.annotations)
        notes |= {name: tirx.const(value) for name, value in marks.items()}
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, threads, notes, loop.step
        )

    body = tvm_ffi.structural_map(function.body, [(tirx.For, marked)], order="post")
    return function.with_body(body)
