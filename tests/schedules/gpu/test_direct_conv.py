"""Convolutions out of a halo in shared memory: shaders for a GPU, and values where matrices are."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from support.compiled import MATRICES
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.matrix_runs import ATTRIBUTES, LIMITS, SHAPE, halves, printed, result
from support.schedule_runs import fused, noise, target
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import (
    NotThisKind,
    ScheduleConfig,
    TargetLimits,
    choices,
    is_offered,
    schedule_function,
    schedule_with,
)
from tvm_vision.schedules.cost.direct_conv import DirectConvTile, Windows, candidates, fits, pays
from tvm_vision.schedules.gpu.direct_conv_form import windows_of
from tvm_vision.vulkan.codegen import build, spirv


@dataclass(frozen=True)
class Case:
    """A convolution: sizes of the image, and what follows it."""

    channels: int
    height: int
    width: int
    filters: int
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: int = 1
    batch: int = 1
    residual: bool = False

    @property
    def output(self) -> tuple[int, int, int, int]:
        """Shape of the output."""
        top, left, bottom, right = self.padding
        high, wide = ((kernel - 1) * self.dilation for kernel in self.kernel)
        return (
            self.batch,
            (self.height + top + bottom - high - 1) // self.stride + 1,
            (self.width + left + right - wide - 1) // self.stride + 1,
            self.filters,
        )

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of image, weights, biases and, if there is one, what is added."""
        image = (self.batch, self.height, self.width, self.channels)
        weights = (*self.kernel, self.channels, self.filters)
        return [image, weights, (1, 1, 1, self.filters), *([self.output] * self.residual)]

    def function(self) -> tirx.PrimFunc:
        """The kernel, fp16 in memory."""

        def build_it(x: Any, w: Any, b: Any, *others: Any) -> Any:
            y = relax.op.nn.conv2d(
                x,
                w,
                self.stride,
                self.padding,
                self.dilation,
                data_layout="NHWC",
                kernel_layout="HWIO",
            )
            y = relax.op.add(y, b)
            for other in others:
                y = relax.op.add(y, other)
            return relax.op.nn.leakyrelu(y, 0.1)

        return halves(fused(build_it, self.shapes))

    def expected(self, x: Any, w: Any, b: Any, *others: Any) -> np.ndarray:
        """What numpy computes."""
        x, w, b = (value.astype("float64") for value in (x, w, b))
        top, left, bottom, right = self.padding
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        y = np.zeros(self.output) + b
        _, height, width, _ = self.output
        for ky, kx in np.ndindex(self.kernel):
            rows = slice(ky * self.dilation, ky * self.dilation + height * self.stride, self.stride)
            columns = slice(
                kx * self.dilation, kx * self.dilation + width * self.stride, self.stride
            )
            y += x[:, rows, columns][:, :height, :width] @ w[ky, kx]
        for other in others:
            y += other.astype("float64")
        return np.where(y > 0, y, 0.1 * y)


LARGE = Case(64, 416, 416, 32)


def rims(function: tirx.PrimFunc, limits: TargetLimits = LIMITS) -> list[ScheduleConfig]:
    """What of the choices is this template's."""
    return [choice for choice in choices(function, limits) if choice.template == "direct_conv"]


