"""Arithmetic on the device against numpy: every operator, type and conversion; then properties."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from support import lowering
from tvm_vision import vulkan

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COUNT = 512
# The variable: see scripts/on_driver.py.
WITHOUT_AVX512 = (
    "GALLIUM_OVERRIDE_CPU_CAPS" in os.environ or "avx512f" not in Path("/proc/cpuinfo").read_text()
)


@pytest.fixture(autouse=True)
def has_types(request: pytest.FixtureRequest, device_info: vulkan.DeviceInfo) -> None:
    """Skips what a device computes in fewer bits or not at all (codegen/test_legalize_types.py)."""
    missing = {
        "float16": not device_info.supports_16bit_buffer,
        "float64": not device_info.supports_float64,
        "int64": not device_info.supports_int64,
        "uint64": not device_info.supports_int64,
    }
    callspec = getattr(request.node, "callspec", None)
    for each in callspec.params.values() if callspec else ():
        if isinstance(each, str) and missing.get(each):
            pytest.skip(f"the device has no {each}")


def random_integers(dtype: str, seed: int, nonzero: bool = False) -> np.ndarray:
    """Half of them small, half over the whole range."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    small = rng.integers(max(limits.min, -20), 20, COUNT // 2)
    large = rng.integers(limits.min, limits.max, COUNT - COUNT // 2, dtype=dtype, endpoint=True)
    found = np.concatenate([small.astype(dtype), large])
    found[found == (0 if nonzero else limits.max)] = 1
    if nonzero and limits.min < 0:
        found[found == -1] = -2  # the smallest number divided by -1 overflows
    return found


@dataclass
class Function:
    """A float function: reference in float64 and the range of arguments."""

    reference: Callable[..., np.ndarray]
    low: float
    high: float
    scale: float = 1.0  # of the tolerance: how much the function magnifies errors

    def sample(self, dtype: str, seed: int = 0) -> np.ndarray:
        low, high = self.low, self.high
        if dtype == "float16":
            low, high = max(low, -4.0), min(high, 4.0)
        found = np.random.default_rng(seed).uniform(low, high, COUNT)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1.5, 1e-3, -1e-3]
        found[: len(special)] = np.clip(special, low, high)
        return found.astype(dtype)


FUNCTIONS = {
    "exp": Function(np.exp, -80, 80, 60),
    "exp2": Function(np.exp2, -100, 100, 20),
    "exp10": Function(lambda x: np.power(10.0, x), -30, 30, 20),
    "log": Function(np.log, 1e-3, 1e6),
    "log2": Function(np.log2, 1e-3, 1e6, 20),
    "log10": Function(np.log10, 1e-3, 1e6),
    "log1p": Function(np.log1p, -0.99, 100),
    "sqrt": Function(np.sqrt, 0, 1e6),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 1e-3, 1e6),
    "sin": Function(np.sin, -1000, 1000),
    "cos": Function(np.cos, -1000, 1000),
    "tan": Function(np.tan, -1.5, 1.5),
    "asin": Function(np.arcsin, -1, 1),
    "acos": Function(np.arccos, -1, 1),
    "atan": Function(np.arctan, -100, 100),
    "sinh": Function(np.sinh, -80, 80, 60),
    "cosh": Function(np.cosh, -80, 80, 60),
    "tanh": Function(np.tanh, -100, 100),
    "asinh": Function(np.arcsinh, -1e4, 1e4),
    "acosh": Function(np.arccosh, 1, 1e4),
    "atanh": Function(np.arctanh, -0.999, 0.999, 4),
    "erf": Function(np.vectorize(math.erf), -8, 8),
    "sigmoid": Function(lambda x: 1 / (1 + np.exp(-x)), -60, 60, 60),
    "floor": Function(np.floor, -100, 100),
    "ceil": Function(np.ceil, -100, 100),
    "trunc": Function(np.trunc, -100, 100),
    "round": Function(np.round, -100, 100),
    "nearbyint": Function(np.round, -100, 100),
    "fabs": Function(np.abs, -100, 100),
}
ROUNDING = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, dtype: str, device_info: vulkan.DeviceInfo) -> None:
    if name in ("round", "nearbyint") and dtype == "float64":
        if device_info.is_cpu and WITHOUT_AVX512:
            pytest.skip("lavapipe without AVX-512 rounds 1.5 of float64 to 1")
    function = FUNCTIONS[name]
    x = function.sample(dtype)
    found = lowering.evaluate(lambda a: lowering.call(name, dtype, a), x, dtype=dtype)
    with np.errstate(all="ignore"):
        expected = function.reference(x.astype("float64"))
    tolerance = 4 * ROUNDING[dtype] * (function.scale if dtype != "float16" else 1)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


