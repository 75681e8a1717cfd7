"""Products load and store whole vectors wherever neighbours lie together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from support.numpy_operators import sliding_windows
from support.schedule_runs import check, fused, noise, run, target
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices, schedule_with
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED
from tvm_vision.schedules.cost.gemm_tile import GemmTile
from tvm_vision.schedules.gpu.window import WindowShape, WindowSum, default, shape_of

pytestmark = pytest.mark.usefixtures("device_info")


def convolution(stride: int, pad: int) -> Any:
    def build(x: Any, w: Any, b: Any) -> Any:
        return relax.op.nn.relu(relax.op.add(relax.op.nn.conv2d(x, w, stride, pad), b))

    return build


def widths(build: Any, shapes: Sequence[tuple[int, ...]], tile: GemmTile) -> dict[str, int]:
    """Lanes of each buffer's elements in the shader, in the order of the arguments."""
    mod = fused(build, shapes)
    function = next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    scheduled = schedule_with(
        function, TargetLimits.of(target()), ScheduleConfig("contraction", tile)
    )
    named = tvm.IRModule({"main": scheduled.with_attr("global_symbol", "main")})
    with target():
        library = tvm.tirx.build(named, target=target())
    source = library.imports[0].inspect_source("glsl")
    blocks = re.findall(r"buffer \w+ \{ (float|vec4) (\w+)\[\]", source)
    return {name.removesuffix("_v4"): 4 if of == "vec4" else 1 for of, name in blocks}


