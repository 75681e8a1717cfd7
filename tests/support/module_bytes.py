"""A module as it is stored in mod.so, written by hand."""

from __future__ import annotations

import struct

from support.kernels import SCALE
from tvm_vision.vulkan.codegen import spirv


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def module_bytes() -> bytes:
    """A kernel with buffers and scalars, without the checksum that would refuse every change."""
    code = spirv.compile_glsl(SCALE, name="scale")
    handle, integer, real = (3, 64, 1), (0, 32, 1), (2, 32, 1)
    types = b"".join(struct.pack("<BBH", *t) for t in (handle, handle, integer, real))
    tags = text("blockIdx.x") + text("threadIdx.x")
    counts = [struct.pack("<Q", n) for n in (1, 4, 2, 0)]
    described = text("scale") * 2 + counts[1] + types + counts[2] + tags + counts[3]
    shader = struct.pack("<IQ", 0, len(code) // 4) + code
    kernel = text("scale") + struct.pack("<Q", len(shader)) + shader
    return text("vulkan") + counts[0] + described + counts[0] + kernel
