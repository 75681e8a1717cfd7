"""Operators on constants, computed at once with numpy.

TVM's own FoldConstant compiles each such operator with LLVM, about 25 ms apiece: for the bounds of
clips and the biases of convolutions of one network that is seconds. What is not in the table here
is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import constant_of

Array = Any

# Relax operator -> function of its constant arguments and the shape of its result.
FOLDS: dict[str, Callable[[Sequence[Array], tuple[int, ...]], Array]] = {
    "relax.isnan": lambda args, shape: np.isnan(args[0]),
    "relax.where": lambda args, shape: np.where(*args),
    "relax.reshape": lambda args, shape: args[0].reshape(shape),
    "relax.expand_dims": lambda args, shape: args[0].reshape(shape),
    "relax.squeeze": lambda args, shape: args[0].reshape(shape),
    "relax.astype": lambda args, shape: args[0],
    "relax.add": lambda args, shape: args[0] + args[1],
    "relax.subtract": lambda args, shape: args[0] - args[1],
    "relax.multiply": lambda args, shape: args[0] * args[1],
    "relax.negative": lambda args, shape: -args[0],
    "relax.sqrt": lambda args, shape: np.sqrt(args[0]),
    "relax.maximum": lambda args, shape: np.maximum(*args),
    "relax.minimum": lambda args, shape: np.minimum(*args),
}


@tvm.transform.module_pass(opt_level=0, name="FoldConstantsWithNumpy")
def fold_constants(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """A pass: operators of FOLDS on constants become constants, in every Relax function."""
    folder = _Folder(mod)
    for name, function in mod.functions_items():
        if isinstance(function, relax.Function):
            folder.builder_.update_func(name, folder.visit_expr(function))
    return folder.builder_.get()


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        fold = FOLDS.get(getattr(call.op, "name", ""))
        if fold is None:
            return call
        tensors = [arg for arg in call.args if not isinstance(arg.ty, relax.ShapeType)]
        values = [constant_of(tensor, self.lookup_binding) for tensor in tensors]
        shape = _fixed_shape(call.ty)
        if shape is None or any(value is None for value in values):
            return call
        result = np.ascontiguousarray(fold(values, shape), dtype=str(call.ty.dtype))
        return relax.const(result.reshape(shape))


def _fixed_shape(tensor_type: Any) -> tuple[int, ...] | None:
    shape = getattr(tensor_type, "shape", None)
    if shape is None:
        return None
    sizes = [getattr(size, "value", None) for size in shape]
    fixed = tuple(int(size) for size in sizes if size is not None)
    return fixed if len(fixed) == len(sizes) else None
