"""Types that a device lacks: the same numbers as numpy, computed and stored in those it has."""

# TVMScript is no Python that types can be checked of.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from support import lowering
from tvm_vision import vulkan
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import spirv
from tvm_vision.vulkan.codegen.glsl.kernel import print_kernel

pytestmark = pytest.mark.usefixtures("device_info")

NO_INT64 = {"supports_int64": False}
NO_SMALL = {"supports_int8": False, "supports_int16": False, "supports_float16": False}
NO_BUFFERS = {"supports_8bit_buffer": False, "supports_16bit_buffer": False}
DEVICES = {  # as a Raspberry Pi 5, as SwiftShader, and as an older Adreno
    "v3d": {**NO_INT64, **NO_SMALL},
    "swiftshader": {**NO_INT64, **NO_SMALL, **NO_BUFFERS},
    "adreno": NO_BUFFERS,
}
CAPABILITIES = {
    "supports_int8": "Int8",
    "supports_int16": "Int16",
    "supports_int64": "Int64",
    "supports_float16": "Float16",
    "supports_8bit_buffer": "StorageBuffer8BitAccess",
    "supports_16bit_buffer": "StorageBuffer16BitAccess",
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
COUNT = 61  # neither whole words of bytes nor whole workgroups

lacking = pytest.mark.parametrize("lacking", DEVICES.values(), ids=DEVICES)
without_types = pytest.mark.parametrize(
    "lacking", [DEVICES["v3d"], DEVICES["swiftshader"]], ids=["v3d", "swiftshader"]
)


def need_float16(lacking: dict[str, Any], info: vulkan.DeviceInfo) -> None:
    """Skips where either the device or what it is made to lack leaves float16 no form."""
    if not lacking.get("supports_16bit_buffer", info.supports_16bit_buffer):
        pytest.skip("float16 has no form without buffers of 16 bits")


def numbers(dtype: str, seed: int, most: int = 1 << 31) -> np.ndarray:
    """Of the whole range of a type, as far as 32 bits go."""
    found = np.iinfo(dtype)
    low, high = max(int(found.min), -most), min(int(found.max), most - 1)
    return np.random.default_rng(seed).integers(low, high, COUNT, endpoint=True).astype(dtype)


@without_types
@pytest.mark.parametrize("dtype", INTEGERS)
def test_arithmetic_wraps_as_the_type_does(dtype: str, lacking: dict[str, Any]) -> None:
    most = 1 << 15 if dtype.endswith("64") else 1 << 31  # a product of two fits 32 bits
    a, b = numbers(dtype, 0, most), numbers(dtype, 1, most)
    b[b == 0] = 3
    if dtype.startswith("uint64"):
        a, b = np.maximum(a, b), np.minimum(a, b)
    for body, reference in (
        (lambda x, y: x + y, np.add),
        (lambda x, y: x - y, np.subtract),
        (lambda x, y: x * y, np.multiply),
        (tirx.floordiv, np.floor_divide),
        (tirx.floormod, np.mod),
        (lambda x, _: tirx.floordiv(x, tirx.const(3, dtype)), lambda x, _: x // np.array(3, dtype)),
        (tirx.min, np.minimum),
        (tirx.max, np.maximum),
        (lambda x, y: x & y, np.bitwise_and),
        (lambda x, y: x ^ y, np.bitwise_xor),
    ):
        with np.errstate(all="ignore"):
            expected = reference(a, b)
        found = lowering.evaluate(body, a, b, dtype=dtype, lacking=lacking)
        np.testing.assert_array_equal(found, expected)


@without_types
@pytest.mark.parametrize("dtype", INTEGERS[:6])
def test_shifts_and_complements(dtype: str, lacking: dict[str, Any]) -> None:
    a = numbers(dtype, 0)
    by, bits = tirx.const(3, dtype), np.iinfo(dtype).bits
    for body, expected in (
        (lambda x: x << by, a << 3),
        (lambda x: x >> by, a >> 3),
        (lambda x: ~x, ~a),
        (lambda x: tirx.abs(x), np.abs(a)),
        (tirx.popcount, [bin(int(x) & ((1 << bits) - 1)).count("1") for x in a]),
    ):
        found = lowering.evaluate(body, a, dtype=dtype, lacking=lacking)
        np.testing.assert_array_equal(found, np.array(expected).astype(dtype))


SOURCES = ("bool", *INTEGERS, "float32", "float16")
PAIRS = [  # each type with one of each other kind
    (source, to)
    for i, source in enumerate(SOURCES)
    for to in (*SOURCES[i % 3 :: 3], SOURCES[(i + 1) % len(SOURCES)])
    if source != to
]


@lacking
@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_conversions(
    source: str, to: str, lacking: dict[str, Any], device_info: vulkan.DeviceInfo
) -> None:
    if "float16" in (source, to):
        need_float16(lacking, device_info)
    if source == "bool":
        x = np.arange(COUNT) % 3 == 0
    elif "float" in source or "float" in to:
        low = 0 if "u" in source + to else -100
        x = np.random.default_rng(3).integers(low, 100, COUNT).astype(source)
    else:
        x = numbers(source, 3)
        x = x & 127 if to == "uint64" else x
    vector = 4 if len(source) > len(to) else 1
    found = lowering.evaluate(
        lambda a: tirx.Cast(to, a), x, dtype=to, vector=vector, lacking=lacking
    )
    np.testing.assert_array_equal(found, x.astype(to))


@lacking
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS))
def test_neighbours_in_a_word_are_kept(dtype: str, lacking: dict[str, Any]) -> None:
    """Threads that write every third element, into what was there before."""
    function = _scatter(dtype)
    x = np.abs(numbers("int32", 5, 100)).astype(dtype)
    before = np.tile(np.array([1, 0, 2], "int32").astype(dtype), COUNT)
    _, after = lowering.execute(function, x, before.copy(), lacking=lacking)
    expected = before.copy()
    expected[1::3] = x
    np.testing.assert_array_equal(after, expected)


