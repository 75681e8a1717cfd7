"""Products of fp16 on cooperative matrices.

No CPU implementation of Vulkan has them: there their GLSL is compared with a golden text and
checked by spirv-val, and results are those of matrices emulated in the shader; real ones are tested
where a device has them. TVM_VISION_UPDATE_GOLDEN=1 rewrites the golden file.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.matrix_runs import ATTRIBUTES, LIMITS, SHAPE, halves, printed, result
from support.numpy_operators import sliding_windows
from support.schedule_runs import fused, noise, target
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import (
    ScheduleConfig,
    TargetLimits,
    choices,
    schedule_function,
    schedule_with,
)
from tvm_vision.schedules.common import NotThisKind
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile, candidates, default, fits
from tvm_vision.schedules.cost.gemm_tile import Product
from tvm_vision.schedules.factors import FP16, OTHERS
from tvm_vision.schedules.gpu.contraction import shape_of
from tvm_vision.vulkan.codegen import build, spirv

GOLDEN = Path(__file__).with_name("golden") / "cooperative_matrices.comp"


# Layouts of images, and of weights beside them.
KERNELS = {"NHWC": "HWIO", "NCHW": "OIHW", "NDHWC": "DHWIO"}
DEPTH = 3  # of volumes
LAYOUTS = pytest.mark.parametrize("layout", list(KERNELS))


def convolution(
    channels: int, size: int, filters: int, kernel: int, stride: int = 1, *, layout: str = "NHWC"
) -> Any:
    of = {"N": 1, "D": DEPTH, "H": size, "W": size, "C": channels}
    of_kernel = {"D": kernel, "H": kernel, "W": kernel, "I": channels, "O": filters}
    convolve = relax.op.nn.conv3d if "D" in layout else relax.op.nn.conv2d

    def build_it(x: Any, w: Any, b: Any) -> Any:
        kernel_layout = KERNELS[layout]
        y = convolve(x, w, stride, kernel // 2, data_layout=layout, kernel_layout=kernel_layout)
        return relax.op.nn.relu(relax.op.add(y, b))

    bias = tuple(filters if axis == "C" else 1 for axis in layout)
    shapes = [[of[axis] for axis in layout], [of_kernel[axis] for axis in KERNELS[layout]], bias]
    return fused(build_it, shapes)


def test_glsl_of_a_product_is_as_before() -> None:
    product = halves(fused(relax.op.matmul, [(20, 96), (96, 48)]))
    tile = CoopmatTile(32, 32, 32, 1, 2)
    (kernel,) = printed(schedule_with(product, LIMITS, ScheduleConfig("coopmat_gemm", tile)))
    if os.environ.get("TVM_VISION_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(kernel.source)
    assert kernel.source == GOLDEN.read_text()
    assert kernel.flags >> 16 == 32  # subgroups of 32 lanes are asked for


@pytest.mark.parametrize(
    ("channels", "size", "filters", "kernel", "stride", "tile"),
    [
        (32, 13, 40, 3, 2, CoopmatTile(32, 32, 64, 1, 2, 2)),
        (3, 20, 16, 7, 2, CoopmatTile(16, 16, 16, 1, 1)),
        (24, 7, 100, 1, 1, CoopmatTile(64, 128, 32, 2, 2)),
        (64, 7, 40, 3, 1, CoopmatTile(32, 32, 64, 1, 2, 2, split_k=4)),
    ],
)
def test_convolutions_become_valid_shaders(
    channels: int, size: int, filters: int, kernel: int, stride: int, tile: CoopmatTile
) -> None:
    function = halves(convolution(channels, size, filters, kernel, stride))
    shaders = printed(schedule_with(function, LIMITS, ScheduleConfig("coopmat_gemm", tile)))
    assert len(shaders) == (2 if tile.split_k > 1 else 1)
    for shader in shaders:
        spirv.validate(spirv.compile_glsl(shader.source, name=shader.name))
    binary = spirv.compile_glsl(shaders[0].source, name=shaders[0].name)
    assert "CooperativeMatrixKHR" in spirv.disassemble(binary)
    assert "coopMatMulAdd" in shaders[0].source


@pytest.mark.parametrize(
    ("channels", "split"), [(4, 1), (16, 1), (32, 1), (64, 1), (64, 2), (64, 4)]
)
def test_steps_over_several_pixels_load_whole_vectors(channels: int, split: int) -> None:
    """A step of 128 takes channels of several pixels: which ones depends on the thread alone, and
    on the part of the sum, also where that begins within a row of the window."""
    function = halves(convolution(channels, 14, 64, 3))
    tile = CoopmatTile(32, 64, 128, 1, 4, 2, split_k=split)
    shader, *_ = printed(schedule_with(function, LIMITS, ScheduleConfig("coopmat_gemm", tile)))
    arrays = [line for line in shader.source.splitlines() if "readonly buffer" in line]
    assert len(arrays) == (3 if split == 1 else 2)
    assert all(re.search("uvec4|f16vec4", line) for line in arrays)


@pytest.mark.parametrize(
    "shape", [(1, 49, 512, 4608), (1, 173056, 32, 576), (4, 17, 24, 16), (1, 3, 8, 4)]
)
def test_every_candidate_fits_the_device(shape: Any) -> None:
    b, m, n, k = shape
    product = Product(b, m, n, k, FP16)
    for limits in (LIMITS, TargetLimits(256, 32768, 16, ((8, 16, 16),))):
        tiles = candidates(product, limits)
        assert tiles[0] == default(product, limits)
        assert all(fits(tile, limits) for tile in tiles)


def test_without_matrices_there_are_no_candidates() -> None:
    product = Product(1, 64, 64, 64, factors=FP16)
    assert candidates(product, TargetLimits(1024, 49152, 32)) == []
    assert default(Product(1, 64, 64, 64), LIMITS) is None  # float32


def test_an_option_switches_them_off() -> None:
    device = Target(ATTRIBUTES, host=HOST)
    assert TargetLimits.of(device).matrices == (SHAPE,)
    assert TargetLimits.of(device, CompileOptions(coopmat=False)).matrices == ()
    product = Product(1, 2048, 2048, 2048, FP16, fp16=True)
    for allowed in (True, False):
        limits = TargetLimits.of(device, CompileOptions(coopmat_subtiles=allowed))
        assert default(product, limits).subtiles == allowed


def test_a_device_without_takes_the_other_template() -> None:
    function = halves(convolution(16, 8, 32, 1))
    assert schedule_function(function, LIMITS)[1] == "coopmat_gemm"
    assert schedule_function(function, TargetLimits(1024, 49152, 32))[1] == "contraction"


def test_channels_first_takes_matrices_but_of_bytes() -> None:
    """The image is the first factor there, and B; bytes lie in words along k, as it does not."""
    shapes = [(1, 16, 8, 8), (32, 16, 1, 1)]
    function = halves(fused(lambda x, w: relax.op.nn.conv2d(x, w), shapes))
    assert shape_of(Schedule(function)) == Product(1, 32, 64, 16, FP16, fp16=True, n_first=True)
    assert schedule_function(function, LIMITS)[1] == "coopmat_gemm"
    of_bytes = fused(lambda x, w: relax.op.nn.conv2d(x, w, out_dtype="int32"), shapes, "int8")
    (kernel,) = (f for f in of_bytes.functions.values() if isinstance(f, tirx.PrimFunc))
    assert shape_of(Schedule(kernel)).factors == OTHERS


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("b", ["kn", "nk"])
@pytest.mark.parametrize("a", ["mk", "km"])
def test_products_of_every_order_become_valid_shaders(a: str, b: str, first: str) -> None:
    """A and B or their transposes, and either of them as the first factor."""
    of = {"m": 33, "n": 21, "k": 40}
    shapes = {name: [of[axis] for axis in axes] for name, axes in (("a", a), ("b", b))}
    x, y = (te.placeholder(shapes[name], "float16", name) for name in "ab")
    k = te.reduce_axis((0, of["k"]), "k")

    def element(m: Any, n: Any) -> Any:
        at = {"m": m, "n": n, "k": k}
        factors = [x(*(at[axis] for axis in a)), y(*(at[axis] for axis in b))]
        one, two = (factor.astype("float32") for factor in factors[:: 1 if first == "a" else -1])
        return te.sum(one * two, axis=k)

    total = te.compute((of["m"], of["n"]), element, "total")
    out = te.compute(total.shape, lambda m, n: total[m, n].astype("float16"), "out")
    tile = CoopmatTile(32, 32, 32, 1, 2)
    function = te.create_prim_func([x, y, out])
    (shader,) = printed(schedule_with(function, LIMITS, ScheduleConfig("coopmat_gemm", tile)))
    spirv.validate(spirv.compile_glsl(shader.source, name=shader.name))
    assert "coopMatMulAdd" in shader.source


def test_a_target_that_lacks_them_is_told() -> None:
    function = halves(convolution(16, 8, 32, 3))
    tile = CoopmatTile(32, 32, 32, 1, 1)
    scheduled = schedule_with(function, LIMITS, ScheduleConfig("coopmat_gemm", tile))
    with pytest.raises(UnsupportedKernelError, match="needs cooperative matrices"):
        printed(scheduled, supports_cooperative_matrix=False)
    with pytest.raises(NotThisKind):
        schedule_with(
            halves(fused(relax.op.exp, [(4, 4)])), LIMITS, ScheduleConfig("coopmat_gemm", tile)
        )


CONVOLUTIONS = [  # channels, size, filters, kernel, stride
    (16, 5, 20, 3, 2),
    (3, 8, 16, 7, 2),
    (24, 5, 36, 1, 1),
    (5, 6, 8, 3, 1),
    (32, 5, 20, 3, 2),
    (4, 8, 16, 7, 2),
]
TILES = [
    CoopmatTile(16, 16, 16, 1, 1),
    CoopmatTile(32, 32, 64, 1, 2, 2),
    CoopmatTile(32, 64, 32, 2, 1),
    CoopmatTile(16, 32, 64, 1, 1, 4),
    CoopmatTile(16, 32, 32, 1, 2, split_k=4),
    CoopmatTile(32, 32, 32, 1, 2),
]


PLAIN = (1, 2, 5)  # of TILES: what others have besides something of their own
EMULATED = [
    *(
        pytest.param(case, tile, "NHWC", marks=[pytest.mark.slow] if i in PLAIN else [])
        for i, (case, tile) in enumerate(zip(CONVOLUTIONS, TILES, strict=True))
    ),
    ((16, 5, 20, 3, 2), CoopmatTile(16, 16, 16, 1, 1), "NCHW"),
    ((24, 5, 36, 1, 1), CoopmatTile(16, 32, 32, 1, 2, 2), "NCHW"),
    ((34, 4, 20, 1, 1), CoopmatTile(16, 32, 16, 1, 2, split_k=2), "NCHW"),
    # One tile holds all columns, whose number is odd.
    ((16, 7, 20, 1, 1), CoopmatTile(16, 64, 16, 1, 2), "NCHW"),
    ((8, 4, 33, 1, 1), CoopmatTile(16, 64, 16, 1, 2), "NHWC"),
    # 81 rows: the second tile's last subtiles have none.
    ((16, 9, 20, 1, 1), CoopmatTile(64, 32, 16, 2, 1, subtiles=True), "NHWC"),
    ((34, 6, 36, 1, 1), CoopmatTile(32, 32, 16, 1, 2, split_k=2, subtiles=True), "NCHW"),
    ((16, 5, 20, 3, 2), CoopmatTile(16, 16, 16, 1, 1), "NDHWC"),
    ((4, 4, 16, 3, 1), CoopmatTile(16, 32, 32, 1, 2), "NDHWC"),
]


@pytest.mark.parametrize(("case", "tile", "layout"), EMULATED)
def test_convolution_with_emulated_matrices(
    case: tuple[int, ...],
    tile: CoopmatTile,
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
    device_info: Any,
) -> None:
    """The schedules on any device; see emulated_matrices."""
    need_right_arrays(device_info)
    lanes = device_info.thread_warp_size
    limits = dataclasses.replace(TargetLimits.of(target()), matrices=(SHAPE,))
    if not fits(tile, limits):
        pytest.skip(f"the tile does not fit subgroups of {lanes} and {limits.shared_bytes} bytes")
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    _check(case, [ScheduleConfig("coopmat_gemm", tile)], limits, device, layout)


@LAYOUTS
@pytest.mark.parametrize("case", [*CONVOLUTIONS, (64, 26, 64, 3, 2), (512, 7, 33, 1, 1)])
@pytest.mark.usefixtures("device_info")
def test_convolution_with_matrices(case: tuple[int, ...], layout: str) -> None:
    limits = TargetLimits.of(target())
    if not limits.matrices:
        pytest.skip(
            "the device lacks cooperative matrices of fp16 added up in float32 "
            "(VK_KHR_cooperative_matrix)"
        )
    found = choices(halves(convolution(*case, layout=layout)), limits)
    tiles = [choice for choice in found if choice.template == "coopmat_gemm"]
    cut = [choice for choice in tiles if choice.parameters.split_k > 1]
    _check(case, [*tiles[:: max(1, len(tiles) // 5)], *cut[:1]], limits, target(), layout)


def _check(
    case: tuple[int, ...],
    tried: list[ScheduleConfig],
    limits: TargetLimits,
    device: Target,
    layout: str,
) -> None:
    """Compares a convolution with numpy's, once for each choice."""
    function = halves(convolution(*case, layout=layout))
    shapes = [[int(size) for size in p.ty.shape] for p in function.params]
    inputs = [value.astype("float16") for value in noise(shapes[:3])]
    x, w, b = inputs
    if layout == "NCHW":
        x, w, b = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), b.transpose(0, 2, 3, 1)
    expected = _convolved(x, w, b, case[-1])
    if layout == "NCHW":
        expected = expected.transpose(0, 3, 1, 2)
    for choice in tried:
        scheduled = schedule_with(function, limits, choice)
        found = result(scheduled, inputs, expected.shape, device)
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


def _convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int) -> np.ndarray:
    """Convolution NHWC, HWIO, or NDHWC, DHWIO, padded by half the kernel; bias and ReLU."""
    x, w, b = (value.astype("float64") for value in (x, w, b))
    kernel, pad, axes = w.shape[0], w.shape[0] // 2, w.ndim - 2
    x = np.pad(x, ((0, 0), *[(pad, pad)] * axes, (0, 0)))
    windows = sliding_windows(x, (kernel,) * axes, tuple(range(1, axes + 1)))
    strides = (slice(None), *[slice(None, None, stride)] * axes)
    windows = windows[strides]
    y = np.tensordot(windows, w, ((*range(axes + 2, 2 * axes + 2), axes + 1), range(axes + 1)))
    return np.maximum(y + b, 0)
