"""Products whose sums are added up by a second kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from support.numpy_operators import sliding_windows
from support.schedule_runs import TOLERANCE, fused, noise, target
from tvm_vision.schedules import ScheduleConfig, TargetLimits, choices, schedule_with
from tvm_vision.schedules.common import NotThisKind
from tvm_vision.schedules.cost.device_model import DISCRETE
from tvm_vision.schedules.cost.gemm import candidates, default
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.cost.split_k import parts_of

pytestmark = pytest.mark.usefixtures("device_info")

LARGE = TargetLimits(threads=1024, shared_bytes=49152, subgroup=32, split_k=True)
LATE = Product(1, 512, 49, 4608)


def kernel(mod: tvm.IRModule) -> tirx.PrimFunc:
    return next(f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))


def result(function: tirx.PrimFunc, inputs: list[Any]) -> np.ndarray:
    """What a scheduled function computes on the first device."""
    device = tvm.vulkan(0)
    with target():
        named = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        library = tvm.tirx.build(named, target=target())
    out = function.params[-1].ty
    tensors = [tvm.runtime.tensor(value, device) for value in inputs]
    made = tvm.runtime.empty([int(n) for n in out.shape], str(out.dtype.dtype), device)
    library["main"](*tensors, made)
    return made.numpy()


def near(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * np.abs(expected).max())


def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int) -> np.ndarray:
    """NCHW, OIHW, padded by one; bias and ReLU."""
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_windows(padded, w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.maximum(np.einsum("ncyxhw,ochw->noyx", windows, w) + b, 0)


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize(
    "tile",
    [GemmTile(32, 32, 32), GemmTile(8, 16, 32, 4, 4, slice_k=4), GemmTile(16, 64, 16, 8, 4)],
)
def test_any_part_of_a_product(tile: GemmTile, parts: int) -> None:
    left, right, bias = noise([(2, 21, 136), (2, 136, 35), (35,)])
    product = kernel(
        fused(
            lambda x, y, z: relax.op.add(relax.op.matmul(x, y), z), [left.shape, right.shape, (35,)]
        )
    )
    choice = ScheduleConfig("contraction", dataclasses.replace(tile, split_k=parts))
    scheduled = schedule_with(product, TargetLimits.of(target()), choice)
    expected = left.astype("float64") @ right + bias
    found = result(scheduled, [left, right, bias])
    near(found, expected)
    np.testing.assert_array_equal(found, result(scheduled, [left, right, bias]))


@pytest.mark.parametrize(("size", "stride", "channels"), [(7, 1, 24), (9, 2, 40)])
def test_a_convolution_with_what_follows_it(size: int, stride: int, channels: int) -> None:
    inputs = noise([(1, channels, size, size), (20, channels, 3, 3), (1, 20, 1, 1)])
    out = (size + 2 - 3) // stride + 1
    residual = noise([(1, 20, out, out)], 5)[0]

    def build(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = relax.op.nn.relu(relax.op.add(relax.op.nn.conv2d(x, w, stride, 1), b))
        return relax.op.add(y, r)

    function = kernel(fused(build, [v.shape for v in (*inputs, residual)]))
    choice = ScheduleConfig("contraction", GemmTile(32, 32, 32, split_k=4))
    scheduled = schedule_with(function, TargetLimits.of(target()), choice)
    near(
        result(scheduled, [*inputs, residual]),
        convolved(inputs[0], inputs[1], inputs[2], stride) + residual,
    )


def test_unequal_parts_are_refused() -> None:
    product = kernel(fused(relax.op.matmul, [(21, 77), (77, 35)]))
    with pytest.raises(NotThisKind, match="77 terms has no 4 equal parts"):
        schedule_with(
            product, LARGE, ScheduleConfig("contraction", GemmTile(32, 32, 32, split_k=4))
        )


@pytest.mark.parametrize(
    ("terms", "tiles", "parts"),
    [(4608, 64, [1, 2, 4, 8]), (512, 64, [1, 2, 4]), (147, 4, [1]), (4608, 256, [1])],
)
def test_long_sums_with_few_tiles_are_cut(terms: int, tiles: int, parts: list[int]) -> None:
    assert parts_of(terms, tiles, DISCRETE) == parts


def test_only_where_there_are_units_to_spare_without_a_word_of_a_tuner() -> None:
    assert default(LATE, LARGE).split_k > 1
    small = dataclasses.replace(LARGE, split_k=False)
    assert default(LATE, small).split_k == 1
    assert any(tile.split_k > 1 for tile in candidates(LATE, small))
    assert default(Product(1, 64, 43264, 576), LARGE).split_k == 1


def test_old_records_mean_one_part() -> None:
    product = kernel(fused(relax.op.matmul, [(64, 64), (64, 64)]))
    (first, *_) = [c for c in choices(product, LARGE) if c.template == "contraction"]
    data = first.to_dict()
    del data["parameters"]["split_k"]
    assert ScheduleConfig.from_dict(data).parameters.split_k == 1
