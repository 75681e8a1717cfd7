"""Where the threads of a workgroup wait for each other, in kernels that are written by hand."""

from __future__ import annotations

import tvm
from tvm.script.ir_builder import tirx as T


def barrier() -> None:
    """A statement behind which all see what each has put into shared memory."""
    shared = [tvm.ir.StringImm("shared")]
    T.evaluate(tvm.ir.Call("tirx.tvm_storage_sync", shared, ret_ty="void"))
