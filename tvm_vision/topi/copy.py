"""A tensor, copied."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx


def copy_name(shape: Sequence[int], dtype: str) -> str:
    """What a kernel that copies such a tensor is called."""
    return f"copy_{dtype}_{'x'.join(map(str, shape))}"


def copy_kernel(shape: Sequence[int], dtype: str) -> tirx.PrimFunc:
    """A kernel that copies a tensor of this shape and type."""
    source = te.placeholder(shape, dtype, name="source")
    copied = te.compute(shape, lambda *index: source(*index), name="copied")
    return te.create_prim_func([source, copied])
