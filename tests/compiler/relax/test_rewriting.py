"""Values seen through what names, groups and turns them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from support.relax_models import module_of
from tvm_vision.compiler.relax import rewriting
from tvm_vision.compiler.relax.fold_scale_axis import fold_scales
from tvm_vision.compiler.relax.fold_transposes import fold_transposes
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import operator_of
from tvm_vision.compiler.relax.rewriting import constant_of, is_constant, resolve, value_of

NUMBERS = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize("axes", [None, [0, 1, 2], [2, 0, 1], [1, 0, 2]])
@pytest.mark.parametrize("square", [False, True])
def test_a_constant_is_seen_as_it_is_used(axes, square):
    """Of two axes, too, whose turn may be none."""
    numbers = NUMBERS[0] if square else NUMBERS
    axes = [axis for axis in axes if axis < numbers.ndim] if axes else None
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            named = builder.emit(relax.const(numbers))
            transposed = builder.emit(relax.op.permute_dims(named, axes))
            again = builder.emit(transposed)
            other = builder.emit(relax.op.add(x, x))
            out = builder.emit_output(again)
        builder.emit_func_output(out)
    bound = dict(bindings_of(builder.get()["main"]))
    for var in (transposed, again, out):
        np.testing.assert_array_equal(constant_of(var, bound.get), numbers.transpose(axes))
    assert constant_of(x, bound.get) is None and constant_of(other, bound.get) is None
    assert is_constant(out, bound.get)
    assert not is_constant(x, bound.get) and not is_constant(other, bound.get)


def test_names_and_tuples_are_seen_through():
    """Of tuples that are written out; an item of an operator's result stands for itself."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(x, x))
            named = builder.emit(total)
            inner = builder.emit(relax.Tuple([named, relax.const(NUMBERS)]))
            outer = builder.emit(relax.Tuple([inner, x]))
            first = builder.emit(relax.TupleGetItem(outer, 0))
            item = builder.emit(relax.TupleGetItem(first, 0))
            numbers = builder.emit(relax.TupleGetItem(first, 1))
            argument = builder.emit(relax.TupleGetItem(outer, 1))
            halves = builder.emit(relax.op.split(x, 2))
            half = builder.emit(relax.TupleGetItem(halves, 1))
            same = builder.emit(half)
            out = builder.emit_output(same)
        builder.emit_func_output(out)
    look = dict(bindings_of(builder.get()["main"])).get
    assert resolve(item, look).same_as(total) and operator_of(value_of(item, look)) == "relax.add"
    assert resolve(argument, look).same_as(x) and value_of(argument, look).same_as(x)
    np.testing.assert_array_equal(constant_of(numbers, look), NUMBERS)
    assert isinstance(resolve(first, look), relax.Tuple)
    assert resolve(out, look).same_as(half) and constant_of(out, look) is None
    assert isinstance(value_of(out, look), relax.TupleGetItem)


def through_names(builder, value):
    """The same value behind a name, a tuple and a name again."""
    return builder.emit(relax.TupleGetItem(builder.emit(relax.Tuple([builder.emit(value)])), 0))


def as_it_is(_builder, value):
    return value


def turned(builder, value):
    """The same constant with its axes turned, and turned back."""
    axes = list(range(value.ty.ndim))[::-1]
    back = builder.emit(relax.op.permute_dims(value, axes))
    return builder.emit(relax.op.permute_dims(back, axes))


def scaled(see):
    """A convolution with a scale and a shift, whose constants come by ``see``."""

    def build(builder, x):
        random = np.random.default_rng(3)
        weights, scale, shift = (
            see(builder, relax.const(random.uniform(0.5, 2, shape).astype("float32")))
            for shape in ((3, 2, 1, 1), (1, 3, 1, 1), (1, 3, 1, 1))
        )
        sums = builder.emit(relax.op.nn.conv2d(x, weights))
        if see is through_names:
            sums = see(builder, sums)
        return builder.emit(relax.op.add(builder.emit(relax.op.multiply(sums, scale)), shift))

    return build


@pytest.mark.parametrize("see", [as_it_is, through_names, turned])
def test_scales_fold_whatever_names_them(see):
    module, _ = module_of(scaled(see), (1, 2, 4, 4))
    folded = relax.transform.DeadCodeElimination()(fold_scales(module))
    found = [operator_of(value) for _, value in bindings_of(folded["main"])]
    assert [name for name in found if name] == ["relax.nn.conv2d", "relax.add"]


@pytest.mark.parametrize("see", [as_it_is, through_names])
def test_reshapes_meet_whatever_names_them(see):
    def build(builder, x):
        flat = see(builder, builder.emit(relax.op.reshape(x, (12,))))
        return builder.emit(relax.op.reshape(flat, (3, 4)))

    module = tvm.relax.transform.Normalize()(module_of(build, (2, 6))[0])
    found = [operator_of(value) for _, value in bindings_of(fold_transposes(module)["main"])]
    assert [name for name in found if name] == ["relax.reshape"]


# Evaluate everything that there is, or ask whether a variable is bound at all.
OWN_WAYS = {"rewriting.py", "rules.py"}


def test_what_a_variable_is_bound_to_is_looked_up_in_one_file():
    """Passes that look it up by themselves see through names, or turns, or neither."""
    found = set()
    for path in Path(rewriting.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "lookup_binding":
                found.add(path.name)
    assert found <= OWN_WAYS