def _scatter(dtype: str) -> Any:
    """y[3 i + 1] = x[i], a thread an element."""

    @T.prim_func(s_tir=True)
    def scatter(x: T.Buffer((COUNT,), dtype), y: T.Buffer((3 * COUNT,), dtype)) -> None:
        for i in T.thread_binding(COUNT, thread="threadIdx.x"):
            with T.sblock("scatter"):
                v = T.axis.spatial(COUNT, i)
                y[3 * v + 1] = x[v]

    return scatter


@without_types
def test_numbers_beyond_32_bits_become_the_nearest(lacking: dict[str, Any]) -> None:
    x = np.array([1 << 40, -(1 << 40), 1 << 31, -(1 << 31) - 1, (1 << 63) - 1, -1, 7], "int64")
    low, high = -(1 << 31), (1 << 31) - 1
    found = lowering.evaluate(lambda a: a, x, dtype="int64", lacking=lacking)
    np.testing.assert_array_equal(found, np.clip(x, low, high))
    limit = tirx.const((1 << 63) - 1, "int64")
    found = lowering.evaluate(lambda a: tirx.min(a, limit), x, dtype="int64", lacking=lacking)
    np.testing.assert_array_equal(found, np.clip(x, low, high))


def test_a_constant_that_32_bits_do_not_hold_is_refused() -> None:
    big = tirx.const(1 << 40, "int64")
    function = lowering.elementwise(lambda a: a + big, ["int64"])
    with pytest.raises(UnsupportedKernelError, match=r"kernel main_kernel: .*1099511627776.*int64"):
        lowering.kernels(function, lowering.target(**NO_INT64))


