"""Every operator of the code generator's table, in every type it takes, as valid SPIR-V."""

from __future__ import annotations

import pytest
from tvm import tirx

from support import lowering
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import spirv
from tvm_vision.vulkan.codegen.glsl.intrinsics import RULES

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BINARY = ("pow", "atan2", "fmod", "hypot", "copysign", "nextafter", "ldexp")
BOOLS = ("isnan", "isinf", "isfinite")
# Without an operator of their own, or expanded by TVM: they come through as C functions.
C_FUNCTIONS = ("expm1", "isinf", "isfinite")
OTHERS = """abs fabs fma popcount clz reinterpret q_multiply_shift dp4a __dp4a likely
tvm_thread_invariant vectorlow vectorhigh vectorcombine""".split()  # tested below, one by one
FLOAT_NAMES = sorted(set(RULES) - set(OTHERS))


def extern(name: str, dtype: str, *args: object) -> object:
    suffix = "f" if dtype == "float32" else ""
    return tirx.call_pure_extern(dtype, name + suffix, *args)


@pytest.mark.parametrize("vector", [1, 4, 8])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FLOAT_NAMES)
def test_float_operator(name: str, dtype: str, vector: int) -> None:
    if (name, dtype) == ("nextafter", "float16"):
        pytest.skip("nextafter of float16 has no form; see test_refused_types")
    result = "bool" if name in BOOLS else dtype
    make = extern if name in C_FUNCTIONS else lowering.call
    if name == "ldexp":
        function = lowering.elementwise(
            lambda a, b: make(name, result, a, b), [dtype, "int32"], 64, vector
        )
    elif name in BINARY:
        function = lowering.elementwise(
            lambda a, b: make(name, result, a, b), [dtype, dtype], 64, vector
        )
    else:
        function = lowering.elementwise(lambda a: make(name, result, a), [dtype], 64, vector)
    assert lowering.kernels(function)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_abs(dtype: str) -> None:
    assert lowering.kernels(lowering.elementwise(tirx.abs, [dtype], 64, 4))


@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_multiply_add(dtype: str) -> None:
    body = lambda a, b, c: lowering.call("fma", dtype, a, b, c)  # noqa: E731
    assert lowering.kernels(lowering.elementwise(body, [dtype] * 3, 64, 4))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bit_counts(dtype: str) -> None:
    assert lowering.kernels(lowering.elementwise(tirx.popcount, [dtype], 64, 4))
    if dtype[-2:] in ("32", "64"):  # TVM refuses clz of fewer bits
        assert lowering.kernels(lowering.elementwise(tirx.clz, [dtype]))


@pytest.mark.parametrize(
    "source, to",
    [(a, b) for a in [*FLOATS, *INTEGERS] for b in [*FLOATS, *INTEGERS] if a[-2:] == b[-2:]],
)
def test_reinterpret(source: str, to: str) -> None:
    if source[-1] == "8" != to[-1] or source[-1] != "8" == to[-1]:
        pytest.skip("not the same number of bits")
    body = lambda a: tirx.reinterpret(to, a)  # noqa: E731
    assert lowering.kernels(lowering.elementwise(body, [source], 64, 4))


def test_fixed_point_product() -> None:
    body = lambda a: tirx.q_multiply_shift(a, 1395864371, 31, -2)  # noqa: E731
    assert lowering.kernels(lowering.elementwise(body, ["int32"]))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("instruction", [True, False])
def test_dot_product_of_bytes(dtype: str, instruction: bool) -> None:
    """By the instruction where the target has it, else byte for byte."""
    body = lambda a, b, c: tirx.call_pure_extern(dtype, "__dp4a", a, b, c)  # noqa: E731
    on = lowering.target(supports_integer_dot_product=instruction)
    (kernel,) = lowering.kernels(lowering.elementwise(body, [dtype] * 3), on)
    shader = spirv.disassemble(spirv.compile_glsl(kernel.source, name=kernel.name))
    named = {"int32": "OpSDot ", "uint32": "OpUDot "}[dtype]
    found = [text in shader for text in (named, "DotProductInput4x8BitPacked", "BitField")]
    assert found == [instruction, instruction, not instruction]


def test_refused_types() -> None:
    for name, dtype in (("nextafter", "float16"), ("exp", "int32")):
        count = 2 if name in BINARY else 1
        function = lowering.elementwise(
            lambda *a, n=name, t=dtype: lowering.call(n, t, *a), [dtype] * count
        )
        with pytest.raises(UnsupportedKernelError, match=f"{name} of {dtype} has no form"):
            lowering.kernels(function)
