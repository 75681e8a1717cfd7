"""Which tensors hold numbers that fp16 takes for 0 or for infinity: the least length that a vector
is divided by, as 1e-12, or what hides a place from a softmax, as -3.4e38.

As 0 the first makes 0 / 0 of a black image, as -inf the second makes inf - inf of a row that is
hidden whole.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts
from .stores import Stores

FP16_MAX = float(np.finfo(np.float16).max)
LEAST_NORMAL = float(np.finfo(np.float16).tiny)
VANISHES = 2.0**-25  # half of the smallest number of fp16, which rounds to 0
_ARITHMETIC = (prim.Add, prim.Sub, prim.Mul)


def lost(number: float) -> bool:
    """Whether fp16 makes 0 or infinity of a number that is neither."""
    return math.isfinite(number) and (abs(number) > FP16_MAX or 0 < abs(number) <= VANISHES)


def holds_lost(
    func: tirx.PrimFunc, numbers: Mapping[int, float], tensors: Collection[int]
) -> list[bool]:
    """For each parameter of ``func`` whether numbers that fp16 loses are written to it: as they
    are, as bounds, by a choice, or as factors or summands of what is written.

    What cannot be told apart from a bound that is never reached is none: the least number of all in
    a maximum, as where a sum of maxima begins, and the largest in a minimum. Nor is what is chosen
    where a tensor that holds no such number equals one.

    Args:
        numbers: of parameters that hold one number, by their places.
        tensors: places of parameters that hold numbers which are lost when it begins.
    """
    single = {func.params[place]: number for place, number in numbers.items()}
    holding = {func.params[place] for place in tensors}
    written = Stores(func).written

    # Of each buffer and way of asking: one that several blocks read is looked through once.
    answers: dict[tuple[Any, bool, int], bool] = {}

    def in_buffer(buffer: Any, small: bool, unreached: int = 0) -> bool:
        asked = buffer, small, unreached
        if asked not in answers:
            answers[asked] = False  # to itself: a sum reads what it writes
            values = written.get(buffer, ())
            answers[asked] = any(in_value(value, small, unreached) for value, _ in values)
        return answers[asked]

    def in_value(value: Any, small: bool, unreached: int = 0) -> bool:
        """small: whether numbers near 0 count, which further summands make up for. unreached: the
        sign of large ones that do not."""
        if isinstance(value, prim.Cast):
            return in_value(value.value, small, unreached)
        if isinstance(value, (prim.Max, prim.Min)):
            sign = -1 if isinstance(value, prim.Max) else 1
            return any(in_value(side, small, sign) for side in (value.a, value.b))
        if isinstance(value, _ARITHMETIC):
            sides = value.a, value.b
            return any(is_lost(side, small, 0) or in_value(side, False) for side in sides)
        if branches := choice_parts(value):
            asked, chosen, other = branches
            reached = (other,) if is_beyond(asked) else (chosen, other)
            return any(in_value(branch, small, unreached) for branch in reached)
        if isinstance(value, ir.TensorLoad) and value.source in written:
            return in_buffer(value.source, small, unreached)
        return is_lost(value, small, unreached)

    def is_beyond(asked: Any) -> bool:
        """Whether a condition asks for a large number that fp16 loses, of what holds none: as the
        first number of a maximum, which is an infinity's neighbour, is asked for."""
        if isinstance(asked, prim.Cast):
            return is_beyond(asked.value)
        if isinstance(asked, prim.LT) and isinstance(asked.a, tirx.IntImm):
            return int(asked.a.value) == 0 and is_beyond(asked.b)  # how Relax asks a truth
        if isinstance(asked, ir.TensorLoad) and asked.source in written:
            return all(is_beyond(value) for value, _ in written[asked.source])
        if not isinstance(asked, prim.EQ):
            return False
        sides = (asked.a, asked.b), (asked.b, asked.a)
        return any(is_lost(n, False, 0) and not in_value(value, False) for n, value in sides)

    def is_lost(value: Any, small: bool, unreached: int) -> bool:
        if isinstance(value, prim.FloatImm):
            number = float(value.value)
        elif isinstance(value, ir.TensorLoad) and value.source in single:
            number = single[value.source]
        else:
            return isinstance(value, ir.TensorLoad) and value.source in holding
        if abs(number) < 1:
            return small and lost(number)
        return lost(number) and not number * unreached > FP16_MAX

    for buffer in written:
        for small, unreached in product((True, False), (0, -1, 1)):
            in_buffer(buffer, small, unreached)
    return [in_buffer(param, True) for param in func.params]
