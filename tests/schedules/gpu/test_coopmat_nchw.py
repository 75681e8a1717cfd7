"""Products on cooperative matrices whose first factor in the kernel is B, the image: convolutions
with channels first, and products in every order of both factors and of their axes.

On a device without matrices they are emulated in the shader, as in test_coopmat_gemm.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from tvm import relax, te
from tvm.s_tir import Schedule
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.matrix_runs import ATTRIBUTES, LIMITS, halves, printed, result
from support.numpy_operators import sliding_windows
from support.schedule_runs import fused, noise, target
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import (
    ScheduleConfig,
    TargetLimits,
    choices,
    schedule_function,
    schedule_with,
)
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile, fits
from tvm_vision.schedules.gpu.contraction import shape_of
from tvm_vision.vulkan.codegen import build, spirv

TOLERANCE = 2e-3  # largest error over the largest value, of results in fp16
# Drivers on processors compile each emulated kernel for ten seconds; some are in the other file.
SLOW = pytest.mark.slow
SHAPE = (8, 8, 8)  # of emulated matrices: a thread holds whole ones


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolution with channels first, a bias, and what follows."""

    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    batch: int = 1
    groups: int = 1
    end: str = "relu"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of image, weights, bias and what is added behind."""
        out = -(-self.size // self.stride)
        return [
            (self.batch, self.channels, self.size, self.size),
            (self.filters, self.channels // self.groups, self.kernel, self.kernel),
            (1, self.filters, 1, 1),
            (self.batch, self.filters, out, out),
        ]

    def function(self) -> Any:
        """The kernel, of fp16."""

        def build_it(x: Any, w: Any, b: Any, residual: Any) -> Any:
            pad = self.kernel // 2
            y = relax.op.nn.conv2d(x, w, self.stride, pad, groups=self.groups)
            y = relax.op.add(relax.op.add(y, b), residual)
            return {"relu": relax.op.nn.relu, "gelu": relax.op.nn.gelu}[self.end](y)

        return halves(fused(build_it, self.shapes))

    def reference(self, x: np.ndarray, w: np.ndarray, b: np.ndarray, r: np.ndarray) -> np.ndarray:
        """The same in float64."""
        x, w, b, r = (value.astype("float64") for value in (x, w, b, r))
        pad = self.kernel // 2
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = sliding_windows(x, (self.kernel, self.kernel), (2, 3))
        windows = windows[:, :, :: self.stride, :: self.stride]
        parts = zip(
            np.split(windows, self.groups, axis=1), np.split(w, self.groups, axis=0), strict=True
        )
        y = np.concatenate([np.einsum("ncyxhw,fchw->nfyx", *part) for part in parts], axis=1)
        y += b + r
        if self.end == "relu":
            return np.maximum(y, 0)
        return y * 0.5 * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))


CONVOLUTIONS = [
    (Convolution(16, 5, 20, 3, 2), CoopmatTile(16, 16, 16, 1, 1)),
    (Convolution(3, 8, 16, 7, 2), CoopmatTile(16, 16, 32, 1, 1, 2)),
    (Convolution(24, 8, 36, 1, end="gelu"), CoopmatTile(32, 16, 16, 2, 1)),
    (Convolution(24, 7, 36, 1), CoopmatTile(16, 32, 32, 1, 2)),
    (Convolution(32, 5, 20, 3, 2, batch=2), CoopmatTile(16, 16, 16, 1, 1, split_k=4)),
    (Convolution(48, 6, 24, 3, groups=2), CoopmatTile(16, 32, 16, 1, 2)),
    (Convolution(40, 9, 16, 1, 2, batch=3, end="gelu"), CoopmatTile(16, 16, 16, 1, 1)),
]


@pytest.fixture
def matrices(monkeypatch: pytest.MonkeyPatch, device_info: Any) -> tuple[TargetLimits, Target]:
    """Limits and target of the device; where it has no matrices, they are emulated."""
    limits = TargetLimits.of(target())
    if limits.matrices:
        return limits, target()
    need_right_arrays(device_info)
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    return dataclasses.replace(limits, matrices=(SHAPE,)), device


def _compare(
    function: Any, tile: CoopmatTile, values: list[np.ndarray], expected: np.ndarray, on: Any
) -> None:
    limits, device = on
    tile = dataclasses.replace(tile, matrix=limits.matrices[0])
    if not fits(tile, limits):
        pytest.skip(f"the tile does not fit subgroups of {limits.subgroup}")
    scheduled = schedule_with(function, limits, ScheduleConfig("coopmat_gemm", tile))
    found = result(scheduled, values, expected.shape, device)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@SLOW
@pytest.mark.parametrize(("case", "tile"), CONVOLUTIONS)
def test_convolutions_with_channels_first(
    case: Convolution, tile: CoopmatTile, matrices: Any
) -> None:
    function = case.function()
    assert shape_of(Schedule(function)).n_first
    values = noise(case.shapes, dtype="float16")
    _compare(function, tile, values, case.reference(*values), matrices)


# Axes of A and of B as they lie in memory.
ORDERS = list(itertools.product(("bmk", "bkm"), ("bkn", "bnk")))
SIZES = {"b": 2, "m": 21, "n": 19, "k": 21}


def product(a: str, b: str, n_first: bool) -> Any:
    """The kernel of a product of fp16 by the order of its factors and of their axes."""
    shapes = [[SIZES[axis] for axis in axes] for axes in (a, b)]
    first, second = (te.placeholder(shape, "float16") for shape in shapes)
    k = te.reduce_axis((0, SIZES["k"]), "k")

    def sums(*at: Any) -> Any:
        axes = {**dict(zip("bmn", at, strict=True)), "k": k}
        factors = [
            of(*(axes[axis] for axis in order)).astype("float32")
            for of, order in ((first, a), (second, b))
        ]
        if n_first:
            factors.reverse()
        return te.sum(factors[0] * factors[1], k)

    total = te.compute([SIZES[axis] for axis in "bmn"], sums)
    output = te.compute(total.shape, lambda *at: total(*at).astype("float16"))
    return te.create_prim_func([first, second, output])


@SLOW
@pytest.mark.parametrize("n_first", [True, False])
@pytest.mark.parametrize(("a", "b"), ORDERS)
def test_products_in_every_order(a: str, b: str, n_first: bool, matrices: Any) -> None:
    function = product(a, b, n_first)
    assert shape_of(Schedule(function)).n_first is n_first
    values = noise([[SIZES[axis] for axis in axes] for axes in (a, b)], dtype="float16")
    expected = np.einsum(f"{a},{b}->bmn", *(value.astype("float64") for value in values))
    _compare(function, CoopmatTile(16, 16, 16, 1, 1), values, expected, matrices)


@pytest.mark.parametrize(
    ("case", "tile"), [CONVOLUTIONS[1], CONVOLUTIONS[2], (Convolution(64, 7, 40, 3), None)]
)
def test_they_become_valid_shaders(case: Convolution, tile: CoopmatTile | None) -> None:
    function = case.function()
    if tile is None:
        scheduled, kind = schedule_function(function, LIMITS)
        assert kind == "coopmat_gemm"
    else:
        scheduled = schedule_with(function, LIMITS, ScheduleConfig("coopmat_gemm", tile))
    shaders = printed(scheduled)
    assert "coopMatMulAdd" in shaders[0].source
    for shader in shaders:
        spirv.validate(spirv.compile_glsl(shader.source, name=shader.name))


def test_pixels_side_by_side_are_fetched_at_once() -> None:
    tile = CoopmatTile(32, 32, 32, 1, 2)
    wide = Convolution(32, 16, 64, 1).function()
    shader, *_ = printed(schedule_with(wide, LIMITS, ScheduleConfig("coopmat_gemm", tile)))
    assert "uvec4 x0_v4[]" in shader.source


def test_an_option_leaves_them_to_the_other_template() -> None:
    device = Target(ATTRIBUTES, host=HOST)
    function = Convolution(16, 8, 32, 1).function()
    kinds = [
        {c.template for c in choices(function, TargetLimits.of(device, CompileOptions.of(given)))}
        for given in ({}, {"coopmat_nchw": False}, {"coopmat": False})
    ]
    assert ["coopmat_gemm" in kind for kind in kinds] == [True, False, False]
