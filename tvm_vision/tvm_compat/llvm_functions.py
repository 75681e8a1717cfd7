"""Functions of float32 as LLVM code: with all digits near 0, and for a vector at a time.

TVM takes tanh x for (1 - e^-2x) / (1 + e^-2x), and atanh x for half of ln((1 + x) / (1 - x)): of an
x of 1e-5, 1 - e^-2x has lost five of its seven digits. For a negative x it computes a second form
of tanh beside the first, with a power and a quotient of its own.

LLVM has no e^x, ln x, erf x, sin x and cos x of vectors: it calls the C library's for one number
after the other, around which every register of a kernel goes to the stack. Sigmoid, SiLU, softmax,
softplus, Mish and GELU are made of them, and encodings of places and steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import prim

# Up to here a series is within 4e-8 of float32's tanh and atanh, and TVM's forms within 4e-7.
NEAR = 0.25
# Of x, x³, x⁵ ... (Abramowitz and Stegun, Handbook of Mathematical Functions, 4.5.64 and 4.6.33).
SERIES = {
    "tanh": (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925),
    "atanh": (1.0, 1 / 3, 1 / 5, 1 / 7, 1 / 9, 1 / 11),
}
RULES = {
    "tanh": "llvm.FLowerIntrinsic",
    "atanh": "llvm.FLegalize",
    "exp": "llvm.FLowerIntrinsic",
    "log": "llvm.FLowerIntrinsic",
    "erf": "llvm.FLegalize",
    "sin": "llvm.FLowerIntrinsic",
    "cos": "llvm.FLowerIntrinsic",
}

# Of 1, x, x² ... (the same, 4.2.1); up to ln 2 / 2 what is left out is 5e-9 of the value.
EXP_SERIES = tuple(1 / math.factorial(power) for power in range(8))
# From where e^x is 0, and infinite, in float32.
EXP_LEAST, EXP_MOST = -104.0, 89.0
# ln 2 in two parts (Cody and Waite): a whole number of up to 8 bits times the first is exact.
LN2_HIGH, LN2_LOW = 0.693359375, math.log(2) - 0.693359375

# Of s, s³, s⁵ ... with s = (m - 1) / (m + 1), for ln m (the same, 4.1.27); up to √2 what is left
# out is 2e-9 of the value.
LOG_SERIES = tuple(2 / (2 * n + 1) for n in range(5))
MANTISSA, ONE, LEAST_NORMAL = 0x7FFFFF, 0x3F800000, 2.0**-126

# erf x = x P(x²) / Q(x²), of 1, x², x⁴ ...: within 2.5e-8 of the value up to ERF_END, from where it
# is 1 in float32 (fitted by scripts/fit_erf.py).
ERF_END = 4.0
ERF_P = (1.12837914, 0.193544764, 0.0531016529, 0.00388331414, 0.000284562585, 1.98675265e-06)
ERF_Q = (1.0, 0.504857137, 0.115349828, 0.0152071963, 0.00118555875, 3.74196869e-05)

# Of x, x³, x⁵ ... (the same, 4.3.65); up to π / 2 what is left out is 7e-10.
SINE_SERIES = tuple((-1) ** power / math.factorial(2 * power + 1) for power in range(7))


@cache
def exact_functions() -> None:
    """Let LLVM code of this process compute these functions of float32 so."""
    makers: dict[str, Callable[[Any], Any]] = {
        "exp": _exp,
        "log": _log,
        "erf": _erf,
        "sin": lambda call: _sine(call.args[0], 0.0),
        "cos": lambda call: _sine(call.args[0], math.pi / 2),
        "tanh": _near_zero("tanh", _tanh),
    }
    for name, rule in RULES.items():
        operator = tvm.ir.Op.get(f"tirx.{name}")
        further = operator.get_attr(rule) if operator.has_attr(rule) else None
        make = makers.get(name) or _near_zero(name, further)
        tvm.ir.register_op_attr(f"tirx.{name}", rule, _of_float32(make, further), level=11)


def _of_float32(make: Callable[[Any], Any], further: Any) -> Callable[[Any], Any]:
    def lower(call: Any) -> Any:
        if str(call.ty.dtype).startswith("float32"):
            return make(call)
        return call if further is None else further(call)

    return lower


def _near_zero(name: str, further: Any) -> Callable[[Any], Any]:
    def make(call: Any) -> Any:
        x = call.args[0]
        near = tirx.abs(x) < _like(NEAR, x)
        return prim.Select(near, _series(SERIES[name], x * x) * x, further(call))

    return make


def _tanh(call: Any) -> Any:
    """As of |x|, whose e^-2|x| is never large."""
    x = call.args[0]
    power = tirx.exp(tirx.abs(x) * _like(-2.0, x))
    value = (_like(1.0, x) - power) / (_like(1.0, x) + power)
    return prim.Select(x < _like(0.0, x), -value, value)


def _exp(call: Any) -> Any:
    """e^x = 2^n e^r, with n the whole number next to x / ln 2; 2^n in two factors, of which each is
    a float32 where the result is infinite or has no leading digit."""
    x = call.args[0]
    lanes = str(x.ty.dtype).removeprefix("float32")
    whole = f"int32{lanes}"
    bounded = _bounded(x, EXP_LEAST, EXP_MOST)
    n = tirx.floor(bounded * _like(1 / math.log(2), x) + _like(0.5, x))
    rest = (bounded - n * _like(LN2_HIGH, x)) - n * _like(LN2_LOW, x)
    count = n.astype(whole)
    half = tirx.shift_right(count, tirx.const(1, whole))

    def power(exponent: Any) -> Any:
        bits = tirx.shift_left(exponent + tirx.const(127, whole), tirx.const(23, whole))
        return tirx.reinterpret(str(x.ty.dtype), bits)

    value = _series(EXP_SERIES, rest) * power(half) * power(count - half)
    # Of what is no number, the whole number above is none that can be relied on.
    return prim.Select(tirx.isnan(x), x, value)


def _log(call: Any) -> Any:
    """ln x = n ln 2 + ln m, with m from √½ to √2."""
    x = call.args[0]
    dtype = str(x.ty.dtype)
    whole = "int32" + dtype.removeprefix("float32")

    def number(value: int) -> Any:
        return tirx.const(value, whole)

    small = x < _like(LEAST_NORMAL, x)
    bits = tirx.reinterpret(whole, prim.Select(small, x * _like(2.0**23, x), x))
    n = tirx.shift_right(bits, number(23)) - prim.Select(small, number(127 + 23), number(127))
    m = tirx.reinterpret(
        dtype, tirx.bitwise_or(tirx.bitwise_and(bits, number(MANTISSA)), number(ONE))
    )
    large = m > _like(math.sqrt(2), x)
    m = prim.Select(large, m * _like(0.5, x), m)
    n = prim.Select(large, n + number(1), n).astype(dtype)
    s = (m - _like(1.0, x)) / (m + _like(1.0, x))
    value = n * _like(LN2_HIGH, x) + (n * _like(LN2_LOW, x) + _series(LOG_SERIES, s * s) * s)
    # Infinity and what is no number are themselves, and there is no logarithm below 0.
    value = prim.Select(x < _like(math.inf, x), value, x)
    value = prim.Select(x < _like(0.0, x), _like(math.nan, x), value)
    return prim.Select(prim.EQ(x, _like(0.0, x)), _like(-math.inf, x), value)


def _erf(call: Any) -> Any:
    x = call.args[0]
    near = _bounded(x, -ERF_END, ERF_END)
    square = near * near
    # In float32 the quotient rounds to the next number above 1 at some places.
    return _bounded(near * _series(ERF_P, square) / _series(ERF_Q, square), -1.0, 1.0)


def _sine(x: Any, ahead: float) -> Any:
    """sin (x + ahead) = ± sin r, with r what is left of the whole number of π next to it: found in
    float64, whose digits are enough for that up to an x of 1e8. Beyond, it is some number from -1
    to 1."""
    dtype = str(x.ty.dtype)
    wide = x.astype("float64" + dtype.removeprefix("float32"))
    if ahead:
        wide = wide + _like(ahead, wide)
    count = tirx.floor(wide * _like(1 / math.pi, wide) + _like(0.5, wide))
    rest = _bounded((wide - count * _like(math.pi, wide)).astype(dtype), -math.pi / 2, math.pi / 2)
    odd = (count - tirx.floor(count * _like(0.5, wide)) * _like(2.0, wide)).astype(dtype)
    sign = _like(1.0, x) - odd * _like(2.0, x)
    return _bounded(_series(SINE_SERIES, rest * rest) * rest * sign, -1.0, 1.0)


def _bounded(x: Any, least: float, most: float) -> Any:
    """What is no number stays so: LLVM code of TVM's takes the second of two where the first is not
    the larger, or the smaller. Selections would say the same with the value twice, and what is made
    of this is gone through as a tree."""
    return prim.Min(_like(most, x), prim.Max(_like(least, x), x))


def _series(terms: Sequence[float], x: Any) -> Any:
    """The sum of ``terms`` times 1, x, x² ..., by Horner's rule."""
    *first, value = (_like(term, x) for term in terms)
    for term in reversed(first):
        value = value * x + term
    return value


def _like(number: float, x: Any) -> Any:
    return tirx.const(number, str(x.ty.dtype))
