"""What passes ask of the operators of a Relax function."""

from __future__ import annotations

from typing import Any

from tvm import relax


def operator_of(expr: Any) -> str:
    """The name of the operator that an expression calls, "relax.add" for one; "" for any other."""
    return str(getattr(getattr(expr, "op", None), "name", ""))


def is_int8(convolution: relax.Call) -> bool:
    """Whether it sums whole numbers, as ``qdq`` writes convolutions of bytes."""
    return str(convolution.ty.dtype) == "int32"
