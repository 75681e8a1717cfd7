"""Small Relax modules for tests of the compiler, and what numpy makes of them."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import operator_of
from tvm_vision.frontend.signature import Signature, TensorSpec


def module_of(build, *shapes, dtype="float32"):
    """IRModule and Signature of main(x0: shapes[0], x1: shapes[1], ...): what ``build(builder,
    *inputs)`` returns, a variable, a constant or a list of them."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(list(shape), dtype)) for i, shape in enumerate(shapes)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = build(builder, *inputs)
            result = relax.Tuple(result) if isinstance(result, list) else result
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    module = builder.get()
    types = module["main"].ret_ty
    fields = list(types.fields) if isinstance(types, relax.TupleType) else [types]
    return module, Signature(
        tuple(_spec(f"x{i}", var.ty) for i, var in enumerate(inputs)),
        tuple(_spec(f"y{i}", field) for i, field in enumerate(fields)),
    )


def operators_in(module):
    """The operators that ``main`` calls, in order, without "relax."; "" for what calls none."""
    values = (value for _, value in bindings_of(module["main"]))
    return [operator_of(value).removeprefix("relax.") for value in values]


def constant(seed, *shape, low=-1.0, high=1.0):
    """A float32 constant and its numpy value."""
    value = np.random.default_rng(seed).uniform(low, high, shape).astype("float32")
    return relax.const(value), value


def _spec(name, tensor_type):
    shape = tuple(int(size.value) for size in tensor_type.shape)
    return TensorSpec(name, shape, str(tensor_type.dtype))
