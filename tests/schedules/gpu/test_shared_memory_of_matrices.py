"""The shared memory of kernels on matrices is what their tiles are taken for, whatever the tile."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from schedules.gpu.test_coopmat_gemm import convolution
from schedules.gpu.test_direct_conv import Case
from schedules.gpu.test_int8 import MATRIX_LIMITS, Layer
from tvm import relax
from tvm.s_tir import Schedule

from support.matrix_runs import LIMITS, halves, printed
from support.schedule_runs import fused
from support.shared_memory import shared_bytes
from tvm_vision.schedules import choices, schedule_with
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile
from tvm_vision.schedules.templates import FAILURES, TEMPLATES

SOME = 3  # tiles of each template, beside the first
HALVES = {
    "rows": lambda: halves(fused(relax.op.matmul, [(197, 192), (192, 384)])),
    "rows of odd length": lambda: halves(fused(relax.op.matmul, [(50, 100), (100, 70)])),
    "channels last": lambda: halves(convolution(64, 28, 96, 3)),
    "channels first": lambda: halves(convolution(40, 28, 64, 3, layout="NCHW")),
    "an activation that chooses by value": lambda: Case(64, 26, 26, 64).function(),
    "strides": lambda: halves(convolution(3, 56, 32, 3, 2, layout="NCHW")),
}
OF_BYTES = {
    "windows": lambda: Layer(64, 28, 96, 3).kernel,
    "pixels": lambda: Layer(96, 14, 40, 1).kernel,
    "channels that do not divide": lambda: Layer(20, 17, 24, 3).kernel,
}


def few(shared: int) -> dict[str, Any]:
    """Of a target with so many bytes of shared memory a workgroup."""
    return {
        "supports_int8": True,
        "supports_8bit_buffer": True,
        "max_shared_memory_per_block": shared,
    }


@pytest.mark.parametrize(
    ("made", "limits"),
    [
        *[pytest.param(made, LIMITS, id=name) for name, made in HALVES.items()],
        *[pytest.param(made, MATRIX_LIMITS, id=f"bytes, {n}") for n, made in OF_BYTES.items()],
    ],
)
def test_is_no_more_than_tiles_say(made: Any, limits: Any) -> None:
    function = made()
    offered = choices(function, dataclasses.replace(limits, split_k=True))
    random = np.random.default_rng(0)
    seen = 0
    for template in ("coopmat_gemm", "direct_conv"):
        tiles = [choice for choice in offered if choice.template == template]
        chosen = random.permutation(len(tiles))[:SOME].tolist()
        for choice in {0, *chosen} if tiles else ():
            tile = tiles[choice].parameters
            try:
                scheduled = schedule_with(function, limits, tiles[choice])
            except FAILURES:
                continue
            shape = TEMPLATES[template].shape_of(Schedule(function))
            said = tile.shared_bytes(limits.subgroup if isinstance(tile, CoopmatTile) else shape)
            most = limits.shared_bytes
            kernel = next(k for k in printed(scheduled, **few(most)) if "coopMat" in k.source)
            assert shared_bytes(kernel.source) <= most
            if shared_bytes(kernel.source) > said:  # of bytes in fours, while there is room
                assert re.search(r"^shared int \w+\[", kernel.source, re.M), tile
                kernels = printed(scheduled, False, **few(said))
                kernel = next(k for k in kernels if "coopMat" in k.source)
            assert shared_bytes(kernel.source) <= said, tile
            seen += 1
    assert seen >= SOME // 2
