"""Sums between reshapes, with what follows them, in one shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.relax_models import constant, module_of
from support.relax_numpy import run_by_numpy
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.common_shapes import in_common_shapes
from tvm_vision.compiler.relax.operators import fixed_shape

OP = relax.op


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def normalized(b: relax.BlockBuilder, x: Any, axes: list[int]) -> Any:
    """x less its mean, over the root of its variance."""
    d = b.emit(OP.subtract(x, b.emit(OP.mean(x, axes, keepdims=True))))
    v = b.emit(OP.mean(b.emit(OP.multiply(d, d)), axes, keepdims=True))
    return b.emit(OP.divide(d, b.emit(OP.sqrt(b.emit(OP.add(v, relax.const(1e-5)))))))


def grouped(b: relax.BlockBuilder, x: Any, groups: int) -> Any:
    """A group normalization as exporters write it before opset 18, and what makes it again an
    image."""
    shape = fixed_shape(x) or ()
    rows = b.emit(OP.reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups)))
    return b.emit(OP.reshape(normalized(b, rows, [2]), shape))


@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize("batch", [1, 2])
def test_scale_shift_and_activation_are_of_the_shape_of_the_sums(groups: int, batch: int) -> None:
    gain, shift = constant(1, 12, 1, 1)[0], constant(2, 1, 12, 1, 1)[0]

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        norm = grouped(b, b.emit(OP.negative(x)), groups)
        scaled = b.emit(OP.add(b.emit(OP.multiply(norm, gain)), shift))
        return b.emit(OP.negative(b.emit(OP.nn.relu(scaled))))

    module, _ = module_of(network, (batch, 12, 4, 5))
    found = in_common_shapes(module)
    given = image(batch, 12, 4, 5)
    wanted = run_by_numpy(module["main"], given)
    np.testing.assert_allclose(run_by_numpy(found["main"], given), wanted, atol=1e-6)
    (relu,), (mean, _) = calls_of(found, "relax.nn.relu"), calls_of(found, "relax.mean")
    scale = calls_of(found, "relax.multiply")[-1]
    assert len({fixed_shape(each) for each in (relu, mean.args[0], scale)}) == 1


def random_shape(rng: np.random.Generator, size: int) -> list[int]:
    """Extents of so many elements in all."""
    shape: list[int] = []
    while size > 1 and len(shape) < 3:
        shape.append(int(rng.choice([n for n in range(1, size + 1) if size % n == 0])))
        size //= shape[-1]
    return [*shape, size]


@pytest.mark.parametrize("seed", range(80))
def test_whatever_is_summed_and_made_of_it_gives_what_it_gave(seed: int) -> None:
    """Shapes with and without a common one, sums over any axes, operands of any broadcast shape."""
    rng = np.random.default_rng(seed)
    first, second = random_shape(rng, 120), random_shape(rng, 120)
    ones = [OP.exp, OP.nn.relu, OP.negative, lambda x: OP.clip(x, -1, 1)]
    twos = [OP.add, OP.multiply, OP.subtract, OP.maximum]
    sums = [OP.mean, OP.sum, OP.max, OP.min, OP.variance]

    def further(b: relax.BlockBuilder, x: Any, others: list[Any]) -> Any:
        shape = fixed_shape(x) or ()
        if rng.integers(3) == 0:
            return b.emit(ones[rng.integers(4)](b.emit(OP.minimum(x, relax.const(2.0)))))
        kind = rng.integers(3)
        if kind == 0:
            other = constant(seed, *(n if rng.integers(2) else 1 for n in shape))[0]
        elif kind == 1:
            other = relax.const(float(rng.uniform(-1, 1)))
        else:
            other = others[rng.integers(len(others))]
        parts = (x, other) if rng.integers(2) else (other, x)
        return b.emit(twos[rng.integers(4)](*parts))

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        rows = b.emit(OP.reshape(b.emit(OP.negative(x)), second))
        made = [rows]
        for _ in range(int(rng.integers(1, 4))):
            axes = [a for a in range(len(second)) if rng.integers(2)] or [0]
            made.append(b.emit(sums[rng.integers(5)](made[0], axes, keepdims=True)))
            made[0] = further(b, made[0], made)
        back = [b.emit(OP.reshape(made[0], first))]
        for _ in range(int(rng.integers(4))):
            back.append(further(b, back[-1], [x, *back]))
        return [back[-1], b.emit(OP.negative(made[0]))] if rng.integers(2) else back[-1]

    module, _ = module_of(network, first)
    found = in_common_shapes(module)
    given = image(*first)
    before, after = (run_by_numpy(each["main"], given) for each in (module, found))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_what_is_not_reshaped_back_stays() -> None:
    def network(b: relax.BlockBuilder, x: Any) -> Any:
        rows = b.emit(OP.reshape(b.emit(OP.negative(x)), (1, 3, 80)))
        return b.emit(OP.nn.relu(normalized(b, rows, [2])))

    module, _ = module_of(network, (1, 12, 4, 5))
    assert in_common_shapes(module) is module


def test_what_another_branch_made_stays_as_it_is() -> None:
    """A residual is added by the kernel that makes it, or as it lies."""

    def network(b: relax.BlockBuilder, x: Any) -> Any:
        return b.emit(OP.nn.relu(b.emit(OP.add(grouped(b, b.emit(OP.negative(x)), 3), x))))

    module, _ = module_of(network, (1, 12, 4, 5))
    (relu,) = calls_of(in_common_shapes(module), "relax.nn.relu")
    assert fixed_shape(relu) == (1, 12, 4, 5)
