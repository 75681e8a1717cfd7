"""Pools before the concatenation that they read: of channels within pixels, for them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import results_of
from support.relax_models import module_of
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.pool_before_concat import pools_before_concats

OP = relax.op
PARTS = ((1, 8, 8, 3), (1, 8, 8, 5))


def pooled(kind: str, axis: int = 3, layout: str = "NHWC", twice: bool = False) -> Any:
    def build(builder: relax.BlockBuilder, *parts: Any) -> Any:
        joined = builder.emit(OP.concat(list(parts), axis))
        result = builder.emit(getattr(OP.nn, kind)(joined, 3, 2, padding=1, layout=layout))
        return [result, builder.emit(OP.nn.relu(joined))] if twice else result

    return build


@pytest.mark.parametrize("kind", ["max_pool2d", "avg_pool2d"])
def test_each_part_has_a_pool_of_its_own_and_values_stay(kind: str) -> None:
    module, signature = module_of(pooled(kind), *PARTS)
    moved = pools_before_concats(module)
    assert [list(map(int, call.ty.shape)) for call in calls_of(moved, f"relax.nn.{kind}")] == [
        [1, 4, 4, 3], [1, 4, 4, 5],
    ]  # fmt: skip
    (concat,) = calls_of(moved, "relax.concat")
    assert list(map(int, concat.ty.shape)) == [1, 4, 4, 8]
    arrays = [np.random.default_rng(i).standard_normal(s).astype("f4") for i, s in enumerate(PARTS)]
    (wanted,), (found,) = (results_of(each, signature, "llvm", arrays) for each in (module, moved))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (pooled("max_pool2d", axis=1), PARTS[:1] * 2),  # along rows, whose windows meet
        (pooled("max_pool2d", axis=1, layout="NCHW"), PARTS[:1] * 2),  # in place
        (pooled("max_pool2d", twice=True), PARTS),
    ],
)
def test_others_stay(build: Any, shapes: Any) -> None:
    module, _ = module_of(build, *shapes)
    assert pools_before_concats(module).same_as(module)
