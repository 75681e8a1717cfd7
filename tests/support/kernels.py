"""Hand-written kernels for tests of the runtime, without TVM's compiler or our code generator."""

from __future__ import annotations

import json
from typing import Any

import tvm_ffi

from tvm_vision.vulkan.codegen import spirv

SCALE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };
layout(push_constant) uniform P { layout(offset = 0) int n; layout(offset = 8) float s; } p;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < p.n) b[i] = a[i] * p.s;
}
"""


def create_module(
    name: str,
    glsl: str,
    arg_types: list[str],
    launch: tuple[str, ...] = ("blockIdx.x", "threadIdx.x"),
    flags: int = 0,
    code: bytes | None = None,
) -> Any:
    """A runtime module of one kernel; ``code`` replaces what ``glsl`` compiles to."""
    kernels = {
        name: {"name": name, "arg_types": arg_types, "launch_param_tags": launch, "flags": flags}
    }
    shader = spirv.compile_glsl(glsl, name=name) if code is None else code
    create = tvm_ffi.get_global_func("tvm_vision.vulkan.module_create")
    return create(json.dumps(kernels), {name: shader}, {"glsl": glsl})


def scale_module() -> Any:
    """``scale(a, b, n, s, blocks, 64)``: b[i] = a[i] * s for i < n, float32."""
    return create_module("scale", SCALE, ["handle", "handle", "int32", "float32"])
