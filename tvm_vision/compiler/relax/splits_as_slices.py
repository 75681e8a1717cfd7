"""Parts of a tensor that are read where they lie, instead of being copied apart.

A split is a kernel that copies everything. Whoever computes element by element, or a convolution or
product, can read a slice as it lies: FuseOps and ``graph/fuse_data_movement.py`` make the slice a
part of that. A split stays where a part has readers that cannot share one, for which it would be
copied alone, and where its parts are contiguous: those are views.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import ELEMENTWISE_OPERATORS, fixed_shape, operator_of
from .rewriting import rebind, resolve, rewritten

_OF_OPERAND = {"relax.nn.conv2d", "relax.matmul", "relax.concat"}


def splits_as_slices(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with slices in place of splits all of whose parts have a reader that takes them."""
    parts = _parts_to_slice(mod["main"])
    if not parts:
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Slices(mod, parts)))


def _parts_to_slice(function: relax.Function) -> dict[Any, tuple[Any, int]]:
    """The variables that are parts of such splits: of which split, and which of its parts."""
    bound = list(bindings_of(function))
    splits = {var: call for var, call in bound if _is_strided_split(call)}
    parts = {
        var: (splits[item.tuple_value], int(item.index))
        for var, item in bound
        if isinstance(item, relax.TupleGetItem) and item.tuple_value in splits
    }
    readers: dict[Any, list[Any]] = {}
    lookup = dict(bound).get
    for name, value in (*bound, (None, function.body.body)):
        # What is another name for a variable reads nothing; the result does.
        if value is not None and (name is None or not isinstance(value, relax.Var)):
            for var in relax.analysis.free_vars(value):
                readers.setdefault(resolve(var, lookup), []).append(value)
    kept = {
        split
        for split in splits
        for reader in readers.get(split, ())
        if not isinstance(reader, relax.TupleGetItem)
    }
    kept |= {
        item.tuple_value
        for var, item in bound
        if var in parts and not _is_taken(var, readers.get(var, []))
    }
    return {var: parts[var] for var, item in bound if var in parts and item.tuple_value not in kept}


def _is_strided_split(call: Any) -> bool:
    """Whether a call splits a tensor whose parts lie in several pieces each."""
    shape = fixed_shape(call.args[0]) if operator_of(call) == "relax.split" else None
    return shape is not None and math.prod(shape[: int(call.attrs.axis) % len(shape)]) > 1


def _is_taken(part: Any, readers: list[Any]) -> bool:
    """Whether a part is read within what its readers compute: one by itself, or several that are
    one kernel, as those of an activation that is written out."""
    if not all(isinstance(reader, relax.Call) for reader in readers):
        return False
    if all(operator_of(reader) in ELEMENTWISE_OPERATORS for reader in readers):
        return all(fixed_shape(reader) == fixed_shape(part) for reader in readers)
    (reader, *others) = readers
    return not others and operator_of(reader) in _OF_OPERAND


@relax.expr_functor.mutator
class _Slices(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, parts: dict[Any, tuple[Any, int]]) -> None:
        super().__init__(mod)
        self._parts = parts

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self._parts:
            super().visit_var_binding_(binding)
            return
        split, place = self._parts[binding.var]
        axis = int(split.attrs.axis) % len(fixed_shape(split.args[0]) or ())
        sizes = [int(field.shape[axis]) for field in split.ty.fields]
        begin = sum(sizes[:place])
        source = self.visit_expr(split.args[0])
        taken = relax.op.strided_slice(source, [axis], [begin], [begin + sizes[place]])
        rebind(self, binding.var, taken)