@pytest.mark.parametrize(
    ("case", "tile"),
    [
        (LARGE, DirectConvTile(8, 32, 16, 2, 2, 1, columns=3)),
        (Case(256, 104, 104, 64), DirectConvTile(4, 16, 16, 4, 1, 2, columns=3, ahead=True)),
        (Case(32, 208, 208, 64, stride=2), DirectConvTile(2, 32, 32, 2, 1, 2, columns=1)),
        (Case(64, 26, 26, 64), DirectConvTile(4, 32, 32, 1, 2, 1, columns=0, ahead=True)),
        (Case(24, 13, 13, 40, residual=True), DirectConvTile(2, 16, 16, 2, 1, 2, columns=3)),
        (
            Case(48, 30, 52, 48, (5, 3), padding=(2, 0, 1, 1)),
            DirectConvTile(2, 16, 16, 2, columns=3),
        ),
    ],
)
def test_shaders_are_valid_and_load_vectors(case: Case, tile: DirectConvTile) -> None:
    function = case.function()
    (windows,) = {windows_of(Schedule(function))}
    (kernel,) = printed(schedule_with(function, LIMITS, ScheduleConfig("direct_conv", tile)))
    spirv.validate(spirv.compile_glsl(kernel.source, name=kernel.name))
    lines = kernel.source.splitlines()
    read = [line for line in lines if "readonly buffer" in line]
    assert len(read) == len(case.shapes)
    assert all(re.search("uvec4|f16vec4", line) for line in read)
    types = {"uvec4": 16, "f16vec4": 8, "vec4": 16}
    shared = re.findall(r"shared (\w+) \w+\[(\d+)\]", kernel.source)
    used = sum(types[name] * int(count) for name, count in shared)
    assert used == tile.shared_bytes(windows)
    # A row of the image is loaded once for all places of the window above each other.
    image, weights, sums = tile.matrices(windows)
    rounds = kernel.source.count("coopMatMulAdd") // (windows.kernel[0] * sums)
    assert kernel.source.count("coopMatLoad") == rounds * (image + weights)


def test_parts_of_the_channels_are_added_up_by_a_second_kernel() -> None:
    tile = DirectConvTile(2, 16, 32, 4, 1, 1, columns=3, ahead=True, split_k=4)
    case = Case(512, 13, 13, 512, residual=True)
    kernels = printed(schedule_with(case.function(), LIMITS, ScheduleConfig("direct_conv", tile)))
    assert len(kernels) == 2
    for kernel in kernels:
        spirv.validate(spirv.compile_glsl(kernel.source, name=kernel.name))
    assert sum("coopMatMulAdd" in kernel.source for kernel in kernels) == 1


def test_loops_over_channels_divide_nothing() -> None:
    tile = DirectConvTile(4, 16, 16, 4, 1, 2, columns=3, ahead=True)
    function = Case(256, 104, 104, 64).function()
    (kernel,) = printed(schedule_with(function, LIMITS, ScheduleConfig("direct_conv", tile)))
    _, loop = kernel.source.split("for (int r2_0 = 0; r2_0 < 15; ++r2_0) {")
    inside, _ = loop.split("\n  }\n", 1)
    assert "coopMatMulAdd" in inside
    assert not re.findall(r"[/%]", inside)


def test_large_layers_get_it_and_switch_it_off() -> None:
    function = LARGE.function()
    assert schedule_function(function, LIMITS)[1] == "direct_conv"
    offered = choices(function, LIMITS)
    assert [choice.template for choice in offered[:4]] == ["direct_conv", "coopmat_gemm"] * 2
    device = Target(ATTRIBUTES, host=HOST)
    assert TargetLimits.of(device).halo
    without = TargetLimits.of(device, CompileOptions(halo=False))
    assert not without.halo
    assert schedule_function(function, without)[1] == "coopmat_gemm"
    assert not rims(function, without)
    assert not is_offered(function, without, rims(function)[0])


@pytest.mark.parametrize(
    ("shape", "fastest", "place"),
    [
        (
            Windows(1, 416, 416, 64, 32, (3, 3)),
            DirectConvTile(8, 16, 16, 2, 2, 2, columns=3, ahead=True),
            2,
        ),
        (
            Windows(1, 26, 26, 640, 256, (3, 3)),
            DirectConvTile(8, 32, 16, 2, 1, 2, columns=3, split_k=8),
            24,
        ),
    ],
)
def test_the_fastest_measured_are_offered(
    shape: Windows, fastest: DirectConvTile, place: int
) -> None:
    limits = dataclasses.replace(LIMITS, split_k=True)
    assert fastest in candidates(shape, limits)[:place]


