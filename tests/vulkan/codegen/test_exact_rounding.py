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
