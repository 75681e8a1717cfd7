"""Operators that give what they are given are left out, wherever they stand, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.compiled import executor_of
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.drop_identities import drop_identities

OP = relax.op
SHAPE = (2, 6, 1, 8)
FAR = 2**31 - 1
Build = Callable[[Any], Any]


def sliced(axes: list[int], begin: list[int], end: list[int], *steps: list[int]) -> Build:
    return lambda x: OP.strided_slice(x, axes, begin, end, *steps)


def pooled(kind: str, size: int, stride: int = 1, pad: int = 0) -> Build:
    pool = getattr(OP.nn, f"{kind}_pool2d")
    return lambda x: pool(x, (size, size), (stride, stride), (pad,) * 4)


def taken(places: list[int], axis: int = 1) -> Build:
    return lambda x: OP.take(x, relax.const(np.array(places, "int64")), axis)


def summed(name: str) -> Build:
    return lambda x: getattr(OP, name)(x, [2], keepdims=True)


# Of a tensor of SHAPE.
SAME: dict[str, Build] = {
    "reshape": lambda x: OP.reshape(x, SHAPE),
    "broadcast_to": lambda x: OP.broadcast_to(x, SHAPE),
    "tile": lambda x: OP.tile(x, [1, 1, 1, 1]),
    "repeat": lambda x: OP.repeat(x, 1, 1),
    "astype": lambda x: OP.astype(x, "float32"),
    "permute_dims": lambda x: OP.permute_dims(x, [0, 1, 2, 3]),
    "pad": lambda x: OP.nn.pad(x, [0] * 8),
    "concat": lambda x: OP.concat([x], 1),
    "slice of an axis": sliced([1], [0], [6]),
    "slice of all": sliced([0, 1, 2, 3], [0, 0, 0, 0], [2, 6, 1, 8]),
    "slice to the end": sliced([1, 3], [0, 0], [FAR, FAR]),
    "slice from behind": sliced([1], [-6], [FAR], [1]),
    "slice of one, backwards": sliced([2], [-1], [-FAR], [-1]),
    "slice of one, by leaps": sliced([2], [0], [FAR], [3]),
    "largest of a pixel": pooled("max", 1),
    "mean of a pixel": pooled("avg", 1),
    "flip of one": lambda x: OP.flip(x, 2),
    "running sum of one": lambda x: OP.cumsum(x, 2),
    "running product of one": lambda x: OP.cumprod(x, 2),
    "every place": taken(list(range(6))),
    **{f"{name} of one": summed(name) for name in ("sum", "mean", "max", "min", "prod")},
}
RESHAPED: dict[str, Build] = {
    "sum": lambda x: OP.sum(x, [2]),
    "mean": lambda x: OP.mean(x, [-2]),
    "slice to the end": lambda x: OP.squeeze(sliced([1], [0], [6])(x), [2]),
}
OTHER: dict[str, Build] = {
    "another shape": lambda x: OP.reshape(x, (2, 48)),
    "twice": lambda x: OP.tile(x, [2, 1, 1, 1]),
    "each twice": lambda x: OP.repeat(x, 2, 1),
    "another type": lambda x: OP.astype(x, "float16"),
    "turned": lambda x: OP.permute_dims(OP.reshape(x, (2, 6, 8, 1)), [0, 2, 1, 3]),
    "turned, of one shape": lambda x: OP.permute_dims(OP.reshape(x, (4, 4, 6)), [1, 0, 2]),
    "padded": lambda x: OP.nn.pad(x, [0, 0, 0, 0, 0, 0, 1, 1]),
    "of two": lambda x: OP.concat([x, x], 1),
    "a part": sliced([1], [0], [5]),
    "backwards": sliced([3], [-1], [-FAR], [-1]),
    "by leaps": sliced([3], [0], [8], [2]),
    "a window": pooled("max", 3, 1, 1),
    "every other pixel": pooled("avg", 1, 2),
    "flip": lambda x: OP.flip(x, 3),
    "running sum": lambda x: OP.cumsum(x, 3),
    "running sum of those before": lambda x: OP.cumsum(x, 2, exclusive=True),
    "places in another order": taken([1, 0, 2, 3, 4, 5]),
    "as many places": taken([0, 1, 2, 3, 4, 4]),
    "sum": lambda x: OP.sum(x, [3], keepdims=True),
}


def between(build: Build) -> Any:
    """A module with the operator between two others."""
    return module_of(lambda b, x: b.emit(OP.exp(b.emit(build(b.emit(OP.negative(x)))))), SHAPE)


def left(module: Any) -> list[str]:
    return [name for name in operators_in(module) if name]


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_is_left_out(name):
    module, _ = between(SAME[name])
    assert left(drop_identities(module)) == ["negative", "exp"]


@pytest.mark.parametrize("name", RESHAPED)
def test_of_what_changes_the_shape_alone_a_reshape_is_left(name):
    module, _ = between(RESHAPED[name])
    (first, middle, last) = left(drop_identities(module))
    assert (first, last) == ("negative", "exp") and middle in ("reshape", "squeeze")


@pytest.mark.parametrize("name", OTHER)
def test_what_changes_something_stays(name):
    module, _ = between(OTHER[name])
    assert left(drop_identities(module)) == left(module)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("name", ["slice of an axis", "mean of a pixel", "sum of one", "concat"])
def test_inputs_outputs_and_constants_may_be_what_is_given(name, target):
    """A network of nothing but such operators; one at each end, twice the same result."""
    build, x = SAME[name], np.random.default_rng(3).standard_normal(SHAPE).astype("float32")

    def ends(b: relax.BlockBuilder, given: Any) -> list[Any]:
        first = b.emit(build(given))
        middle = b.emit(OP.negative(b.emit(build(first))))
        constant = b.emit(build(relax.const(np.ones(SHAPE, "float32"))))
        return [first, b.emit(build(middle)), middle, constant]

    def outputs(of: Any) -> Any:
        made = compile_model(*module_of(of, SHAPE), target=target)
        executor = executor_of(made, tvm.cpu() if target == "llvm" else None)
        executor.run(x0=x)
        return executor.outputs().values()

    (alone,) = outputs(lambda b, given: b.emit(build(given)))
    np.testing.assert_array_equal(alone, x)
    found = outputs(ends)
    for result, expected in zip(found, (x, -x, -x, np.ones(SHAPE)), strict=True):
        np.testing.assert_array_equal(result, expected)
