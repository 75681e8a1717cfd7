"""Constants seen through what names and turns them."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.rewriting import constant_of

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