@pytest.mark.parametrize(
    ("shape", "faster"),
    [
        (Windows(1, 416, 416, 64, 32, (3, 3)), True),
        (Windows(1, 104, 104, 256, 64, (3, 3)), True),
        (Windows(1, 13, 13, 256, 512, (3, 3)), True),
        (Windows(1, 56, 56, 64, 64, (3, 3)), True),
        (Windows(1, 28, 28, 128, 128, (3, 3)), False),
    ],
)
def test_it_is_taken_where_it_was_measured_to_be_faster(shape: Windows, faster: bool) -> None:
    limits = dataclasses.replace(LIMITS, split_k=True)
    assert pays(shape, limits) == faster
    threads = candidates(shape, limits)[0].subgroups * limits.subgroup
    assert not faster or threads >= 128


def test_the_default_is_the_first_choice_either_way() -> None:
    kinds = set()
    for case in (LARGE, Case(24, 9, 16, 8, (1, 3), padding=(0, 1, 0, 1)), Case(512, 7, 7, 512)):
        function = case.function()
        kind = schedule_function(function, LIMITS)[1]
        assert choices(function, LIMITS)[0].template == kind
        assert (kind == "direct_conv") == pays(windows_of(Schedule(function)), LIMITS)
        kinds.add(kind)
    assert kinds == {"direct_conv", "coopmat_gemm"}


@pytest.mark.parametrize(
    "shape",
    [
        Windows(1, 416, 416, 64, 32, (3, 3)),
        Windows(1, 26, 26, 640, 256, (3, 3)),
        Windows(2, 13, 13, 40, 24, (3, 3), (2, 2)),
        Windows(1, 20, 20, 64, 64, (7, 7)),
    ],
)
def test_candidates_fit_the_device(shape: Windows) -> None:
    for limits in (LIMITS, TargetLimits(256, 32768, 8, ((8, 8, 8),))):
        tiles = candidates(shape, limits)
        assert 3 <= len(tiles) == len(set(tiles)) <= 24
        assert all(fits(tile, shape, limits) for tile in tiles)
        assert len({tile.columns for tile in tiles}) > 1


def test_candidates_apply_and_go_through_records() -> None:
    function = Case(128, 26, 26, 64).function()
    offered = rims(function)
    for choice in offered[::5]:
        again = ScheduleConfig.from_dict(json.loads(json.dumps(choice.to_dict())))
        assert again == choice
        assert is_offered(function, LIMITS, again)
        schedule_with(function, LIMITS, again)
    odd = dataclasses.replace(offered[0].parameters, rows=3)
    assert not is_offered(function, LIMITS, ScheduleConfig("direct_conv", odd))


def test_others_are_left_alone() -> None:
    pointwise = Case(64, 26, 26, 64, (1, 1), padding=(0, 0, 0, 0)).function()
    few = Case(3, 26, 26, 64).function()
    first = halves(fused(lambda x, w: relax.op.nn.conv2d(x, w), [(1, 16, 8, 8), (32, 16, 3, 3)]))
    grouped = halves(
        fused(
            lambda x, w: relax.op.nn.conv2d(
                x, w, groups=2, data_layout="NHWC", kernel_layout="HWIO"
            ),
            [(1, 8, 8, 32), (3, 3, 16, 32)],
        )
    )
    for function in (pointwise, few, first, grouped):
        assert not rims(function)
    with pytest.raises(NotThisKind):
        schedule_with(
            pointwise, LIMITS, ScheduleConfig("direct_conv", DirectConvTile(2, 16, 16, 2))
        )


