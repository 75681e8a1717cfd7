"""Reshapes behind products: what follows one is a part of its kernel, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model, prepare
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.sink_reshapes import sink_reshapes

OP = relax.op
SHAPE = (1, 6, 8)
GPU = {"kind": "vulkan", "max_threads_per_block": 256, "max_shared_memory_per_block": 16384}
IMAGE = np.random.default_rng(2).standard_normal(SHAPE).astype("float32")
WEIGHTS, VECTOR, WHOLE = constant(0, 8, 8), constant(1, 8), constant(2, 1, 6, 8)


def product(x: Any) -> Any:
    """[1, 6, 8], by way of two axes."""
    return OP.reshape(OP.matmul(OP.reshape(x, (6, 8)), WEIGHTS[0]), SHAPE)


def residual(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.add(x, b.emit(product(x))))


def two_residuals(b: relax.BlockBuilder, x: Any) -> Any:
    """Of which the second adds to what the first gave: a product on either side."""
    first = b.emit(OP.add(b.emit(product(x)), x))
    return b.emit(OP.add(first, b.emit(product(first))))


def chain(b: relax.BlockBuilder, x: Any) -> Any:
    scaled = b.emit(OP.multiply(b.emit(product(x)), VECTOR[0]))
    return b.emit(OP.nn.relu(b.emit(OP.subtract(relax.const(np.float32(1)), scaled))))


def by_a_tensor(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.multiply(b.emit(product(x)), WHOLE[0]))


def by_rows(b: relax.BlockBuilder, x: Any) -> Any:
    """A value a row, which the product's shape has no axis for."""
    split = b.emit(OP.reshape(OP.matmul(OP.reshape(x, (6, 8)), WEIGHTS[0]), (2, 3, 8)))
    return b.emit(OP.add(split, constant(3, 2, 1, 1)[0]))


def of_rows(x: np.ndarray) -> np.ndarray:
    return (x @ WEIGHTS[1]).reshape(2, 3, 8) + constant(3, 2, 1, 1)[1]


def of_two(x: np.ndarray) -> np.ndarray:
    first = x @ WEIGHTS[1] + x
    return first + first @ WEIGHTS[1]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("network", "expected", "kernels"),
    [
        (residual, lambda x: x + x @ WEIGHTS[1], 1),
        (two_residuals, of_two, 2),
        (chain, lambda x: np.maximum(1 - x @ WEIGHTS[1] * VECTOR[1], 0), 1),
        (by_a_tensor, lambda x: x @ WEIGHTS[1] * WHOLE[1], 1),
        (by_rows, of_rows, 2),
    ],
)
def test_what_follows_a_product_is_a_part_of_its_kernel(
    network: Callable, expected: Callable, kernels: int
) -> None:
    module, signature = module_of(network, SHAPE)
    assert len(prepare(module, target=Target(GPU, host="llvm")).kernels) == kernels
    executor = executor_of(compile_model(module, signature, target="vulkan"))
    executor.run(**{signature.inputs[0].name: IMAGE})
    (found,) = executor.outputs().values()
    np.testing.assert_allclose(found, expected(IMAGE).reshape(found.shape), atol=2e-5)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("place", [0, 5, -1, -6])
def test_one_place_of_an_axis_takes_no_kernel(place: int) -> None:
    """As queries, keys and values are taken out of one product."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        taken = b.emit(OP.take(x, relax.const(np.int64(place)), axis=1))
        return b.emit(OP.add(OP.permute_dims(taken), relax.const(np.float32(1))))

    module, signature = module_of(network, SHAPE)
    assert len(prepare(module, target=Target(GPU, host="llvm")).kernels) == 1
    executor = executor_of(compile_model(module, signature, target="vulkan"))
    executor.run(**{signature.inputs[0].name: IMAGE})
    (found,) = executor.outputs().values()
    np.testing.assert_array_equal(found, IMAGE[:, place].T + np.float32(1))


def test_a_long_chain_without_a_product_takes_no_longer_for_each_step() -> None:
    """Each step reads the one before twice: to follow both anew from every reshape would double."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        for _ in range(60):
            x = b.emit(OP.add(x, b.emit(OP.sigmoid(x))))
        return b.emit(OP.add(b.emit(OP.reshape(x, (6, 8))), b.emit(OP.reshape(x, (6, 8)))))

    module, _ = module_of(network, SHAPE)
    assert len(calls_of(sink_reshapes(module), "relax.add")) == 61


@pytest.mark.parametrize("way", ["reshaped", "direct", "there and back"])
def test_the_latest_product_takes_a_sum_in(way: str) -> None:
    """The other operand is a product's too, reshaped, and has a reader of its own: a residual."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        first = b.emit(OP.matmul(b.emit(OP.reshape(x, (6, 8))), WEIGHTS[0]))
        residual = b.emit(OP.reshape(first, SHAPE))
        if way == "reshaped":
            second = b.emit(product(b.emit(OP.exp(residual))))
        else:
            second = b.emit(OP.matmul(b.emit(OP.exp(residual)), WEIGHTS[0]))
        if way == "there and back":
            there = b.emit(OP.multiply(b.emit(OP.reshape(second, (6, 8))), VECTOR[0]))
            second = b.emit(OP.reshape(there, SHAPE))
        return b.emit(OP.add(residual, second))

    module, _ = module_of(network, SHAPE)
    kernels = prepare(module, target=Target(GPU, host="llvm")).kernels
    inputs = 4 if way == "there and back" else 3
    assert [len(k.inputs) for k in kernels if "add" in k.function] == [inputs]
    assert len(kernels) <= 3