@pytest.mark.parametrize("slice_k", [1, 2])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "image", "weights", "result"),
    [
        (8, 1, 1, 4, 4, 4),
        (7, 1, 1, 1, 4, 1),  # a vector of 49 pixels would reach beyond its channel
        (8, 3, 1, 1, 4, 4),  # pixels at the edges have a condition of their own
        (8, 1, 2, 1, 4, 4),  # every second pixel
    ],
)
def test_vectors_where_neighbours_lie_together(
    size: int, kernel: int, stride: int, image: int, weights: int, result: int, slice_k: int
) -> None:
    shapes = [(1, 12, size, size), (20, 12, kernel, kernel), (1, 20, 1, 1)]
    tile = GemmTile(16, 16, 16, 4, 4, slice_k)
    found = widths(convolution(stride, kernel // 2), shapes, tile)
    lanes = {name: found[name] for name in found}
    by_argument = [lanes[name] for name in ("x0", "x1") if name in lanes]
    assert by_argument == [image, weights], found
    assert max(v for k, v in lanes.items() if k not in ("x0", "x1", "x2")) == result, found


@pytest.mark.parametrize("size", [5, 8])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_results_are_the_same(size: int, kernel: int, stride: int) -> None:
    x, w, b = noise([(1, 12, size, size), (20, 12, kernel, kernel), (1, 20, 1, 1)])
    pad = kernel // 2
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_windows(padded, (kernel, kernel), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    expected = np.maximum(np.einsum("ncyxhw,ochw->noyx", windows, w) + b, 0)
    assert check(convolution(stride, pad), [x, w, b], expected) == ["contraction"]


@pytest.mark.parametrize(("inputs", "lanes"), [(8, 4), (24, 4), (6, 1), (80, 1)])
def test_few_sums_of_a_pixel_fetch_its_channels_at_once(inputs: int, lanes: int) -> None:
    """Three outputs are too few for tiles: a thread has a pixel, all of whose channels it reads."""

    def build(x: Any, w: Any) -> Any:
        return relax.op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO")

    x, w = noise([(1, 9, 7, inputs), (1, 1, inputs, 3)])
    mod = fused(build, [x.shape, w.shape])
    name, function = next((n, f) for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    choice = ScheduleConfig("window", WindowShape(threads=32, along=3))
    assert choice in choices(function, TargetLimits.of(target()))
    function = schedule_with(function, TargetLimits.of(target()), choice)
    assert ("T.vectorized(T.int64(4))" in function.script()) == (lanes == 4)
    mod.update_func(name, function)
    result = run(mod, [x, w])
    np.testing.assert_allclose(result, x.astype("float64") @ w[0, 0], rtol=0, atol=1e-4)


def test_few_sums_of_many_pixels_have_a_thread_for_each_pixel() -> None:
    assert default(WindowSum((1, 416, 416, 3), vectors=False), TargetLimits.of(target())).along == 3


@pytest.mark.parametrize(
    ("outputs", "threads"), [((192, 28, 28), 128), ((960, 7, 7), 64), ((5, 7, 3), 128)]
)
def test_windows_have_no_rest_where_it_can_be_avoided(
    outputs: tuple[int, ...], threads: int
) -> None:
    assert default(WindowSum(outputs, False), TargetLimits(256, 16384, 32)).threads == threads


@pytest.mark.parametrize(("row", "along"), [(14, 7), (7, 7), (28, 4), (10, 2), (9, 3), (13, 1)])
def test_windows_that_overlap_share_a_row_where_nothing_was_timed(row: int, along: int) -> None:
    outputs = (1, 1152, row, row)
    small, timed = (TargetLimits(256, 16384, 32, device=each) for each in (INTEGRATED, DISCRETE))
    assert default(WindowSum(outputs, False, overlap=True), small).along == along
    assert default(WindowSum(outputs, False, overlap=True), timed).along in (1, 2, 3, 4)
    assert default(WindowSum(outputs, False), small).along in (1, 2, 3, 4)
    assert default(WindowSum((1, 128, row, row), False, overlap=True), small).along in (1, 2, 4)


@pytest.mark.parametrize(
    ("outputs", "of_bytes", "beside"),
    [
        ((16, 56, 56, 144), True, 4),
        ((16, 14, 14, 576), True, 2),
        ((16, 7, 7, 960), True, 1),  # no multiple of two pixels
        ((1, 56, 56, 144), True, 1),  # few threads would be left
        ((16, 56, 56, 144), False, 1),
        ((16, 56, 56, 143), True, 1),  # no vectors
    ],
)
def test_vectors_of_bytes_are_unpacked_once_for_neighbouring_pixels(
    outputs: tuple[int, ...], of_bytes: bool, beside: int
) -> None:
    window = WindowSum(outputs, vectors=True, of_bytes=of_bytes)
    timed = TargetLimits(256, 16384, 32, device=DISCRETE)
    assert default(window, timed).beside == beside
    assert default(window, replace(timed, wide_subgroup=32)).beside == 1


@pytest.mark.parametrize(
    ("stride", "kernel", "overlap"), [(1, 5, True), (2, 5, False), (1, 1, False)]
)
def test_which_windows_overlap(stride: int, kernel: int, overlap: bool) -> None:
    def build(x: Any, w: Any) -> Any:
        pads = [kernel // 2] * 4
        return relax.op.nn.conv2d(x, w, strides=stride, padding=pads, groups=24)

    mod = fused(build, [(1, 24, 14, 14), (24, 1, kernel, kernel)])
    function = next(f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    assert shape_of(Schedule(function)).overlap == overlap


def test_every_tile_of_a_product_with_odd_edges_can_be_built() -> None:
    function = next(
        f
        for f in fused(relax.op.matmul, [(30, 44), (44, 36)]).functions.values()
        if isinstance(f, tirx.PrimFunc)
    )
    limits = TargetLimits.of(target())
    found = [c for c in choices(function, limits) if c.template == "contraction"]
    for choice in found[:: max(1, len(found) // 12)]:
        assert schedule_with(function, limits, choice) is not None


@pytest.mark.parametrize(("channels", "along"), [(12, 4), (8, 2), (8, 8), (7, 1)])
def test_pools_of_neighbouring_channels_are_computed_as_vectors(channels: int, along: int) -> None:
    def build(x: Any) -> Any:
        return relax.op.nn.max_pool2d(x, (3, 3), padding=(1, 1, 1, 1), layout="NHWC")

    (x,) = noise([(1, 6, 5, channels)])
    mod = fused(build, [x.shape])
    name, function = next((n, f) for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    shape = WindowShape(threads=32, along=along)
    function = schedule_with(function, TargetLimits.of(target()), ScheduleConfig("window", shape))
    assert (f"T.vectorized(T.int64({along}))" in function.script()) == (along > 1)
    mod.update_func(name, function)
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    windows = sliding_windows(around, (3, 3), (1, 2))
    np.testing.assert_array_equal(run(mod, [x]), windows.max((-1, -2)))