PAIRS = {
    "pow": (np.power, 0.01, 10.0),
    "atan2": (np.arctan2, -5.0, 5.0),
    "fmod": (np.fmod, -50.0, 50.0),
    "hypot": (np.hypot, -50.0, 50.0),
    "copysign": (np.copysign, -5.0, 5.0),
    "nextafter": (np.nextafter, -5.0, 5.0),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PAIRS)
def test_function_of_two(name: str, dtype: str) -> None:
    reference, low, high = PAIRS[name]
    if (name, dtype) == ("nextafter", "float16"):
        pytest.skip("nextafter of float16 has no form")
    if (name, dtype) == ("pow", "float16"):
        high = 3.0
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(low, high, COUNT).astype(dtype) for _ in range(2))
    found = lowering.evaluate(lambda a, b: lowering.call(name, dtype, a, b), x, y, dtype=dtype)
    wide = "float64" if name not in ("nextafter", "fmod") else dtype
    expected = reference(x.astype(wide), y.astype(wide))
    rtol = 0 if name == "nextafter" else {"pow": 200, "fmod": 1}.get(name, 8) * ROUNDING[dtype]
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([inf, -inf, nan, 0.0, -2.0, -2.0, -2.0, 0.0, 5.5, -5.5, 1e30, 3.0], dtype)
    y = np.array([1.0, 2.0, 1.0, 3.0, 3.0, 2.0, 0.5, 0.0, 2.0, 2.0, 7.0, inf], dtype)
    with np.errstate(all="ignore"):
        for name, reference in (("pow", np.power), ("fmod", np.fmod), ("atan2", np.arctan2)):
            found = lowering.evaluate(
                lambda a, b, n=name: lowering.call(n, dtype, a, b), x, y, dtype=dtype
            )
            np.testing.assert_allclose(found, reference(x, y), rtol=1e-5, err_msg=name)
        for name, unary in (
            ("tanh", np.tanh),
            ("log", np.log),
            ("erf", FUNCTIONS["erf"].reference),
        ):
            found = lowering.evaluate(lambda a, n=name: lowering.call(n, dtype, a), x, dtype=dtype)
            np.testing.assert_allclose(found, unary(x), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_classification(dtype: str) -> None:
    x = np.array([0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, 6e-5], dtype)
    for name, reference in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        found = lowering.evaluate(lambda a, n=name: getattr(tirx, n)(a), x, dtype="bool")
        np.testing.assert_array_equal(found, reference(x), err_msg=name)


def test_ldexp() -> None:
    x = np.array([1.0, -3.0, 1e-20, 1e20, 0.75], "float32")
    n = np.array([3, -2, 120, -100, 127], "int32")
    found = lowering.evaluate(
        lambda a, b: lowering.call("ldexp", "float32", a, b), x, n, dtype="float32"
    )
    np.testing.assert_array_equal(found, np.ldexp(x, n))


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -0.5, -1.0, 0.0])
def test_constant_powers(exponent: float) -> None:
    x = np.random.default_rng(0).uniform(0.1, 9.0, COUNT).astype("float32")
    found = lowering.evaluate(
        lambda a: te.power(a, tirx.const(exponent, "float32")), x, dtype="float32"
    )
    np.testing.assert_allclose(found, x.astype("float64") ** exponent, rtol=1e-6)


