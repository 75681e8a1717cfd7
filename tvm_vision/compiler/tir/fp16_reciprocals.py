"""Which tensors hold reciprocals that may be beyond fp16: of deviations and lengths, which a black
image has none of. Infinity times the 0 that such a row is would be NaN."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from tvm import ir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts
from .fp16_range import FP16_MAX
from .fp16_sums import function_name, number_of
from .stores import Stores, once_each


def holds_reciprocals(func: tirx.PrimFunc, given: Collection[int]) -> list[bool]:
    """For each parameter of ``func`` whether reciprocals are written to it, as they are, chosen or
    as factors, that nothing keeps below fp16's largest number.

    Args:
        given: places of parameters that hold such when it begins.
    """
    stores = Stores(func)
    holding: dict[Any, bool] = {func.params[place]: True for place in given}
    least: dict[Any, float] = {}

    def in_buffer(buffer: Any) -> bool:
        if buffer not in holding:
            holding[buffer] = False  # to itself: a sum reads what it writes
            values = stores.written.get(buffer, ())
            holding[buffer] = any(in_value(value) for value, terms in values if terms == 1)
        return holding[buffer]

    @once_each
    def in_value(value: Any) -> bool:
        value = stores.meant(value)
        if isinstance(value, ir.TensorLoad):
            return in_buffer(value.source)
        if isinstance(value, prim.Mul):
            return in_value(value.a) or in_value(value.b)
        if isinstance(value, prim.Div):
            of_one = number_of(stores.meant(value.a)) is not None
            return is_beyond(value.b) if of_one else in_value(value.a)
        if branches := choice_parts(value):
            return any(in_value(branch) for branch in branches[1:])
        if isinstance(value, ir.Call) and function_name(value) == "rsqrt":
            return is_beyond(value.args[0], 0.5)
        if isinstance(value, ir.Call) and function_name(value) == "pow":
            exponent = number_of(stores.meant(value.args[1]))
            return exponent is not None and exponent < 0 and is_beyond(value.args[0], -exponent)
        return False

    def is_beyond(value: Any, exponent: float = 1.0) -> bool:
        """Whether nothing keeps the reciprocal of a value's power below fp16's largest number."""
        return least_of(value) ** exponent * FP16_MAX < 1.0

    @once_each
    def least_of(value: Any) -> float:
        """What a value that is not below 0 is not below: by what is added to it or bounds it."""
        value = stores.meant(value)
        number = number_of(value)
        if number is not None:
            return max(number, 0.0)
        if isinstance(value, (prim.Add, prim.Max)):
            return max(least_of(value.a), least_of(value.b))
        if isinstance(value, ir.Call) and function_name(value) == "sqrt":
            return math.sqrt(least_of(value.args[0]))
        if isinstance(value, ir.TensorLoad):
            return least_in(value.source)
        return 0.0

    def least_in(buffer: Any) -> float:
        if buffer not in least:
            least[buffer] = 0.0
            values = stores.written.get(buffer, ())
            if values and all(terms == 1 for _, terms in values):
                least[buffer] = min(least_of(value) for value, _ in values)
        return least[buffer]

    for buffer in stores.written:
        least_in(buffer)
        in_buffer(buffer)
    return [param in stores.written and in_buffer(param) for param in func.params]
