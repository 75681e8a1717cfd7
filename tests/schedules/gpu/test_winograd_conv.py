"""Winograd's convolution as one kernel, against numpy on the first device."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from support.numpy_operators import sliding_windows
from support.schedule_runs import noise, target
from tvm_vision.compiler.tir.cast_buffers import narrowed
from tvm_vision.schedules import TargetLimits, choices, schedule_function, schedule_with
from tvm_vision.schedules.common import NotThisKind
from tvm_vision.schedules.cost.device_model import INTEGRATED, INTEGRATED_XE
from tvm_vision.schedules.cost.winograd_conv import TILES, Layer, WinogradTile, candidates, cycles
from tvm_vision.schedules.templates import ScheduleConfig, is_offered
from tvm_vision.topi.winograd import (
    FULL_INPUTS,
    FULL_OUTPUTS,
    Tiling,
    convolution,
    fill_up_weights,
    transform_weights,
)

LIMITS = TargetLimits(threads=256, shared_bytes=32768, subgroup=32)
PACKED = replace(LIMITS, device=replace(INTEGRATED, packed_fp16=True), selects_loads=True)
XE = replace(PACKED, device=replace(INTEGRATED_XE, packed_lanes=16))
HALF = [tvm.tirx.const(0.5, "float32")]
# Largest error over the largest value.
TOLERANCE = {"float32": 1e-6, "float16": 2e-3}


def tensors(x: tuple[int, ...], outputs: int) -> tuple[Any, Any]:
    """An image and transformed weights."""
    full = (-(-x[1] // FULL_INPUTS) * FULL_INPUTS, -(-outputs // FULL_OUTPUTS) * FULL_OUTPUTS)
    return te.placeholder(x, "float32", "x"), te.placeholder((16, *full), "float32", "w")


def tiling_of(x: tuple[int, ...], padding: tuple[int, int, int, int]) -> Tiling:
    top, left, bottom, right = padding
    return Tiling(2, x[0], x[2] + top + bottom - 2, x[3] + left + right - 2, top, left)


def residual_block(x: tuple[int, ...], outputs: int, padding: Any, dtype: str) -> tirx.PrimFunc:
    """A convolution of what is scaled before, with bias, residual sum and ReLU."""
    image, weights = tensors(x, outputs)
    tiling = tiling_of(x, padding)
    scaled = te.compute(image.shape, lambda *at: image(*at) * HALF[0], "scaled")
    y = convolution(scaled if dtype == "float32" else image, weights, tiling, outputs)
    bias = te.placeholder((1, outputs, 1, 1), "float32", "bias")
    residual = te.placeholder(y.shape, "float32", "residual")
    z = topi.nn.relu(topi.add(topi.add(y, bias), residual))
    made = te.create_prim_func([image, weights, bias, residual, z])
    return made if dtype == "float32" else narrowed(made, range(5))


def convolved(x: np.ndarray, w: np.ndarray, padding: Any) -> np.ndarray:
    top, left, bottom, right = padding
    full = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_windows(full, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype("float64"), optimize=True)


def run(scheduled: tirx.PrimFunc, given: list[np.ndarray], shape: Any) -> np.ndarray:
    module = tvm.IRModule({"k": scheduled.with_attr("global_symbol", "k")})
    with target():
        library = tvm.tirx.build(module, target=target())
    device = tvm.vulkan(0)
    output = tvm.runtime.tensor(np.full(shape, np.nan, given[0].dtype), device)
    library["k"](*(tvm.runtime.tensor(value, device) for value in given), output)
    return output.numpy().astype("float64")


# Sums in float32, sums in fp16 with pixels that are selected, and these in narrow subgroups.
WAYS = {"plain": LIMITS, "packed": PACKED, "narrow": XE}
CASES = [
    ((1, 64, 14, 14), 64, (1, 1, 1, 1)),
    ((2, 17, 9, 13), 33, (1, 1, 1, 1)),
    ((1, 20, 11, 12), 16, (0, 0, 0, 0)),
    ((2, 16, 13, 10), 20, (0, 1, 2, 3)),
    ((3, 5, 2, 30), 3, (1, 1, 1, 1)),
    ((1, 1, 3, 3), 1, (0, 0, 0, 0)),
]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("case", "dtype", "limits", "tile"),
    [
        # Each case, each type and each tile; all of them together where there is time.
        pytest.param(
            *(case, dtype, limits, tile),
            marks=[] if (place + number) % 5 == 0 else [pytest.mark.slow],
            id=f"{place}-{dtype}-{name}-{tile.results}",
        )
        for place, case in enumerate(CASES)
        for number, (tile, dtype, (name, limits)) in enumerate(
            itertools.product(TILES, TOLERANCE, WAYS.items())
        )
        if tile.shared_bytes(2 if dtype == "float16" else 4) <= limits.shared_bytes
    ],
)
def test_results_equal_numpy(
    case: Any, dtype: str, limits: TargetLimits, tile: WinogradTile
) -> None:
    shape, outputs, padding = case
    w = noise([(outputs, shape[1], 3, 3)], 1)[0] / np.float32(3 * shape[1] ** 0.5)
    x = noise([shape])[0].astype(dtype)
    plain = convolved(x, w, padding) * (0.5 if dtype == "float32" else 1)
    bias, residual = (of.astype(dtype) for of in noise([(1, outputs, 1, 1), plain.shape], 2))
    expected = np.maximum(plain + bias + residual, 0)
    filled = fill_up_weights(transform_weights(w, 2)).astype(dtype)
    function = residual_block(shape, outputs, padding, dtype)
    choice = ScheduleConfig("winograd_conv", tile)
    scheduled = schedule_with(function, limits, choice)
    result = run(scheduled, [x, filled, bias, residual], plain.shape)
    assert np.abs(result - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()


@pytest.mark.usefixtures("device_info")
def test_results_are_written_where_they_are_wanted() -> None:
    """In another shape, with axes turned."""
    shape, outputs = (2, 16, 9, 6), 20
    image, weights = tensors(shape, outputs)
    y = convolution(image, weights, tiling_of(shape, (1, 1, 1, 1)), outputs)
    z = topi.transpose(topi.reshape(y, (2, outputs, 54)), (0, 2, 1))
    function = te.create_prim_func([image, weights, z])
    x, w = noise([shape, (outputs, 16, 3, 3)])
    scheduled, kind = schedule_function(function, LIMITS)
    assert kind == "winograd_conv"
    expected = convolved(x, w, (1, 1, 1, 1)).reshape(2, outputs, 54).transpose(0, 2, 1)
    result = run(scheduled, [x, fill_up_weights(transform_weights(w, 2))], expected.shape)
    assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


def test_others_are_left_to_other_templates() -> None:
    shape, tiling = (1, 16, 8, 8), Tiling(2, 1, 8, 8, 1, 1)
    image, weights = tensors(shape, 16)
    y = convolution(image, weights, tiling, 16)
    both = te.create_prim_func([image, weights, topi.nn.relu(y), topi.exp(y)])
    doubled = te.compute(weights.shape, lambda *at: weights(*at) * HALF[0])
    scaled = te.create_prim_func([image, weights, convolution(image, doubled, tiling, 16)])
    choice = ScheduleConfig("winograd_conv", TILES[1])
    for function in (both, scaled):
        with pytest.raises(NotThisKind, match="winograd_conv does not fit"):
            schedule_with(function, LIMITS, choice)
        assert not is_offered(function, LIMITS, choice)


def test_one_template_takes_it_with_tiles_that_fit() -> None:
    def offered(dtype: str, limits: TargetLimits) -> list[Any]:
        function = residual_block((1, 64, 56, 56), 64, (1, 1, 1, 1), dtype)
        found = choices(function, limits)
        return [choice.parameters for choice in found if choice.template == "winograd_conv"]

    large, small = TILES
    assert offered("float16", LIMITS) == [large, small]
    assert offered("float32", LIMITS) == [small]
    assert offered("float16", replace(LIMITS, shared_bytes=16384)) == [small]
    assert offered("float32", replace(LIMITS, shared_bytes=16384)) == []
    assert offered("float16", replace(LIMITS, threads=128)) == []


def test_small_workgroups_where_there_are_few_or_registers_are() -> None:
    wide, late = Layer(1, 64, 64, 56, 56, True), Layer(1, 512, 64, 7, 7, True)
    large, small = TILES
    assert candidates(wide, PACKED) == [large, small]
    assert candidates(late, PACKED)[0] == small
    assert candidates(wide, XE) == [small]


def test_estimate_grows_with_what_is_computed() -> None:
    device = PACKED.device
    layers = [
        Layer(batch, inputs, outputs, size, size, fp16=True)
        for batch, inputs, outputs, size in itertools.product((1, 4), (32, 256), (64, 256), (28,))
    ]
    for layer in layers:
        for tile in TILES:
            least = cycles(layer, tile, device)
            assert cycles(replace(layer, inputs=2 * layer.inputs), tile, device) > least
            assert cycles(replace(layer, outputs=4 * layer.outputs), tile, device) > least
            assert cycles(replace(layer, fp16=False), tile, device) > least