INTEGER_OPERATORS: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b, np.multiply),
    "floordiv": (tirx.floordiv, np.floor_divide),
    "floormod": (tirx.floormod, np.mod),
    "truncmod": (tirx.truncmod, np.fmod),
    "min": (tirx.min, np.minimum),
    "max": (tirx.max, np.maximum),
    "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
}


@pytest.mark.parametrize("vector", [1, 8])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", INTEGER_OPERATORS)
def test_integer_operator(name: str, dtype: str, vector: int) -> None:
    body, reference = INTEGER_OPERATORS[name]
    a, b = random_integers(dtype, 0), random_integers(dtype, 1, nonzero=True)
    with np.errstate(all="ignore"):
        expected = reference(a, b)
    found = lowering.evaluate(body, a, b, dtype=dtype, vector=vector)
    np.testing.assert_array_equal(found, expected)


def truncated(a: Any, b: Any) -> int:
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_towards_zero(dtype: str) -> None:
    a, b = random_integers(dtype, 0), random_integers(dtype, 1, nonzero=True)
    found = lowering.evaluate(tirx.truncdiv, a, b, dtype=dtype)
    assert [int(q) for q in found] == [truncated(x, y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("divisor", [1, 3, 7, 8, 10, -1, -3, -8])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_constant_divisors(dtype: str, divisor: int) -> None:
    a = random_integers(dtype, 0)
    a[a == np.iinfo(dtype).min] = 0
    constant = tirx.const(divisor, dtype)
    quotient = lowering.evaluate(lambda x: tirx.floordiv(x, constant), a, dtype=dtype)
    rest = lowering.evaluate(lambda x: tirx.floormod(x, constant), a, dtype=dtype)
    np.testing.assert_array_equal(quotient, a // np.array(divisor, dtype))
    np.testing.assert_array_equal(rest, a % np.array(divisor, dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_and_bit_counts(dtype: str) -> None:
    bits = np.iinfo(dtype).bits
    a = random_integers(dtype, 0)
    by = np.random.default_rng(2).integers(0, bits, COUNT).astype(dtype)
    np.testing.assert_array_equal(
        lowering.evaluate(lambda x, n: x << n, a, by, dtype=dtype), a << by
    )
    np.testing.assert_array_equal(
        lowering.evaluate(lambda x, n: x >> n, a, by, dtype=dtype), a >> by
    )
    np.testing.assert_array_equal(lowering.evaluate(lambda x: ~x, a, dtype=dtype), ~a)
    words = [int(x) & ((1 << bits) - 1) for x in a]
    found = lowering.evaluate(tirx.popcount, a, dtype=dtype)
    assert [int(n) for n in found] == [bin(w).count("1") for w in words]
    if bits >= 32:
        found = lowering.evaluate(tirx.clz, a, dtype="int32")
        assert [int(n) for n in found] == [bits - w.bit_length() for w in words]


ALL_TYPES = ("bool", *INTEGERS, *FLOATS)


def convertible(source: str, to: str) -> np.ndarray:
    """Values whose conversion C defines."""
    if source == "bool":
        return np.arange(COUNT) % 3 == 0
    if source in INTEGERS:
        found = random_integers(source, 3)
        return np.clip(found, 0, 100).astype(source) if to == "float16" else found
    low = 0.0 if to.startswith("u") else -100.0
    return np.random.default_rng(3).uniform(low, 100.0, COUNT).astype(source)


@pytest.mark.parametrize("to", ALL_TYPES)
@pytest.mark.parametrize("source", ALL_TYPES)
def test_conversion(source: str, to: str) -> None:
    x = convertible(source, to)
    for vector in (1, 4):
        found = lowering.evaluate(lambda a: tirx.Cast(to, a), x, dtype=to, vector=vector)
        expected = x.astype(to)
        if source in INTEGERS and to in FLOATS:
            # Of a number between two of the type, Vulkan lets a conversion take either.
            np.testing.assert_array_max_ulp(found, expected, maxulp=1)
            exact = [int(a) == int(b) for a, b in zip(expected, x, strict=True)]
            found, expected = found[exact], expected[exact]
        np.testing.assert_array_equal(found, expected)


def test_a_large_unsigned_number_becomes_a_negative_one() -> None:
    """Also where the shader would divide what is never negative without a sign."""
    x, three = np.array([(1 << 32) - 6, 5, 3_000_000_000], "uint32"), tirx.const(3, "int32")
    body = lambda a: tirx.truncdiv(tirx.Cast("int32", a), three)  # noqa: E731
    found = lowering.evaluate(body, x, dtype="int32")
    np.testing.assert_array_equal(found, [-2, 1, (3_000_000_000 - (1 << 32)) // 3 + 1])


@pytest.mark.parametrize("vector", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_comparison_and_selection(dtype: str, vector: int) -> None:
    n = 48 * 8
    if dtype == "bool":
        a, b = np.arange(n) % 2 == 0, np.arange(n) % 3 == 0
        body = lambda x, y: tirx.Or(tirx.And(x, tirx.Not(y)), tirx.EQ(x, y))  # noqa: E731
        found = lowering.evaluate(body, a, b, dtype="bool", vector=vector)
        np.testing.assert_array_equal(found, (a & ~b) | (a == b))
        return
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 4, n).astype(dtype) for _ in range(2))
    for body, reference in (
        (lambda x, y: x < y, np.less),
        (lambda x, y: x >= y, np.greater_equal),
        (lambda x, y: tirx.NE(x, y), np.not_equal),
    ):
        found = lowering.evaluate(body, a, b, dtype="bool", vector=vector)
        np.testing.assert_array_equal(found, reference(a, b))
    picked = lowering.evaluate(
        lambda x, y: tirx.Select(x > y, x, y + y), a, b, dtype=dtype, vector=vector
    )
    np.testing.assert_array_equal(picked, np.where(a > b, a, b + b))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([("int32", tirx.floordiv, np.floor_divide), ("int32", tirx.floormod, np.mod)]),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1).filter(lambda b: b not in (0, -1)),
)
def test_any_division(operator: tuple, a: int, b: int) -> None:
    dtype, body, reference = operator
    x, y = np.array([a, -a - 1, a, 0], dtype), np.array([b, b, 7, b], dtype)
    np.testing.assert_array_equal(lowering.evaluate(body, x, y, dtype=dtype), reference(x, y))


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 300), st.integers(-40, 40), st.integers(2, 17), st.integers(1, 9))
def test_any_index_arithmetic(n: int, offset: int, divisor: int, scale: int) -> None:
    """Folding by floor division and remainder, with negative numbers on the way."""
    table = np.arange(1000, dtype="float32")
    source = te.placeholder((1000,), "float32", "table")

    def body(i: Any) -> Any:
        k = i * scale + offset
        at = tirx.floordiv(k, divisor) * 3 + tirx.floormod(k, divisor)
        return tirx.if_then_else(tirx.all(at >= 0, at < 1000), source[at], -1.0)

    out = te.compute((n,), body, "out")
    sch = lowering.tvm.s_tir.Schedule(te.create_prim_func([source, out]))
    (loop,) = sch.get_loops(sch.get_sblock("out"))
    outer, thread = sch.split(loop, [None, 32])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    found = lowering.execute(sch.mod["main"], table, np.zeros(n, "float32"))[1]
    k = np.arange(n) * scale + offset
    at = k // divisor * 3 + k % divisor
    inside = (at >= 0) & (at < 1000)
    np.testing.assert_array_equal(found, np.where(inside, table[np.clip(at, 0, 999)], -1.0))
