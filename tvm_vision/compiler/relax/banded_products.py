"""Products with a constant of which each result reads a few neighbours: sums of those alone.

Images that are shrunk with antialiasing, or resized along several axes, are such products, as are
filter banks over frequencies. From 1080 rows to 384 a result is of 7, and the product of 1080.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from .operators import fixed_shape, operator_of
from .rewriting import constant_like, constant_of, is_constant, rewritten

# Rows and columns of products that are a few multiplications as they are.
LEAST = 64
# A number that is looked up and multiplied alone takes as long as so many of a product by tiles.
WORTH = 16
NAME = "banded_product"


@dataclass(frozen=True)
class Band:
    """Where a matrix (terms, results) has numbers.

    Attributes:
        begins: int32 (results,): the first term of each result.
        factors: (width, results), of the matrix's type: of ``width`` neighbours from there on.
    """

    begins: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Band | None:
        """Of a matrix; None where a result reads too large a part of the terms."""
        terms, results = matrix.shape
        if terms < LEAST or results < 1 or _reach(matrix[:, :1])[1] * WORTH > terms:
            return None
        begins, width = _reach(matrix)
        if width * WORTH > terms:
            return None
        begins = np.minimum(begins, terms - width)
        places = begins + np.arange(width)[:, np.newaxis]
        return cls(begins.astype(np.int32), np.take_along_axis(matrix, places, axis=0))


def _reach(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The first row that is not 0 of each column, and the most rows from there to the last."""
    is_there = matrix != 0
    begins = is_there.argmax(axis=0)
    ends = len(matrix) - is_there[::-1].argmax(axis=0)
    width = np.where(is_there.any(axis=0), ends - begins, 1)
    return begins, int(width.max())


def banded_products(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with sums of neighbours where products multiply by zeros otherwise."""
    return rewritten(mod, _Products(mod))


@relax.expr_functor.mutator
class _Products(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != "relax.matmul":
            return call
        left, right = call.args
        for x, matrix, from_right in ((left, right, True), (right, left, False)):
            shape = fixed_shape(x)
            if shape is None or len(shape) < 2 or not self._may_be(matrix, call):
                continue
            numbers = constant_of(matrix, self.lookup_binding)
            band = None if numbers is None else Band.of(numbers if from_right else numbers.T)
            if band is not None:
                axis = len(shape) - (1 if from_right else 2)
                return self._summed(x, band, axis)
        return call

    def _may_be(self, matrix: Any, product: Any) -> bool:
        shape, dtype = fixed_shape(matrix), str(matrix.ty.dtype)
        plain = shape is not None and len(shape) == 2 and dtype.startswith("float")
        same = dtype == str(product.ty.dtype)
        return plain and same and is_constant(matrix, self.lookup_binding)

    def _summed(self, x: Any, band: Band, axis: int) -> relax.Expr:
        constants = [constant_like(each) for each in (band.begins, band.factors)]
        return self.builder_.emit_te(
            summed_neighbours, x, *constants, axis, primfunc_name_hint=NAME
        )


def summed_neighbours(x: te.Tensor, begins: te.Tensor, factors: te.Tensor, axis: int) -> te.Tensor:
    """Along an axis, sums of neighbours times factors, as ``Band`` has them.

    x: of any shape; begins: int32 (results,); factors: (width, results), of x's type. The result
    is of x's type, with ``results`` along the axis.
    """
    width, results = factors.shape
    term = te.reduce_axis((0, width), "term")
    shape = [*x.shape[:axis], results, *x.shape[axis + 1 :]]

    def value(*at: Any) -> Any:
        result = at[axis]
        place = begins(result).astype(term.var.ty.dtype) + term
        near = x(*at[:axis], place, *at[axis + 1 :])
        return te.sum(near * factors(term, result), axis=term)

    return te.compute(shape, value, name=NAME)
