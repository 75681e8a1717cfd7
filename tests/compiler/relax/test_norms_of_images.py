"""Group normalizations of one group, as PyTorch writes them: along the axes of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.interpreter import run
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.norms_of_images import norms_of_images

OP = relax.op
SHAPE = (2, 6, 5, 4)
ROW = (2, 1, 120)
SCALE = np.linspace(0.5, 2, 6, dtype="float32").reshape(6, 1, 1)


def number(value: float, axes: int = 1) -> Any:
    return relax.const(np.full((1,) * axes, value, "float32"))


def normal(b: relax.BlockBuilder, x: Any) -> tuple[Any, Any]:
    """A row, and itself less its mean over its deviation."""
    row = b.emit(OP.reshape(x, ROW))
    mean, variance = (b.emit(op(row, [2], keepdims=True)) for op in (OP.mean, OP.variance))
    root = b.emit(OP.sqrt(b.emit(OP.add(variance, number(1e-5, 0)))))
    return row, b.emit(OP.divide(b.emit(OP.subtract(row, mean)), root))


def one_group(b: relax.BlockBuilder, x: Any) -> Any:
    _, row = normal(b, x)
    row = b.emit(OP.add(b.emit(OP.multiply(row, number(1.5, 3))), number(0.25)))
    return b.emit(OP.multiply(b.emit(OP.reshape(row, SHAPE)), relax.const(SCALE)))


def read_as_a_row(b: relax.BlockBuilder, x: Any) -> Any:
    """The row and its normalization are results, too."""
    row, found = normal(b, x)
    return [row, found, b.emit(OP.reshape(found, SHAPE))]


def as_another_image(b: relax.BlockBuilder, x: Any) -> Any:
    return b.emit(OP.reshape(normal(b, x)[1], (2, 5, 6, 4)))


def along_other_axes(b: relax.BlockBuilder, x: Any) -> Any:
    """A mean over the images, and one that loses its axis."""
    row, found = normal(b, x)
    means = b.emit(OP.mean(row, [0], keepdims=True))
    lost = b.emit(OP.reshape(b.emit(OP.mean(row, [2])), (2, 1, 1)))
    return b.emit(OP.reshape(b.emit(OP.add(found, b.emit(OP.add(means, lost)))), SHAPE))


def by_places(b: relax.BlockBuilder, x: Any) -> Any:
    """A number for each place of the row."""
    weights = relax.const(np.linspace(-1, 1, 120, dtype="float32"))
    return b.emit(OP.reshape(b.emit(OP.multiply(normal(b, x)[1], weights)), SHAPE))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    "network", [one_group, read_as_a_row, as_another_image, along_other_axes, by_places]
)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_results_are_the_same(network: Callable, target: str) -> None:
    module, signature = module_of(network, SHAPE)
    x = np.random.default_rng(2).uniform(-1, 3, SHAPE).astype("float32")
    results = []
    for each in (module, norms_of_images(module)):
        results.append(run(compile_model(each, signature, target=target, opt_level=0), [x]))
    for found, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_no_reshape_is_left() -> None:
    made = operators_in(norms_of_images(module_of(one_group, SHAPE)[0]))
    assert "reshape" not in made
    assert made.count("variance") == 1


def test_rows_of_which_no_variance_is_asked_stay() -> None:
    def network(b: relax.BlockBuilder, x: Any) -> Any:
        row = b.emit(OP.reshape(x, ROW))
        mean = b.emit(OP.mean(row, [2], keepdims=True))
        return b.emit(OP.reshape(b.emit(OP.subtract(row, mean)), SHAPE))

    module, _ = module_of(network, SHAPE)
    assert norms_of_images(module).same_as(module)


def test_rows_that_become_other_images_stay() -> None:
    """What is computed of those is a part of the row's kernel, but for a reshape between."""
    module, _ = module_of(as_another_image, SHAPE)
    assert norms_of_images(module).same_as(module)
