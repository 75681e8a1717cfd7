"""Products of one tensor that attention reads, as one product.

Queries, keys and values are three products of the same rows in most exports, each of few numbers
for a GPU. Beside each other their weights are one product of three times as many columns, and
attention, or what turns axes for it, reads its part where it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import fixed_shape, operator_of
from .rewriting import (
    Names,
    bind,
    constant_like,
    constant_of,
    is_constant,
    is_of_two_tensors,
    resolve,
    rewritten,
)

# What lies between a product and the scores that it is for: moves, scales, positions that are
# turned into queries and keys (Su et al. 2021, RoFormer).
_BETWEEN = frozenset(
    {"relax.add", "relax.concat", "relax.divide", "relax.expand_dims", "relax.multiply"}
    | {"relax.negative", "relax.nn.layer_norm", "relax.nn.softmax", "relax.permute_dims"}
    | {"relax.reshape", "relax.squeeze", "relax.strided_slice", "relax.subtract"}
)
_FAR = 24  # operators between a product and the scores, at most


def join_products(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with such products of weights behind each other, and its parts in their places."""
    groups = _groups(mod["main"])
    if not groups:
        return mod
    rewriter = _Rewriter(mod)
    rewriter.groups = {part.end: group for group in groups for part in group}
    return relax.transform.DeadCodeElimination()(rewritten(mod, rewriter))


@dataclass(frozen=True, eq=False)
class _Product:
    """A product by constant weights of two axes.

    Attributes:
        call: what is multiplied, and by what.
        weights: of it, which may have a name behind the first product of a group.
        end: the variable of the product, or of it and its bias.
        bias: what is added to each row; None where nothing is.
    """

    call: Any
    weights: np.ndarray
    end: Any
    bias: np.ndarray | None


def _groups(main: relax.Function) -> list[list[_Product]]:
    names, bound = Names(main), list(bindings_of(main))
    readers: dict[Any, list[tuple[Any, Any]]] = {}
    for var, value in bound:
        for used in relax.analysis.free_vars(value) if isinstance(value, relax.Call) else ():
            readers.setdefault(resolve(used, names.lookup), []).append((var, value))
    found: dict[Any, list[_Product]] = {}
    for var, value in bound:
        if operator_of(value) != "relax.matmul" or str(value.ty.dtype) != "float32":
            continue
        weights = constant_of(value.args[1], names.lookup)
        if weights is None or weights.ndim != 2 or fixed_shape(value) is None:
            continue
        product = _product(var, value, weights, names, readers)
        if _is_attended(product.end, readers, names):
            found.setdefault(resolve(value.args[0], names.lookup), []).append(product)
    return [group for group in found.values() if len(group) > 1]


def _product(var: Any, call: Any, weights: np.ndarray, names: Names, readers: Any) -> _Product:
    """A product with its bias, where that is all that reads it."""
    behind, whole = readers.get(var, []), fixed_shape(call) or ()
    if len(behind) == 1 and names.uses(var) == 1 and operator_of(behind[0][1]) == "relax.add":
        end, added = behind[0]
        for other in added.args:
            shape = fixed_shape(other)
            alone = shape is not None and (*[1] * (len(shape) - 1), *whole[-1:]) == shape
            # A bias of more axes than the product has would give it more.
            if alone and fixed_shape(added) == whole and is_constant(other, names.lookup):
                bias = constant_of(other, names.lookup)
                return _Product(call, weights, end, None if bias is None else bias.reshape(-1))
    return _Product(call, weights, var, None)


def _is_attended(var: Any, readers: Any, names: Names) -> bool:
    """Whether what is made of a tensor is multiplied by another that is computed."""
    return any(is_of_two_tensors(call, names.lookup) for call in _followers(var, readers))


def _followers(var: Any, readers: Any) -> Iterator[Any]:
    """The calls behind a tensor, seen through what only moves and scales."""
    left, seen = [(var, 0)], set()
    while left:
        tensor, steps = left.pop()
        for reader, call in readers.get(tensor, ()):
            if reader in seen:
                continue
            seen.add(reader)
            yield call
            if operator_of(call) in _BETWEEN and steps < _FAR:
                left.append((reader, steps + 1))


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    groups: dict[Any, list[_Product]]

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._joined: dict[int, Any] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        group = self.groups.get(binding.var)
        if group is None:
            super().visit_var_binding_(binding)
            return
        whole = self._whole(group)
        begin = 0
        for product in group:
            end = begin + self._columns(product)
            if product.end.same_as(binding.var):
                break
            begin = end
        axis = len(fixed_shape(whole) or ()) - 1
        bind(self, binding.var, relax.op.strided_slice(whole, [axis], [begin], [end]))

    def _whole(self, group: list[_Product]) -> Any:
        """The product of all of a group, made where the first is."""
        if id(group) not in self._joined:
            weights = np.concatenate([part.weights for part in group], axis=1)
            name = str(group[0].end.name)
            source = self.visit_expr(group[0].call.args[0])
            made = relax.op.matmul(source, constant_like(weights))
            if any(part.bias is not None for part in group):
                biases = [
                    np.zeros(self._columns(part), np.float32) if part.bias is None else part.bias
                    for part in group
                ]
                made = relax.op.add(self.builder_.emit(made), constant_like(np.concatenate(biases)))
            self._joined[id(group)] = self.builder_.emit(made, name)
        return self._joined[id(group)]

    @staticmethod
    def _columns(product: _Product) -> int:
        return (fixed_shape(product.call) or ())[-1]
