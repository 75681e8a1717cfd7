"""Turns of axes that move nothing in memory need no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.fold_transposes import fold_transposes

OP = relax.op


@pytest.mark.parametrize(
    ("shape", "axes", "stays"),
    [
        ((1, 1, 1, 8), [0, 3, 1, 2], False),
        ((2, 1, 8), [1, 0, 2], False),
        ((1, 1), None, False),
        ((1, 2, 8), [0, 2, 1], True),
        ((2, 2), None, True),
    ],
)
def test_only_what_moves_something_stays_a_turn(
    shape: tuple[int, ...], axes: list[int] | None, stays: bool
) -> None:
    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        return OP.permute_dims(x, axes)

    module, _ = module_of(build, shape)
    transposed = fold_transposes(module)
    assert len(calls_of(transposed, "relax.permute_dims")) == stays
    expected = np.transpose(np.empty(shape), axes).shape
    assert tuple(int(n) for n in transposed["main"].ret_ty.shape) == expected


def test_a_turn_and_a_reshape_are_one_view() -> None:
    """As between a global pool with channels last and a dense layer."""

    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        pooled = builder.emit(OP.mean(x, [1, 2], keepdims=True))
        transposed = builder.emit(OP.permute_dims(pooled, [0, 3, 1, 2]))
        flat = builder.emit(OP.reshape(transposed, (1, 8)))
        return OP.matmul(flat, constant(0, 8, 3)[0])

    module, _ = module_of(build, (1, 4, 4, 8))
    assert len(prepare(module, target=Target("llvm")).kernels) == 2


@pytest.mark.parametrize("place", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("axes", "axis", "keepdims", "stays"),
    [
        ([0, 3, 1, 2], 1, False, False),  # channels last, and back
        ([0, 3, 1, 2], -3, True, False),
        ([0, 3, 1, 2], 2, False, True),  # the others change places
        ([0, 2, 1, 3], 3, False, True),
    ],
)
def test_a_place_is_found_along_the_axis_that_was_turned(
    place: str, axes: list[int], axis: int, keepdims: bool, stays: bool
) -> None:
    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        return getattr(OP, place)(builder.emit(OP.permute_dims(x, axes)), axis, keepdims)

    module, signature = module_of(build, (1, 4, 5, 6))
    folded = fold_transposes(module)
    assert len(calls_of(folded, "relax.permute_dims")) == stays
    x = np.random.default_rng(3).standard_normal((1, 4, 5, 6)).astype("float32")
    executor = executor_of(compile_model(folded, signature, target="llvm"), tvm.cpu())
    executor.set_input(0, x)
    executor.run()
    expected = getattr(np, place)(x.transpose(axes), axis, keepdims=keepdims)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)
    assert len(calls_of(fold_transposes(module, places=False), "relax.permute_dims")) == 1
