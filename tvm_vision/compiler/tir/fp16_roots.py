"""What of a tensor is left in what a function writes: the numbers themselves, or their roots, their
logarithms and quotients by them, which fp16 has the range for whatever the numbers are."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts
from .fp16_sums import function_name, number_of
from .stores import Stores, once_each

_EITHER = (prim.Add, prim.Sub, prim.Mul, prim.Max, prim.Min)
_SMALLER = frozenset("sqrt rsqrt log log2 log10 log1p tanh sigmoid erf atan sin cos".split())


def whole_numbers_of(func: tirx.PrimFunc, place: int) -> list[bool]:
    """For each parameter of ``func`` whether numbers of the one at ``place`` are written to it, in
    sums and products as well, other than by their roots or as what is divided by."""
    stores = Stores(func)
    of_buffer: dict[Any, bool] = {func.params[place]: True}

    def in_buffer(buffer: Any) -> bool:
        if buffer not in of_buffer:
            of_buffer[buffer] = False  # to itself: a sum reads what it writes
            of_buffer[buffer] = any(in_value(value) for value, _ in stores.written.get(buffer, ()))
        return of_buffer[buffer]

    @once_each
    def in_value(value: Any) -> bool:
        if isinstance(value, prim.Cast):
            return in_value(value.value)
        if isinstance(value, _EITHER):
            return in_value(value.a) or in_value(value.b)
        if isinstance(value, prim.Div):
            return in_value(value.a)
        if branches := choice_parts(value):
            return any(in_value(branch) for branch in branches[1:])
        if isinstance(value, ir.Call):
            if function_name(value) in _SMALLER:
                return False
            if function_name(value) == "pow":
                exponent = number_of(value.args[1])
                return (exponent is None or exponent >= 1) and in_value(value.args[0])
            return any(in_value(part) for part in value.args)
        if isinstance(value, ir.Var) and value in stores.names:
            return in_value(stores.names[value])
        return in_buffer(value.source) if isinstance(value, ir.TensorLoad) else False

    for buffer in stores.written:
        in_buffer(buffer)
    return [
        param in stores.written and any(in_value(value) for value, _ in stores.written[param])
        for param in func.params
    ]
