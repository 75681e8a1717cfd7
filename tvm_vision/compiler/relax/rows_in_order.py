"""Products with weights take their rows in the order in which they lie, and are turned after.

A product does not mind the order of its rows. Exporters of torch's MultiheadAttention turn batch
and sequence before one product and back after the next; where rows keep their order, the two turns
meet, and ``join_moves`` has one or none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import Names, constant_of, rewritten, value_of

_RESHAPES = ("relax.reshape", "relax.expand_dims", "relax.squeeze")
_BY_COLUMN = tuple(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide"))


def rows_in_order(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with no turn of rows before a product behind which they are turned again."""
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Rewriter(mod)))


@dataclass(frozen=True)
class _Product:
    """A product of turned rows, and what is computed of it before it is turned again.

    Attributes:
        call: of relax.matmul.
        source: whose axes are turned: ``axes``, of which the first ``rows`` count rows.
        after: what follows it for each column: operators, the place of the constant, its values.
    """

    call: Any
    source: Any
    axes: tuple[int, ...]
    rows: int
    after: tuple[tuple[Any, int, np.ndarray], ...]


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def visit_function_(self, function: relax.Function) -> relax.Expr:
        self._names = Names(function)
        return super().visit_function_(function)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if operator_of(call) == "relax.permute_dims" and call.attrs.axes:
            product = self._product(call.args[0])
            if product is not None:
                turned = self._in_order(call, product)
                if turned is not None:
                    return turned
        return self.visit_expr_post_order(call)

    def _product(self, expr: Any) -> _Product | None:
        after: list[Any] = []
        while True:
            found = value_of(expr, self._names.lookup)
            name = operator_of(found)
            if self._names.uses(expr) != 1:
                return None
            if name == "relax.matmul":
                break
            if name in _RESHAPES:
                expr = found.args[0]
                continue
            if name not in _BY_COLUMN:
                return None
            value, place = None, 2
            while value is None and place:
                place -= 1
                value = constant_of(found.args[place], self._names.lookup)
            shape, last = fixed_shape(found), fixed_shape(found.args[1 - place])
            if value is None or shape is None or shape != last or not _of_columns(value, shape):
                return None
            after.append((found.op, place, value, shape[-1]))
            expr = found.args[1 - place]
        weights, shape = fixed_shape(found.args[1]), fixed_shape(found)
        if weights is None or shape is None or len(weights) != 2 or len(shape) < 2:
            return None
        if constant_of(found.args[1], self._names.lookup) is None:
            return None
        if any(value.size > 1 and last != weights[1] for _, _, value, last in after):
            return None
        turn = value_of(found.args[0], self._names.lookup)
        while operator_of(turn) in _RESHAPES:
            turn = value_of(turn.args[0], self._names.lookup)
        extents = fixed_shape(turn.args[0]) if operator_of(turn) == "relax.permute_dims" else None
        if extents is None or not turn.attrs.axes:
            return None
        axes = tuple(int(axis) for axis in turn.attrs.axes)
        rows = len(axes)
        while math.prod(extents[axis] for axis in axes[rows:]) < weights[0]:
            rows -= 1
        if math.prod(extents[axis] for axis in axes[rows:]) != weights[0]:
            return None
        steps = tuple((op, place, value) for op, place, value, _ in reversed(after))
        return _Product(found, turn.args[0], axes, rows, steps)

    def _in_order(self, turn: relax.Call, product: _Product) -> relax.Expr | None:
        """What a turn of a product's rows gives, by way of the product in order."""
        extents, shape = fixed_shape(product.source), fixed_shape(turn.args[0])
        if extents is None or shape is None:
            return None
        turned = [axis for axis in product.axes[: product.rows] if extents[axis] > 1]
        places = _places(shape, [extents[axis] for axis in turned])
        if turned == sorted(turned) or places is None:
            return None
        emit, op = self.builder_.emit, relax.op
        in_order = [*sorted(product.axes[: product.rows]), *product.axes[product.rows :]]
        tensor = self.visit_expr(product.source)
        if in_order != sorted(in_order):
            tensor = emit(op.permute_dims(tensor, in_order))
        weights = self.visit_expr(product.call.args[1])
        depth, columns = fixed_shape(product.call.args[1]) or (0, 0)
        rows = math.prod(shape) // columns
        tensor = emit(op.reshape(tensor, (rows, depth)))
        tensor = emit(relax.Call(product.call.op, [tensor, weights], product.call.attrs))
        for operator, place, value in product.after:
            by = relax.const(np.ascontiguousarray(value.reshape(-1 if value.size > 1 else ())))
            pair = (by, tensor) if place == 0 else (tensor, by)
            tensor = emit(relax.Call(operator, list(pair)))
        lies, axes = list(shape), list(range(len(shape)))
        for place, axis in zip(places, sorted(turned), strict=True):
            lies[place] = extents[axis]
        for place, axis in zip(places, turned, strict=True):
            axes[place] = places[sorted(turned).index(axis)]
        tensor = emit(op.reshape(tensor, lies))
        both = [axes[int(axis)] for axis in turn.attrs.axes]
        return tensor if both == sorted(both) else op.permute_dims(tensor, both)


def _of_columns(value: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a constant is one number, or one for each place of the last axis."""
    return value.size == 1 or (value.size == shape[-1] == value.shape[-1])


def _places(shape: tuple[int, ...], rows: list[int]) -> list[int] | None:
    """Which axes of a product's shape count rows of those extents, none of which is 1."""
    places: list[int] = []
    for axis, extent in enumerate(shape):
        if len(places) == len(rows):
            break
        if extent == 1:
            continue
        if extent != rows[len(places)]:
            return None
        places.append(axis)
    return places if len(places) == len(rows) else None
