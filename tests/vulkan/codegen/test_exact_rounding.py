"""What is rounded is computed as it is written: by a module's words, and as numpy has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from support import lowering
from tvm_vision.vulkan.codegen import spirv

SOURCE = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A {{ float a[]; }};
layout(std430, binding = 1) writeonly buffer B {{ int b[]; }};
layout(std430, binding = 2) writeonly buffer C {{ float c[]; }};
void main() {{
  uint i = gl_GlobalInvocationID.x;
  {body}
}}
"""
NUMBERS = np.float32(0.1), np.float32(0.05), np.float32(137)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", "")


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    ("body", "exact"),
    [
        ("b[i] = int(a[i] * 0.3 + 0.7);", 2),
        ("b[i] = int(roundEven(a[i] / 0.3));", 1),
        ("float x = a[i] * 0.3; b[i] = int(x + 0.7);", 2),
        ("b[i] = int(a[i] > 0.0 ? a[i] * 0.3 : a[i] * 0.5 * 0.7);", 3),
        ("precise float x = a[i] * 0.3; b[i] = int(x);", 1),
        # What is added up over many terms may be merged, what follows may not.
        (
            "float s = 0.0; for (int k = 0; k < 9; ++k) s += a[i + k] * a[k]; b[i] = int(s * 0.3);",
            1,
        ),
        ("c[i] = a[i] * 0.3 + 0.7;", 0),
        ("c[i] = floor(a[i]) * 0.3 + 0.7;", 0),
    ],
)
def test_what_decides_about_a_rounding(body: str, exact: int, optimize: bool) -> None:
    made = spirv.compile_glsl(SOURCE.format(body=body), name="k", optimize=optimize)
    spirv.validate(made)
    assert len(re.findall(r"OpDecorate \S+ NoContraction", spirv.disassemble(made))) == exact


@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize(
    "body",
    [
        lambda x, a, b, c, choose: x * a * b + c,
        lambda x, a, b, c, choose: x * a / b + c,
        lambda x, a, b, c, choose: (x - c) * b * a,
        lambda x, a, b, c, choose: choose(x > 0, x * b, x * b * a) / a,
    ],
    ids=["product and sum", "quotient", "two factors", "choice"],
)
def test_numbers_half_way_between_two_steps(body: Callable[..., Any], vector: int) -> None:
    """As numpy has them, which rounds after each operation."""
    x = np.arange(-(1 << 14), 1 << 14, dtype=np.float32)
    constants = [tirx.const(float(number), "float32") for number in NUMBERS]
    found = lowering.evaluate(
        lambda v: tirx.nearbyint(body(v, *constants, tirx.Select)).astype("int32"),
        x,
        dtype="int32",
        vector=vector,
    )
    wanted = np.rint(body(x, *NUMBERS, np.where)).astype(np.int32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("vector", [1, 4])
def test_halves_and_back_are_rounded(vector: int) -> None:
    """Every number of fp16, what lies half way to the next and beside that; and by arithmetic:
    NVIDIA's compiler takes two conversions that undo each other for none."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = np.append(halves[np.isfinite(halves)], [65536, -65536, np.inf, -np.inf])
    ordered = np.unique(halves.astype(np.float32))
    between = ((ordered[1:].astype("float64") + ordered[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(between, np.float32(way)) for way in (-np.inf, np.inf)]
    ends = np.array([1e-8, -1e-8, 2.0**-25, 2.0**-126, 3e38, -3e38, 65519.99, 65520], "float32")
    x = np.concatenate([ordered, between, *beside, ends])
    x = np.append(x[np.isfinite(x)], np.zeros(-np.isfinite(x).sum() % 4, np.float32))
    found = lowering.evaluate(
        lambda v: v.astype("float16").astype("float32"), x, dtype="float32", vector=vector
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float32))