@without_types
def test_division_that_rounds_down_by_a_large_sum(lacking: dict[str, Any]) -> None:
    """As TVM writes it for indices that may be negative."""
    x = numbers("int64", 0, 1 << 29)
    for by in (2147483645, 2147483650):
        large, five = tirx.const(by, "int64"), tirx.const(5, "int64")
        for body, expected in (
            (lambda a, c=large, d=five: tirx.truncdiv(a + c, d) - tirx.truncdiv(c, d), x // 5),
            (lambda a, c=large, d=five: tirx.truncmod(a + c, d), x % 5),
        ):
            found = lowering.evaluate(body, x, dtype="int64", lacking=lacking)
            np.testing.assert_array_equal(found, expected)


def dynamic_shared(dtype: str, other: str) -> Any:
    """Two arrays of a type and one of another in dynamic shared memory, which TVM merges: out[i] is
    a[63 - i] + b[63 - i] + c[63 - i], in float32."""

    @T.prim_func(s_tir=True)
    def function(
        a: T.Buffer((64,), dtype),
        b: T.Buffer((64,), other),
        c: T.Buffer((64,), dtype),
        out: T.Buffer((64,), "float32"),
    ):
        for tx in T.thread_binding(64, "threadIdx.x"):
            first = T.alloc_buffer((64,), dtype, scope="shared.dyn")
            second = T.alloc_buffer((64,), other, scope="shared.dyn")
            third = T.alloc_buffer((64,), dtype, scope="shared.dyn")
            first[tx] = a[tx]
            second[tx] = b[tx]
            third[tx] = c[tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            out[tx] = (
                T.Cast("float32", first[63 - tx])
                + T.Cast("float32", second[63 - tx])
                + T.Cast("float32", third[63 - tx])
            )

    return function


@lacking
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16"])
def test_dynamic_shared_memory_of_several_types(
    dtype: str, lacking: dict[str, Any], device_info: vulkan.DeviceInfo
) -> None:
    if dtype == "float16":
        need_float16(lacking, device_info)
    a, b, c = np.random.default_rng(6).integers(0, 100, (3, 64))
    for other in ("int8", "float32"):
        given = (a.astype(dtype), b.astype(other), c.astype(dtype))
        found = lowering.execute(
            dynamic_shared(dtype, other), *given, np.zeros(64, "float32"), lacking=lacking
        )[3]
        np.testing.assert_array_equal(found, (a + b + c)[::-1].astype("float32"))


def test_an_operator_without_another_form_is_refused() -> None:
    shuffle = lambda a: lowering.call("tvm_warp_shuffle", "int8", -1, a, 0, 32, 32)  # noqa: E731
    function = lowering.elementwise(shuffle, ["int8"])
    with pytest.raises(UnsupportedKernelError, match=r"shuffle on .*int8.* cast to int32 first"):
        lowering.kernels(function, lowering.target(**NO_SMALL))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_what_nothing_stands_for_is_refused_beside_what_something_does(dtype: str) -> None:
    lacking = {**DEVICES["swiftshader"], "supports_float64": False}
    for source, to in ((dtype, "int8"), ("int64", dtype)):
        function = lowering.elementwise(lambda a, to=to: tirx.Cast(to, a), [source])
        with pytest.raises(UnsupportedKernelError, match=f"kernel main_kernel: type {dtype} needs"):
            lowering.kernels(function, lowering.target(**lacking))


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "bool"])
@lacking
def test_a_shader_asks_for_nothing_that_is_missing(dtype: str, lacking: dict[str, Any]) -> None:
    if dtype == "float16" and not lacking.get("supports_16bit_buffer", True):
        pytest.skip("float16 has no form without buffers of 16 bits")
    function = lowering.elementwise(lambda a: tirx.Select(a > a, a, a), [dtype])
    if dtype == "bool":
        function = lowering.elementwise(lambda a: tirx.Not(a), [dtype])
    on = lowering.target(**lacking)
    for kernel in lowering.kernels(function, on):
        text = spirv.disassemble(spirv.compile_glsl(kernel.source, name=kernel.name))
        asked = set(re.findall(r"OpCapability (\w+)", text))
        assert not {CAPABILITIES[attribute] for attribute in lacking} & asked


def test_where_nothing_is_missing_kernels_stay_as_they_are() -> None:
    function = lowering.elementwise(lambda a: a + a, ["int64"])
    (lowered,) = dict(
        lowering.device_module(function, lowering.target()).functions_items()
    ).values()
    all_there = dict(lowering.target().attrs)
    silent = {k: v for k, v in all_there.items() if not k.startswith("supports_")}
    assert print_kernel(lowered, all_there).source == print_kernel(lowered, silent).source
