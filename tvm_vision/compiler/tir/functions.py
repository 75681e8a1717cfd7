"""A change of TensorIR functions, over a module."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import tirx


def in_each_function(
    mod: tvm.IRModule, change: Callable[[tirx.PrimFunc], tirx.PrimFunc]
) -> tvm.IRModule:
    """The same module with its TensorIR functions changed, and all else as it was."""
    functions = {
        gv: change(f) if isinstance(f, tirx.PrimFunc) else f for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)
