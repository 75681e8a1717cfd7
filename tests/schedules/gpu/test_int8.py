"""Sums of products of bytes against numpy, exact: words of four k, dot products, every layout."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx, topi
from tvm.s_tir import Schedule
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.matrix_runs import printed
from support.numpy_operators import conv2d, sliding_windows
from support.schedule_runs import fused, run, scheduled, target
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import (
    ScheduleConfig,
    TargetLimits,
    choices,
    is_offered,
    schedule_function,
    schedule_with,
)
from tvm_vision.schedules.cost import coopmat_gemm as coopmat_gemm_cost
from tvm_vision.schedules.cost.coopmat_gemm import CoopmatTile
from tvm_vision.schedules.cost.direct_conv import DirectConvTile
from tvm_vision.schedules.cost.gemm import candidates, default, fits
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.factors import INT8
from tvm_vision.schedules.gpu.direct_conv_form import windows_of
from tvm_vision.schedules.gpu.window import WindowShape
from tvm_vision.topi.int8 import Int8Window, convolution_of_bytes, pack_dp4a
from tvm_vision.vulkan.codegen import build, spirv

pytestmark = pytest.mark.usefixtures("device_info")


def noise(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype("int8")


def requantized(total: Any, bias: Any, scale: Any) -> Any:
    """What follows the sum in a quantized network, as Relax operators."""
    op = relax.op
    value = op.multiply(op.astype(op.add(total, bias), "float32"), scale)
    return op.astype(op.clip(op.round(op.nn.relu(value)), -128, 127), "int8")


class Layer:
    """A convolution on channels last, requantized; its kernel and the result that numpy has."""

    def __init__(
        self, channels: int, size: int, filters: int, kernel: int, stride: int = 1, **more: Any
    ) -> None:
        self.weights_layout = more.get("layout", "OHWI")
        pad, groups = more.get("pad", kernel // 2), more.get("groups", 1)
        x = noise((more.get("batch", 1), size, size + 2, channels), 1)
        w = noise((filters, channels // groups, kernel, kernel), 2)
        bias = np.random.default_rng(3).integers(-9999, 9999, (1, 1, 1, filters)).astype("int32")
        scale = np.full((1, 1, 1, filters), 2.0**-10, "float32")
        transposed = w.transpose(["OIHW".index(axis) for axis in self.weights_layout])
        self.inputs = [x, np.ascontiguousarray(transposed), bias, scale]
        sums = conv2d(
            x.transpose(0, 3, 1, 2).astype("float64"), w.astype("float64"), stride, (pad,) * 4, 1,
            groups,
        ).transpose(0, 2, 3, 1)  # fmt: skip
        scaled = np.round(np.maximum((sums + bias) * scale, 0))
        self.expected = np.clip(scaled, -128, 127).astype("int8")

        def build(x: Any, w: Any, bias: Any, scale: Any) -> Any:
            total = relax.op.nn.conv2d(
                x, w, strides=stride, padding=pad, groups=groups, data_layout="NHWC",
                kernel_layout=self.weights_layout, out_dtype="int32",
            )  # fmt: skip
            return requantized(total, bias, scale)

        self.module = fused(
            build, [a.shape for a in self.inputs], [str(a.dtype) for a in self.inputs]
        )
        self.name, self.kernel = next(
            (name, f) for name, f in self.module.functions_items() if isinstance(f, tirx.PrimFunc)
        )

    def check(self, function: tirx.PrimFunc, made_for: Target | None = None) -> None:
        functions = dict(self.module.functions_items()) | {self.name: function}
        module = tvm.IRModule(functions, attrs=self.module.attrs)
        result = run(module, self.inputs, made_for)
        np.testing.assert_array_equal(result, self.expected)


TILES = [
    GemmTile(16, 16, 16, 4, 4, dot=4),
    GemmTile(32, 32, 8, 4, 4, dot=4),
    GemmTile(16, 32, 32, 2, 4, slice_k=4, dot=4),
    GemmTile(32, 16, 16, 8, 4, slice_k=4, dot=4),
    GemmTile(16, 16, 16, 4, 4, split_k=2, dot=4),
]


@pytest.mark.parametrize("layout", ["OHWI", "HWIO"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_convolutions_by_words_equal_numpy(tile: GemmTile, layout: str) -> None:
    layer = Layer(32, 9, 24, 3, layout=layout)
    layer.check(
        schedule_with(layer.kernel, TargetLimits.of(target()), ScheduleConfig("contraction", tile))
    )


@pytest.mark.parametrize(
    ("channels", "size", "filters", "kernel", "stride"),
    [
        (16, 9, 20, 3, 2),
        (3, 15, 16, 7, 2),  # no whole words of channels
        (5, 8, 9, 1, 1),
        (20, 8, 12, 1, 1),  # words, but no vectors of them
        (64, 7, 21, 3, 1),
        (8, 6, 9, 2, 1),
    ],
)
@pytest.mark.parametrize("dp4a", [True, False])
def test_any_channels_equal_numpy(
    channels: int, size: int, filters: int, kernel: int, stride: int, dp4a: bool
) -> None:
    layer = Layer(channels, size, filters, kernel, stride, batch=2)
    limits = TargetLimits(256, 16384, 8, dp4a=dp4a)
    function, kind = schedule_function(layer.kernel, limits)
    assert kind == "contraction"
    layer.check(function)


@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "stride", "tile"),
    [(32, 24, 3, 1, tile) for tile in TILES]
    + [(4, 16, 7, 2, None), (20, 9, 1, 1, None), (64, 21, 3, 1, None), (8, 9, 2, 2, None)],
    ids=str,
)
def test_weights_in_words_equal_numpy(
    channels: int, filters: int, kernel: int, stride: int, tile: GemmTile | None
) -> None:
    """The form that quantized networks have where there are no matrices."""
    image, weights = noise((1, 9, 11, channels), 1), noise((filters, channels, kernel, kernel), 2)
    packed = np.ascontiguousarray(pack_dp4a(weights, 4))
    pad = (kernel // 2,) * 4
    window = Int8Window((kernel, kernel), (stride, stride), (1, 1), pad, 1, True, -7)
    x, w = (te.placeholder(a.shape, "int8", n) for a, n in ((image, "x"), (packed, "w")))
    function = te.create_prim_func([x, w, convolution_of_bytes(x, w, window)])
    limits = replace(TargetLimits.of(target()), int8_matrices=())
    if tile is None:
        function, kind = schedule_function(function, limits)
        assert kind == "contraction"
    else:
        function = schedule_with(function, limits, ScheduleConfig("contraction", tile))
    shaders = printed(function, supports_integer_dot_product=True)
    assert any("dot" in shader.source for shader in shaders)
    rows = ((0, 0), pad[:2], pad[:2], (0, 0))
    around = np.pad(image, rows, constant_values=-7).astype("float64").transpose(0, 3, 1, 2)
    sums = conv2d(around, weights.astype("float64"), stride, (0,) * 4, 1, 1).transpose(0, 2, 3, 1)
    with target():
        library = tvm.tirx.build(function.with_attr("global_symbol", "main"), target=target())
    device = tvm.vulkan(0)
    tensors = [tvm.runtime.tensor(a, device) for a in (image, packed)]
    out = tvm.runtime.empty(sums.shape, "int32", device)
    library["main"](*tensors, out)
    np.testing.assert_array_equal(out.numpy(), sums)


@pytest.mark.parametrize("rows", [1, 2, 50])
@pytest.mark.parametrize("terms", [96, 97])
def test_dense_layers_equal_numpy(rows: int, terms: int) -> None:
    x, w = noise((rows, terms), 1), noise((48, terms), 2)

    def build(x: Any, w: Any) -> Any:
        return relax.op.matmul(x, relax.op.permute_dims(w), out_dtype="int32")

    module, _ = scheduled(fused(build, [x.shape, w.shape], "int8"))
    np.testing.assert_array_equal(run(module, [x, w]), x.astype("int32") @ w.T.astype("int32"))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [12, 64, 7])
def test_depthwise_convolutions_equal_numpy(channels: int, stride: int) -> None:
    layer = Layer(channels, 9, channels, 3, stride, groups=channels, layout="HWOI")
    layer.check(schedule_function(layer.kernel, TargetLimits.of(target()))[0])


@pytest.mark.parametrize(("along", "beside"), [(1, 1), (4, 1), (4, 2), (4, 4)])
def test_depthwise_channels_are_computed_by_words(along: int, beside: int) -> None:
    """The form that quantized networks have; outside the image is the zero point."""
    image, weights = noise((1, 9, 7, 8), 1), noise((3, 3, 1, 8), 2)
    x, w = (te.placeholder(a.shape, "int8", n) for a, n in ((image, "x"), (weights, "w")))
    window = Int8Window((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 8, True, 3)
    sums = convolution_of_bytes(x, w, window)
    halved = topi.clip(topi.cast(sums, "float32") * 0.0078125, -128, 127)
    kernel = te.create_prim_func([x, w, topi.cast(topi.round(halved), "int8")])
    choice = ScheduleConfig("window", WindowShape(32, along, beside))
    limits = TargetLimits.of(target())
    assert choice in choices(kernel, limits)
    function = schedule_with(kernel, limits, choice)
    (shader,) = printed(function, supports_int8=True, supports_8bit_buffer=True)
    assert ("int8_t x[]" in shader.source) == (along == 1)
    with target():
        library = tvm.tirx.build(function.with_attr("global_symbol", "main"), target=target())
    around = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=3).astype("int64")
    views = sliding_windows(around, (3, 3), (1, 2))[:, ::2, ::2]
    total = np.einsum("nyxchw,hwc->nyxc", views, weights[:, :, 0].astype("int64"))
    expected = np.clip(np.round(total / 128), -128, 127)
    device = tvm.vulkan(0)
    tensors = [tvm.runtime.tensor(a, device) for a in (image, weights)]
    out = tvm.runtime.empty(expected.shape, "int8", device)
    library["main"](*tensors, out)
    np.testing.assert_array_equal(out.numpy(), expected)


def test_an_option_switches_dot_products_off() -> None:
    device = Target({"kind": "vulkan", "supports_integer_dot_product": True})
    product = Product(1, 64, 64, 64, INT8)
    assert TargetLimits.of(device).dp4a
    assert default(product, TargetLimits.of(device)).dot == 4
    without = TargetLimits.of(device, CompileOptions(dp4a=False))
    assert not without.dp4a
    assert default(product, without).dot == 1
    assert not TargetLimits.of(Target({"kind": "vulkan"})).dp4a


@pytest.mark.parametrize("shape", [(1, 49, 512, 4608), (1, 12544, 64, 147), (2, 5, 9, 7)])
def test_every_candidate_counts_words(shape: Any) -> None:
    limits = TargetLimits(256, 16384, 32, split_k=True, dp4a=True)
    b, m, n, k = shape
    product = Product(b, m, n, k, INT8)
    tiles = candidates(product, limits)
    assert tiles[0] == default(product, limits)
    assert all(tile.dot == 4 for tile in tiles)
    assert all(fits(tile, limits) for tile in tiles)
    plain = candidates(Product(b, m, n, -(-k // 4)), limits)
    assert [replace(tile, dot=1) for tile in tiles if tile.split_k == 1] == [
        tile for tile in plain if tile.split_k == 1
    ]


MATRIX = (16, 16, 32)
MATRIX_LIMITS = TargetLimits(1024, 49152, 32, dp4a=True, int8_matrices=(MATRIX,))
MATRIX_TILES = [
    CoopmatTile(16, 16, 128, 1, 1, 1, MATRIX, factors=INT8),
    CoopmatTile(32, 32, 64, 1, 2, 1, MATRIX, factors=INT8),
    CoopmatTile(32, 16, 128, 2, 1, 2, MATRIX, factors=INT8),
    CoopmatTile(32, 32, 64, 2, 2, 1, MATRIX, split_k=2, factors=INT8),
]


@pytest.mark.parametrize("tile", MATRIX_TILES, ids=str)
def test_matrices_of_bytes_become_valid_shaders(tile: CoopmatTile) -> None:
    layer = Layer(32, 9, 24, 3)
    function = schedule_with(layer.kernel, MATRIX_LIMITS, ScheduleConfig("coopmat_gemm", tile))
    shaders = printed(function, supports_int8=True, supports_8bit_buffer=True)
    first = next(shader for shader in shaders if "coopmat" in shader.source)
    binary = spirv.compile_glsl(first.source, name=first.name)
    spirv.validate(binary)
    lines = [line for line in spirv.disassemble(binary).splitlines() if "MulAddKHR" in line]
    assert lines and all("MatrixBSigned" in line for line in lines)
    arrays = [line for line in first.source.splitlines() if "readonly buffer" in line]
    assert sum("ivec4" in line for line in arrays) >= 2  # both factors by sixteen bytes


@pytest.mark.parametrize(
    ("tile", "channels"),
    [
        (MATRIX_TILES[0], 20),
        pytest.param(MATRIX_TILES[0], 32, marks=pytest.mark.slow),
        pytest.param(MATRIX_TILES[1], 32, marks=pytest.mark.slow),
        pytest.param(MATRIX_TILES[2], 32, marks=pytest.mark.slow),
        (MATRIX_TILES[3], 32),
    ],
    ids=str,
)
def test_convolution_with_emulated_matrices_of_bytes(
    tile: CoopmatTile, channels: int, monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    limits = replace(TargetLimits.of(target()), int8_matrices=(MATRIX,))
    if not coopmat_gemm_cost.fits(tile, limits):
        pytest.skip(f"the tile does not fit subgroups of {limits.subgroup}")
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    layer = Layer(channels, 9, 24, 3)
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    layer.check(schedule_with(layer.kernel, limits, ScheduleConfig("coopmat_gemm", tile)), device)


def test_bytes_in_fours_share_their_place_where_room_is_short(
    monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    tile = CoopmatTile(16, 16, 128, 1, 1, 2, MATRIX, factors=INT8)
    limits = replace(TargetLimits.of(target()), int8_matrices=(MATRIX,))
    seen: list[str] = []

    def noted(*args: Any) -> list[Any]:
        kernels = print_kernels(*args)
        seen.extend(kernel.source for kernel in kernels)
        return [emulated(kernel) for kernel in kernels]

    print_kernels = build.print_kernels
    monkeypatch.setattr(build, "print_kernels", noted)
    layer = Layer(20, 9, 24, 3)  # channels of which no sixteen are fetched at once
    short = {"max_shared_memory_per_block": tile.shared_bytes(limits.subgroup)}
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES, **short}, host=HOST)
    layer.check(schedule_with(layer.kernel, limits, ScheduleConfig("coopmat_gemm", tile)), device)
    assert any("shared int shared_words[" in source for source in seen)


@pytest.mark.parametrize("case", [(32, 9, 24, 3, 1), (20, 14, 40, 3, 2), (128, 7, 64, 1, 1)])
def test_convolution_with_matrices_of_bytes(case: tuple[int, ...]) -> None:
    limits = TargetLimits.of(target())
    if not limits.int8_matrices:
        pytest.skip(
            "the device lacks cooperative matrices of int8 added up in int32 "
            "(VK_KHR_cooperative_matrix)"
        )
    layer = Layer(*case)
    found = [c for c in choices(layer.kernel, limits) if c.template == "coopmat_gemm"]
    # Compilers of CPUs take a quarter of a minute for the larger ones.
    found.sort(key=lambda c: c.parameters.m * c.parameters.n * c.parameters.k)
    cut = [choice for choice in found if choice.parameters.split_k > 1]
    for choice in [*found[:4], *cut[:1]]:
        layer.check(schedule_with(layer.kernel, limits, choice))


def test_matrices_of_bytes_are_named_by_the_target() -> None:
    keys = ["vulkan", "gpu", "cooperative_matrix_int8_16x16x32", "cooperative_matrix_16x16x16"]
    device = Target({"kind": "vulkan", "keys": keys})
    assert TargetLimits.of(device).int8_matrices == (MATRIX,)
    assert TargetLimits.of(device).matrices == ((16, 16, 16),)
    assert schedule_function(Layer(32, 9, 24, 1).kernel, MATRIX_LIMITS)[1] == "coopmat_gemm"
    assert TargetLimits.of(device, CompileOptions(coopmat=False)).int8_matrices == ()


@pytest.mark.parametrize(
    "choice",
    [ScheduleConfig("contraction", TILES[2]), ScheduleConfig("coopmat_gemm", MATRIX_TILES[2])],
)
def test_choices_of_bytes_survive_json(choice: ScheduleConfig) -> None:
    layer = Layer(32, 9, 24, 3)
    assert ScheduleConfig.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice
    offered = choices(layer.kernel, MATRIX_LIMITS)
    assert {c.template for c in offered} >= {"coopmat_gemm", "contraction"}
    for template in ("coopmat_gemm", "contraction"):
        first = next(c for c in offered if c.template == template)
        assert is_offered(layer.kernel, MATRIX_LIMITS, first)
        assert not is_offered(layer.kernel, TargetLimits(64, 4096, 32), first)


# Channels, size, filters, window, stride; a tile whose filters and channels are given in matrices.
RIMS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((32, 11, 16, 3, 1), {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 3}),
    (
        (40, 9, 24, 3, 2),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_n": 2, "columns": 1, "ahead": True},
    ),
    (
        (64, 5, 16, 3, 1),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 3, "split_k": 2},
    ),
    ((20, 9, 16, 3, 1), {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 1}),
]


def halo_of(parts: dict[str, Any], matrix: tuple[int, int, int]) -> DirectConvTile:
    _, n, k = matrix
    return DirectConvTile(
        **{**parts, "filters": parts["filters"] * n, "k": parts["k"] * k}, matrix=matrix
    )


@pytest.mark.parametrize(("case", "parts"), RIMS)
def test_windows_of_bytes_become_valid_shaders(case: Any, parts: dict[str, Any]) -> None:
    layer = Layer(*case)
    function = schedule_with(
        layer.kernel, MATRIX_LIMITS, ScheduleConfig("direct_conv", halo_of(parts, MATRIX))
    )
    first, *_ = printed(function, supports_int8=True, supports_8bit_buffer=True)
    binary = spirv.compile_glsl(first.source, name=first.name)
    spirv.validate(binary)
    arrays = [line for line in first.source.splitlines() if "readonly buffer" in line]
    # As many channels at once as divide all of them: 16 of a vector, 8, or 4.
    wide = "ivec4" if case[0] % 16 == 0 else "ivec2" if case[0] % 8 == 0 else "int "
    assert sum(wide in line for line in arrays) >= 2


@pytest.mark.parametrize(
    ("case", "parts"),
    [*(pytest.param(*each, marks=pytest.mark.slow) for each in RIMS[::2]), *RIMS[1::2]],
)
def test_windows_with_emulated_matrices_of_bytes(
    case: Any, parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    need_right_arrays(device_info)
    limits = replace(TargetLimits.of(target()), int8_matrices=(MATRIX,))
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    layer, tile = Layer(*case), halo_of(parts, MATRIX)
    if tile.shared_bytes(windows_of(Schedule(layer.kernel))) > limits.shared_bytes:
        pytest.skip(f"the tile does not fit {limits.shared_bytes} bytes")
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    layer.check(schedule_with(layer.kernel, limits, ScheduleConfig("direct_conv", tile)), device)


@pytest.mark.parametrize(("case", "parts"), RIMS)
def test_windows_with_matrices_of_bytes(case: Any, parts: dict[str, Any]) -> None:
    limits = TargetLimits.of(target())
    if not limits.int8_matrices:
        pytest.skip("the device lacks cooperative matrices of int8 (VK_KHR_cooperative_matrix)")
    layer = Layer(*case)
    tile = halo_of(parts, limits.int8_matrices[0])
    layer.check(schedule_with(layer.kernel, limits, ScheduleConfig("direct_conv", tile)))


def test_windows_of_bytes_are_offered() -> None:
    limits = replace(MATRIX_LIMITS, shared_bytes=48 << 10)
    large = Layer(64, 56, 64, 3).kernel
    found = [c.parameters for c in choices(large, limits) if c.template == "direct_conv"]
    assert found and all(tile.columns and tile.matrix == MATRIX for tile in found)
    for tile in found[::6]:
        schedule_with(large, limits, ScheduleConfig("direct_conv", tile))
    transposed = Layer(32, 9, 24, 3, layout="HWIO").kernel
    assert not [c for c in choices(transposed, limits) if c.template == "direct_conv"]
