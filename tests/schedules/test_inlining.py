"""What kernels compute before a sum is computed where it is read, however it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from tvm import te
from tvm.s_tir import Schedule

import tvm_vision
from support.onnx_models import make_model
from support.schedule_runs import target
from tvm_vision.schedules.common import TargetLimits, blocks_of, inline_producers, is_reduction
from tvm_vision.schedules.module import schedule_function


def _mean(several: Sequence[Any], shift: int) -> Callable[[Any, Any], Any]:
    def of(row: Any, column: Any) -> Any:
        rows = several[0].shape[0]
        return sum(each[(row + shift * i) % rows, column] for i, each in enumerate(several)) * 0.5

    return of


def product(draws: np.random.Generator, values: int) -> te.PrimFunc:
    """A product of a value, each of which is computed from one to three before it, at their places
    or beside them."""
    m, n, k = 24, 20, 32
    given, weights = te.placeholder((m, k), name="given"), te.placeholder((k, n), name="weights")
    made = [given]
    for number in range(values):
        read = draws.choice(len(made), draws.integers(1, 1 + min(3, len(made))), replace=False)
        # The last is always read, so that all are somewhere on the way; in any order.
        numbers = draws.permutation(sorted({len(made) - 1, *map(int, read)}))
        several = [made[int(each)] for each in numbers]
        made.append(te.compute((m, k), _mean(several, int(draws.integers(0, 2))), f"value{number}"))
    along = te.reduce_axis((0, k), name="along")
    result = te.compute(
        (m, n), lambda i, j: te.sum(made[-1][i, along] * weights[along, j], along), name="product"
    )
    return te.create_prim_func([given, weights, result])


@pytest.mark.parametrize("seed", range(12))
def test_values_that_are_read_by_several_are_inlined(seed: int) -> None:
    draws = np.random.default_rng(seed)
    schedule = Schedule(product(draws, int(draws.integers(2, 7))))
    (block,) = (each for each in blocks_of(schedule) if is_reduction(schedule, each))
    inline_producers(schedule, block)
    assert len(blocks_of(schedule)) == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_product_of_them_has_tiles(seed: int) -> None:
    """Other schedules are right, too, and up to twenty times as slow."""
    function = product(np.random.default_rng(seed), 4)
    assert schedule_function(function, TargetLimits.of(target()), target())[1] == "contraction"


def padded_twice(mode: str) -> Any:
    """A 3×3 convolution of what lies around an image that another one computes."""
    random = np.random.default_rng(5)
    weights = {f"w{i}": 0.1 * random.standard_normal((16, 16, 3, 3)) for i in range(2)}
    nodes = []
    for i, (read, written) in enumerate([("x", "y"), ("y", "z")]):
        nodes += [
            helper.make_node("Pad", [read, "around"], [f"p{i}"], mode=mode),
            helper.make_node("Conv", [f"p{i}", f"w{i}"], [f"c{i}"]),
            helper.make_node("LeakyRelu", [f"c{i}"], [written], alpha=0.1),
        ]
    constants = [(name, value.astype("float32")) for name, value in weights.items()]
    constants.append(("around", np.array([0, 0, 1, 1, 0, 0, 1, 1], "int64")))
    return make_model(nodes, [("x", (1, 16, 12, 20))], [("z", None)], constants, opset=19)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("mode", ["wrap", "reflect", "edge"])
def test_images_whose_border_is_a_part_of_them(mode: str, precision: str, tmp_path: Path) -> None:
    """Of a LiDAR's turn the ends meet: slices and the whole image are put side by side, twice."""
    model = padded_twice(mode)
    tvm_vision.compile(model, tmp_path / "net.tar", target="vulkan", precision=precision)
    image = np.random.default_rng(7).standard_normal((1, 16, 12, 20)).astype("float32")
    found = tvm_vision.load(tmp_path / "net.tar", device="vulkan").frame({"x": image})["z"]
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": image})
    bound = (1e-5 if precision == "fp32" else 3e-3) * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
