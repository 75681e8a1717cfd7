"""Turns behind elementwise operators: fewer of them, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import executor_of, first_results
from support.relax_models import constant, module_of
from support.relax_models import operators_in as values_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.sink_turns import sink_turns

OP = relax.op
CHANNELS, HEIGHT, WIDTH = 5, 3, 4
LAST, FIRST = (1, HEIGHT, WIDTH, CHANNELS), (1, CHANNELS, HEIGHT, WIDTH)
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
SCALE = constant(1, CHANNELS, 1, 1)
WHOLE = constant(2, *FIRST)
GATE = np.random.default_rng(3).standard_normal((1, CHANNELS, 1, 1)).astype("float32")
X, Y = (np.random.default_rng(n).standard_normal(LAST).astype("float32") for n in (4, 5))


def first(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.permute_dims(x, TO_FIRST))


def residual(b: relax.BlockBuilder, x: Any, y: Any, _: Any) -> Any:
    """As ConvNeXt ends a block: a scaled product and what came before, for a window with channels
    last."""
    scaled = b.emit(OP.multiply(first(b, x), SCALE[0]))
    return b.emit(OP.permute_dims(b.emit(OP.add(scaled, first(b, y))), TO_LAST))


def tokens(b: relax.BlockBuilder, x: Any, y: Any, _: Any) -> Any:
    """As DaViT adds what a window makes of tokens: one by way of the image that they are, and back
    by two turns."""
    rows = b.emit(OP.reshape(y, (1, HEIGHT * WIDTH, CHANNELS)))
    image = b.emit(OP.reshape(b.emit(OP.permute_dims(rows, (0, 2, 1))), FIRST))
    summed = b.emit(OP.reshape(b.emit(OP.add(first(b, x), image)), (1, CHANNELS, HEIGHT * WIDTH)))
    return b.emit(OP.permute_dims(summed, (0, 2, 1)))


def chain(b: relax.BlockBuilder, x: Any, _: Any, gate: Any) -> Any:
    """One operand is turned, and taken back later; a gate lies the same in both orders."""
    gated = b.emit(OP.multiply(first(b, x), gate))
    shifted = b.emit(OP.add(b.emit(OP.nn.relu(gated)), WHOLE[0]))
    return b.emit(OP.permute_dims(shifted, TO_LAST))


def operators_in(module: Any) -> list[str]:
    return [name for name in values_in(module) if name]


def to_first(x: np.ndarray) -> np.ndarray:
    return x.transpose(TO_FIRST)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (residual, lambda x, y: (to_first(x) * SCALE[1] + to_first(y)).transpose(TO_LAST)),
        (tokens, lambda x, y: x + y),
        (chain, lambda x, _: np.maximum(x * GATE.transpose(TO_LAST), 0) + last(WHOLE[1])),
    ],
)
def test_turns_that_take_each_other_back_are_gone(network: Callable, expected: Callable) -> None:
    module, signature = module_of(network, LAST, LAST, GATE.shape)
    made = sink_turns(module)
    assert "permute_dims" in operators_in(module)
    assert "permute_dims" not in operators_in(made)
    executor = executor_of(compile_model(made, signature, target="vulkan"))
    executor.run(x0=X, x1=Y, x2=GATE)
    (found,) = executor.outputs().values()
    np.testing.assert_allclose(found, expected(X, Y).reshape(found.shape), rtol=1e-5, atol=1e-6)


def last(x: np.ndarray) -> np.ndarray:
    return x.transpose(TO_LAST)


def test_of_two_turns_one_is_left() -> None:
    def network(b: relax.BlockBuilder, x: Any, y: Any) -> Any:
        return b.emit(OP.subtract(first(b, x), first(b, y)))

    made = sink_turns(module_of(network, LAST, LAST)[0])
    assert operators_in(made) == ["subtract", "permute_dims"]


def test_a_turn_to_where_each_axis_is_goes() -> None:
    def network(b: relax.BlockBuilder, x: Any) -> Any:
        return b.emit(OP.nn.relu(b.emit(OP.permute_dims(b.emit(OP.exp(x)), (0, 1, 2, 3)))))

    assert operators_in(sink_turns(module_of(network, LAST)[0])) == ["exp", "nn.relu"]


def alone(b: relax.BlockBuilder, x: Any) -> Any:
    """Turned and never back: behind the operator the turn would be no nearer to anything."""
    return b.emit(OP.nn.relu(first(b, x)))


def elsewhere(b: relax.BlockBuilder, x: Any) -> Any:
    """Turned on, to yet another order."""
    return b.emit(OP.permute_dims(b.emit(OP.nn.relu(first(b, x))), (0, 2, 1, 3)))


def beside_another(b: relax.BlockBuilder, x: Any) -> Any:
    """The other operand lies with channels first and would be turned instead."""
    other = b.emit(OP.reshape(x, FIRST))
    return b.emit(OP.permute_dims(b.emit(OP.add(first(b, x), other)), TO_LAST))


def by_height(b: relax.BlockBuilder, x: Any) -> Any:
    """What is broadcast over channels would be turned itself: it has two axes."""
    rows = b.emit(OP.mean(b.emit(OP.reshape(x, FIRST)), axis=[1], keepdims=True))
    turned = b.emit(OP.permute_dims(x, (0, 3, 2, 1)))
    taken = b.emit(OP.reshape(rows, (1, 1, WIDTH, HEIGHT)))
    return b.emit(OP.permute_dims(b.emit(OP.multiply(turned, taken)), (0, 3, 2, 1)))


def of_a_part(b: relax.BlockBuilder, x: Any) -> Any:
    """The turned tensor is not all that its source has."""
    part = b.emit(OP.strided_slice(x, [1], [0], [2]))
    gated = b.emit(OP.nn.relu(b.emit(OP.permute_dims(part, TO_FIRST))))
    return b.emit(OP.permute_dims(gated, TO_LAST))


def of_one_channel(b: relax.BlockBuilder, x: Any) -> Any:
    """Moves nothing and takes nothing back: whoever pads the channels of an image looks for it."""
    grey = b.emit(OP.mean(x, axis=[3], keepdims=True))
    return b.emit(OP.permute_dims(b.emit(OP.exp(grey)), TO_FIRST))


@pytest.mark.parametrize(
    "network", [of_one_channel, alone, elsewhere, beside_another, by_height, of_a_part]
)
def test_turns_that_would_gain_nothing_stay(network: Callable) -> None:
    module, _ = module_of(network, LAST)
    assert operators_in(sink_turns(module)) == operators_in(module)


def test_a_long_chain_takes_no_longer_for_each_step() -> None:
    def network(b: relax.BlockBuilder, x: Any) -> Any:
        x = first(b, x)
        for _ in range(60):
            x = b.emit(OP.add(x, b.emit(OP.sigmoid(x))))
        return b.emit(OP.permute_dims(x, TO_LAST))

    made = sink_turns(module_of(network, LAST)[0])
    assert operators_in(made) == ["sigmoid", "add"] * 60


TOKENS = (1, 6, 8)
MIX, BACK, BIAS = constant(6, 6, 4), constant(7, 4, 6), constant(8, 4)
ROWS = np.random.default_rng(9).standard_normal(TOKENS).astype("float32")


def turned(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.permute_dims(x, (0, 2, 1)))


def mixer(b: relax.BlockBuilder, x: Any) -> Any:
    """As MLP-Mixer: two products along the tokens, and a residual."""
    mixed = b.emit(OP.nn.gelu(b.emit(OP.add(b.emit(OP.matmul(turned(b, x), MIX[0])), BIAS[0]))))
    return b.emit(OP.add(x, turned(b, b.emit(OP.matmul(mixed, BACK[0])))))


def gate(b: relax.BlockBuilder, x: Any) -> Any:
    """As gMLP: a product along the tokens, which multiplies what it is of."""
    product = b.emit(OP.matmul(turned(b, x), b.emit(OP.matmul(MIX[0], BACK[0]))))
    return b.emit(OP.multiply(x, turned(b, product)))


def one_product(b: relax.BlockBuilder, x: Any) -> Any:
    return turned(b, b.emit(OP.matmul(turned(b, x), MIX[0])))


def not_back(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.matmul(turned(b, x), MIX[0]))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(("network", "left"), [(mixer, 0), (one_product, 0), (gate, 2)])
def test_products_between_two_turns_are_of_turned_weights(network: Callable, left: int) -> None:
    """Constant ones: those of two tensors stay."""
    module, signature = module_of(network, TOKENS)
    made = sink_turns(module)
    assert operators_in(made).count("permute_dims") == left
    found = first_results((made, module), signature, ROWS)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def keys(b: relax.BlockBuilder, x: Any) -> Any:
    """Attention reads keys turned, as its kernels do: what makes them of turned tokens stays."""
    made = b.emit(OP.matmul(turned(b, x), MIX[0]))
    return b.emit(OP.matmul(x, b.emit(OP.matmul(made, turned(b, made)))))


@pytest.mark.parametrize("network", [not_back, keys])
def test_a_product_keeps_its_operand_where_the_turn_stays(network: Callable) -> None:
    module, _ = module_of(network, TOKENS)
    assert operators_in(sink_turns(module)) == operators_in(module)


def normalized(b: relax.BlockBuilder, x: Any) -> Any:
    """As PoolFormer mixes tokens: what a pool takes from a normalization over the whole image."""
    image = first(b, x)
    mean, variance = (b.emit(op(image, [1, 2, 3], True)) for op in (OP.mean, OP.variance))
    normal = b.emit(OP.divide(b.emit(OP.subtract(image, mean)), variance))
    return b.emit(OP.permute_dims(b.emit(OP.subtract(pooled(b, normal), normal)), TO_LAST))


def pooled(b: relax.BlockBuilder, image: Any) -> Any:
    return b.emit(OP.nn.avg_pool2d(image, (3, 3), (1, 1), (1, 1, 1, 1), count_include_pad=False))


def halved(b: relax.BlockBuilder, x: Any) -> Any:
    """Another size behind the pool."""
    half = b.emit(OP.nn.max_pool2d(first(b, x), (2, 1), (1, 2), (0, 1, 1, 0), ceil_mode=True))
    return b.emit(OP.permute_dims(b.emit(OP.nn.relu(half)), TO_LAST))


def gated(b: relax.BlockBuilder, x: Any) -> Any:
    """One number of each channel, with its axes and without."""
    image = first(b, x)
    means = b.emit(OP.mean(image, [2, 3], keepdims=True))
    largest = b.emit(OP.reshape(b.emit(OP.max(image, [-2, -1])), (1, CHANNELS, 1, 1)))
    scaled = b.emit(OP.add(b.emit(OP.multiply(image, means)), largest))
    return b.emit(OP.permute_dims(scaled, TO_LAST))


def of_all(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.sum(first(b, x)))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("network", [normalized, halved, gated, of_all])
def test_pools_and_sums_are_of_what_was_turned(network: Callable) -> None:
    module, signature = module_of(network, LAST)
    made = sink_turns(module)
    assert "permute_dims" in operators_in(module)
    assert "permute_dims" not in operators_in(made)
    found = first_results((made, module), signature, X)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def pool_alone(b: relax.BlockBuilder, x: Any) -> Any:
    return pooled(b, first(b, x))


def columns(b: relax.BlockBuilder, x: Any) -> Any:
    """Channels and columns are left, past each other."""
    return b.emit(OP.mean(first(b, x), [2], keepdims=True))


@pytest.mark.parametrize("network", [pool_alone, columns])
def test_pools_and_sums_that_need_the_turn_keep_it(network: Callable) -> None:
    module, _ = module_of(network, LAST)
    assert operators_in(sink_turns(module)) == operators_in(module)
