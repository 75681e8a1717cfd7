"""Queries, keys and values as one product, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.relax_models import module_of
from support.relax_numpy import run_by_numpy
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.join_products import join_products

OP = relax.op
RANDOM = np.random.default_rng(4)
TOKENS, WIDTH, HEADS = 7, 12, 3


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def weights(*shape: int) -> Any:
    """Other ones each time."""
    return relax.const(RANDOM.standard_normal(shape).astype("float32"))


def products(module: Any) -> int:
    return len(calls_of(module, "relax.matmul"))


def linear(b: relax.BlockBuilder, x: Any, columns: int, *, bias: bool = True) -> Any:
    made = b.emit(OP.matmul(x, weights(WIDTH, columns)))
    return b.emit(OP.add(weights(columns), made)) if bias else made


def heads(b: relax.BlockBuilder, x: Any, order: list[int]) -> Any:
    return b.emit(OP.permute_dims(b.emit(OP.reshape(x, [1, TOKENS, HEADS, -1])), order))


def attended(b: relax.BlockBuilder, q: Any, k: Any, v: Any, scale: float = 0.5) -> Any:
    query = b.emit(OP.multiply(heads(b, q, [0, 2, 1, 3]), relax.const(scale)))
    scores = b.emit(OP.matmul(query, heads(b, k, [0, 2, 3, 1])))
    mixed = b.emit(OP.matmul(b.emit(OP.nn.softmax(scores)), heads(b, v, [0, 2, 1, 3])))
    return b.emit(OP.permute_dims(mixed, [0, 2, 1, 3]))


def same(module: Any, *inputs: np.ndarray) -> Any:
    """What ``join_products`` made, which computes the same."""
    made = join_products(module)
    found, expected = (run_by_numpy(m["main"], *inputs) for m in (made, module))
    assert np.allclose(found, expected, atol=1e-5)
    return made


@pytest.mark.parametrize("biases", [(True, True, True), (True, False, True), (False,) * 3])
def test_three_products_of_the_same_rows_are_one(biases):
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        q, k, v = (linear(b, x, WIDTH, bias=bias) for bias in biases)
        return attended(b, q, k, v)

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    made = same(module, image(1, TOKENS, WIDTH))
    assert products(module) == 5
    assert products(made) == 3
    added = len(calls_of(made, "relax.add"))
    assert added == any(biases)


@pytest.mark.parametrize("turned", [False, True])
def test_weights_may_have_names_behind_the_first_product(turned):
    """As those of a network of fp16 have, which are widened each where it is read."""

    def build(b: relax.BlockBuilder, x: Any) -> Any:
        def product() -> Any:
            named = b.emit(weights(WIDTH, WIDTH))
            made = b.emit(OP.matmul(x, b.emit(OP.permute_dims(named)) if turned else named))
            return b.emit(OP.add(made, b.emit(weights(WIDTH))))

        return attended(b, *(product() for _ in range(3)))

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    made = same(module, image(1, TOKENS, WIDTH))
    assert products(made) == 3
    assert len(calls_of(made, "relax.add")) == 1


def test_columns_need_not_be_as_many():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        return attended(b, linear(b, x, 6), linear(b, x, 6), linear(b, x, 24))

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    assert products(same(module, image(1, TOKENS, WIDTH))) == 3


def test_keys_and_values_of_other_rows_are_two_products():
    def build(b: relax.BlockBuilder, x: Any, y: Any) -> Any:
        return attended(b, linear(b, x, WIDTH), linear(b, y, WIDTH), linear(b, y, WIDTH))

    module, _ = module_of(build, (1, TOKENS, WIDTH), (1, TOKENS, WIDTH))
    assert products(same(module, *(image(1, TOKENS, WIDTH),) * 2)) == 4


def test_a_product_that_others_read_besides_its_bias_is_a_part_too():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        bare = linear(b, x, WIDTH, bias=False)
        biased = b.emit(OP.add(bare, weights(WIDTH)))
        return attended(b, biased, bare, linear(b, x, WIDTH))

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    assert products(same(module, image(1, TOKENS, WIDTH))) == 3


def test_what_is_added_along_rows_is_no_bias():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        q, k, v = (
            b.emit(OP.add(b.emit(OP.matmul(x, weights(WIDTH, WIDTH))), weights(TOKENS, WIDTH)))
            for _ in range(3)
        )
        return attended(b, q, k, v)

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    assert products(same(module, image(1, TOKENS, WIDTH))) == 3


def test_a_bias_of_more_axes_than_the_product_has_is_added_behind():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        q, k, v = (
            b.emit(OP.add(b.emit(OP.matmul(x, weights(WIDTH, WIDTH))), weights(1, 1, 1, WIDTH)))
            for _ in range(3)
        )
        return attended(b, q, k, v)

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    assert products(same(module, image(1, TOKENS, WIDTH))) == 3


def test_products_that_no_scores_are_made_of_stay():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        gate = b.emit(OP.nn.silu(linear(b, x, WIDTH)))
        return b.emit(OP.multiply(gate, linear(b, x, WIDTH)))

    module, _ = module_of(build, (1, TOKENS, WIDTH))
    assert join_products(module) is module
