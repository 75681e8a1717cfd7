"""Which tensors hold sums that may leave fp16's range though what is summed does not: of squares
and other powers, and of many numbers that nothing divides.

300 is an ordinary activation of a trained transformer, and its square is infinity in fp16: behind a
layer normalization that is written out (mean, square, mean, root) every row would be 0. Such sums
are few beside what they are of, so that float32 costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts
from .fp16_range import FP16_MAX
from .stores import Stores, once_each

MANY = 64  # terms, from which on a sum is told apart from a window's
_POWER, _SUM = 1, 2
# Functions that are as large as what they are of, or its root. What is divided by it is not: it is
# what such sums are made for.
_GROWING = ("pow", "sqrt", "fabs", "abs")
_EITHER = (prim.Add, prim.Sub, prim.Max, prim.Min)


def holds_wide_sums(
    func: tirx.PrimFunc, wide: Collection[int], tensors: Sequence[int]
) -> list[bool]:
    """For each parameter of ``func`` whether such powers or sums are written to it, or what is
    computed of them by arithmetic and roots.

    A product of two tensors is none: it is what networks are trained to keep small. Nor is what is
    divided by such a sum.

    Args:
        wide: places of parameters that hold such sums when it begins.
        tensors: what the parameters stand for: two may be one.
    """
    stores = Stores(func)
    given = {func.params[place] for place in wide}
    tensor = dict(zip(func.params, tensors, strict=True))
    of_buffer: dict[Any, int] = dict.fromkeys(given, _POWER)

    def in_buffer(buffer: Any) -> int:
        if buffer not in of_buffer:
            of_buffer[buffer] = 0  # to itself: a sum reads what it writes
            found = 0
            for value, terms in stores.written.get(buffer, ()):
                if not is_product(value, terms):
                    found |= in_value(value) | _undivided(value, terms, stores)
            of_buffer[buffer] = found
        return of_buffer[buffer]

    @once_each
    def in_value(value: Any) -> int:
        if isinstance(value, prim.Cast):
            return in_value(value.value)
        if isinstance(value, _EITHER):
            return in_value(value.a) | in_value(value.b)
        if isinstance(value, prim.Div):
            if in_value(value.b):
                return 0
            found = in_value(value.a)
            return found & ~_SUM if number_of(value.b) is not None else found
        if isinstance(value, prim.Mul):
            found = in_value(value.a) | in_value(value.b)
            numbers = [number for number in map(number_of, _sides(value)) if number is not None]
            if any(abs(number) < 1 for number in numbers):
                return found & ~_SUM
            return found | (_POWER if is_square(value) else 0)
        if branches := choice_parts(value):
            return _any(in_value(branch) for branch in branches[1:])
        if isinstance(value, ir.Call):
            if function_name(value) not in _GROWING:
                return 0
            found = in_value(value.args[0])
            if function_name(value) == "pow":
                exponent = number_of(value.args[1])
                if exponent is not None and exponent < 0:
                    return 0
                if (exponent is None or exponent > 1) and reads(value.args[0], stores):
                    found |= _POWER
            return found
        if isinstance(value, ir.Var) and value in stores.names:
            return in_value(stores.names[value])
        return in_buffer(value.source) if isinstance(value, ir.TensorLoad) else 0

    def is_square(value: Any) -> bool:
        a, b = map(stores.meant, _sides(value))
        if isinstance(a, ir.TensorLoad) and isinstance(b, ir.TensorLoad):
            same = tensor.get(a.source, -1) == tensor.get(b.source, -2)
            same = same or a.source.same_as(b.source)
            return same and all(map(tvm_ffi.structural_equal, a.indices, b.indices))
        return tvm_ffi.structural_equal(a, b) and reads(a, stores)

    def is_product(value: Any, terms: int) -> bool:
        """Whether a block adds up products of two tensors, as a convolution does."""
        term = stores.meant(value.b) if isinstance(value, prim.Add) and terms > 1 else None
        if not isinstance(term, prim.Mul) or is_square(term):
            return False
        return all(reads(side, stores) for side in _sides(term))

    for buffer in stores.written:
        in_buffer(buffer)
    return [param in stores.written and in_buffer(param) != 0 for param in func.params]


def _undivided(value: Any, terms: int, stores: Stores) -> int:
    """_SUM for what a block adds up over many terms."""
    if terms < MANY or not isinstance(value, prim.Add):
        return 0
    term = stores.meant(value.b)
    bounded = isinstance(term, ir.Call) and function_name(term) == "exp"  # of a softmax: at most 1
    return 0 if bounded and terms < FP16_MAX else _SUM


def reads(value: Any, stores: Stores) -> bool:
    """Whether a value is made of what is in buffers."""
    return any(True for _ in stores.loaded(value))


def _sides(value: Any) -> tuple[Any, Any]:
    return value.a, value.b


def _any(found: Iterable[int]) -> int:
    together = 0
    for each in found:
        together |= each
    return together


def number_of(value: Any) -> float | None:
    """The number that a constant is; None for what is none."""
    if isinstance(value, prim.Cast):
        return number_of(value.value)
    if isinstance(value, (prim.FloatImm, prim.IntImm)):
        return float(value.value)
    return None


def function_name(call: Any) -> str:
    """The bare name of the operator that is called."""
    return str(getattr(call.op, "name", "")).rpartition(".")[2]