SMALL = [
    # columns of the window at once: all
    (Case(16, 13, 13, 16), {"rows": 2, "filters": 2, "k": 2, "subgroups_y": 2, "columns": 3}),
    # one, a whole number of neither rows nor columns, two images
    (
        Case(24, 13, 30, 40, batch=2, residual=True),
        {"rows": 2, "filters": 1, "k": 2, "subgroups_x": 2, "subgroups_n": 2, "columns": 1},
    ),
    # weights from device memory
    (
        Case(48, 9, 26, 48, residual=True),
        {"rows": 4, "filters": 1, "k": 1, "subgroups_n": 3, "columns": 0, "ahead": True},
    ),
    # every other pixel, what comes next is fetched ahead
    (
        Case(40, 11, 13, 24, stride=2, padding=(0, 1, 2, 1)),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 3, "ahead": True},
    ),
    (
        Case(32, 9, 13, 16, stride=2),
        {"rows": 4, "filters": 1, "k": 2, "subgroups_x": 2, "columns": 1, "ahead": True},
    ),
    # channels shared by workgroups
    (
        Case(32, 9, 13, 12, batch=2, residual=True),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 3, "split_k": 2},
    ),
    (
        Case(64, 5, 6, 16),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 0, "split_k": 4},
    ),
    # no padding, other windows
    (
        Case(16, 9, 13, 12, (3, 5), padding=(0, 0, 0, 0)),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_n": 2, "columns": 5},
    ),
    (
        Case(9, 9, 13, 9, dilation=2, padding=(2, 2, 2, 2)),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_y": 2, "columns": 3},
    ),
]


def tile_of(parts: dict[str, Any], matrix: tuple[int, int, int]) -> DirectConvTile:
    """A tile whose filters and channels are given in matrices."""
    _, n, k = matrix
    scaled = {**parts, "filters": parts["filters"] * n, "k": parts["k"] * k}
    return DirectConvTile(**scaled, matrix=matrix)


def check(case: Case, choice: ScheduleConfig, limits: TargetLimits, device: Target) -> None:
    """Compares with numpy."""
    inputs = [value.astype("float16") for value in noise(case.shapes)]
    expected = case.expected(*inputs)
    scheduled = schedule_with(case.function(), limits, choice)
    found = result(scheduled, inputs, expected.shape, device)
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize(("case", "parts"), SMALL)
@pytest.mark.usefixtures("device_info")
def test_values_on_matrices(case: Case, parts: dict[str, Any]) -> None:
    limits = TargetLimits.of(target())
    if not limits.matrices:
        pytest.skip("the device lacks cooperative matrices (VK_KHR_cooperative_matrix)")
    tile = tile_of(parts, limits.matrices[0])
    if tile.shared_bytes(windows_of(Schedule(case.function()))) > limits.shared_bytes:
        pytest.skip(f"the tile does not fit {limits.shared_bytes} bytes")
    check(case, ScheduleConfig("direct_conv", tile), limits, target())


@pytest.mark.parametrize("case", [Case(24, 11, 26, 40), Case(32, 12, 12, 16, stride=2)])
@pytest.mark.usefixtures("device_info")
def test_values_of_candidates_on_matrices(case: Case) -> None:
    limits = TargetLimits.of(target())
    if not limits.matrices:
        pytest.skip("the device lacks cooperative matrices (VK_KHR_cooperative_matrix)")
    for choice in rims(case.function(), limits)[::4]:
        check(case, choice, limits, target())


EMULATED = [
    (Case(16, 5, 13, 16), {**SMALL[0][1], "filters": 1, "k": 1}),
    (Case(32, 5, 9, 32, stride=2, residual=True), SMALL[3][1]),
    pytest.param(
        Case(64, 4, 9, 16),
        {"rows": 2, "filters": 1, "k": 1, "subgroups_n": 2, "columns": 1, "split_k": 2},
        marks=pytest.mark.slow,
    ),
    (Case(16, 4, 16, 32), {"rows": 2, "filters": 1, "k": 1, "subgroups_n": 2, "columns": 0}),
]


@pytest.mark.parametrize(("case", "parts"), EMULATED)
def test_values_on_emulated_matrices(
    case: Case, parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    """On any device; see emulated_matrices."""
    need_right_arrays(device_info)
    limits = dataclasses.replace(TargetLimits.of(target()), matrices=(SHAPE,))
    tile = tile_of(parts, SHAPE)
    windows = windows_of(Schedule(case.function()))
    if tile.shared_bytes(windows) > device_info.max_shared_memory_per_block:
        pytest.skip(f"the tile does not fit {device_info.max_shared_memory_per_block} bytes")
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    device = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    check(case, ScheduleConfig("direct_conv", tile), limits, device)
