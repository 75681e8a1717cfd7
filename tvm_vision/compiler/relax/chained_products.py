"""Products of one row that follow each other, as one kernel.

The gates of squeeze-excite are two products of one row, the first of which makes few numbers; the
policies of robots are three or four. Each takes microseconds, and as kernels of their own all wait
for the whole of the one before. As one kernel a workgroup computes all but the last product again
for itself, which pays where the weights of these are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_vision.schedules.common import constant_integer
from tvm_vision.schedules.gpu.chain import RowProduct

from .join_calls import Calls, Group, join_calls
from .kernel_calls import INJECTIVE, MOST_CALLS, OUT_FUSABLE
from .node_names import Nodes
from .operators import elements_of

_NAME = "chained_products"
REDUCED = tirx.IterVar.CommReduce


def join_chains(
    mod: tvm.IRModule,
    most_tensors: int,
    worth: Callable[[list[RowProduct]], bool],
    fits: Callable[[tirx.PrimFunc], bool],
) -> tuple[tvm.IRModule, Nodes]:
    """``main`` with such products, and what is between them, as one call each, and the nodes of the
    model in each of these.

    Args:
        most_tensors: that a kernel may read and write.
        worth: whether products, in order, are sooner done as one kernel.
        fits: whether there is a schedule for a function; what has none stays as it is.
    """
    calls = _Calls(mod)
    taken: set[Any] = set()
    found: list[Group] = []
    for var, _ in calls.bound:
        if var in taken:
            continue
        if chain := calls.chain(var, most_tensors, worth):
            taken |= chain
            found.append(calls.group(chain))
    return join_calls(mod, calls, found, _NAME, fits)


class _Calls(Calls):
    """The calls of ``main``, and which of them are products of one row."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._products = {
            gv: row_product(f) for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)
        }

    def chain(
        self, first: Any, most_tensors: int, worth: Callable[[list[RowProduct]], bool]
    ) -> set[Any]:
        """The calls from a product on to the last one that may be of its kernel; none where that is
        the first."""
        product = self._product(first)
        products = [] if product is None else [product]
        group, wider, last = {first}, {first}, first
        while products:
            following = self._following(last, products[-1].results)
            if following is None:
                break
            between, last, product = following
            wider = {*wider, *between, last}
            products.append(product)
            if len(wider) > MOST_CALLS or self.tensors(wider) > most_tensors:
                break
            if self.cancel(wider):
                break
            if worth(products):
                group = wider
        return group if len(group) > 1 else set()

    def _product(self, var: Any) -> RowProduct | None:
        of_row = self.patterns[var] == OUT_FUSABLE
        return self._products[self.of[var].args[0]] if of_row else None

    def _following(self, var: Any, results: int) -> tuple[set[Any], Any, RowProduct] | None:
        """What is made of a product element by element, and the only product that reads it in
        turn; None where anything else reads some of it, too."""
        made = {var}
        ends: set[Any] = set()
        for other, _ in self.bound[self.order[var] + 1 :]:
            if not made.isdisjoint(self.sources[other]):
                if self.patterns[other] <= INJECTIVE and elements_of(other) == results:
                    made.add(other)
                else:
                    ends.add(other)
            if len(ends) > 1 or len(made) > MOST_CALLS:
                return None
        if len(ends) != 1 or any(not self.readers[each] <= made | ends for each in made):
            return None
        end = ends.pop()
        product = self._product(end)
        read = [source for source in self.sources[end] if source in made]
        if product is None or product.terms != results or len(read) != 1:
            return None
        # The row, not the matrix, where both have as many elements.
        row = self.of[end].args[1].fields[0]
        return (made - {var}, end, product) if row.same_as(read[0]) else None


def row_product(function: tirx.PrimFunc) -> RowProduct | None:
    """The product of a row, the function's first tensor, with a matrix, the second, that a function
    computes; None for others. A convolution of one pixel over an image of one is such a product."""
    sizes = [_size(getattr(param.ty, "shape", None)) for param in function.params]
    if len(sizes) != 3:
        return None
    row, matrix, results = sizes
    found: list[tuple[int | None, int | None]] = []

    def see(block: Any) -> None:
        if any(axis.iter_type == REDUCED for axis in block.iter_vars):
            found.append((_extent(block, tirx.IterVar.DataPar), _extent(block, REDUCED)))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, see))
    if row is None or results is None or found != [(results, row)] or matrix != row * results:
        return None
    # One result would be every thread's, and has the whole device as a sum of its own.
    last = [n for n in map(constant_integer, function.params[1].ty.shape) if n != 1][-1:]
    return RowProduct(row, results, last == [results]) if results > 1 else None


def _extent(block: Any, kind: int) -> int | None:
    """Of all axes of a kind together; None where one is open."""
    return _size([axis.dom.extent for axis in block.iter_vars if axis.iter_type == kind])


def _size(extents: Any) -> int | None:
    """The product of extents; None where one is open, or there are none to speak of."""
    numbers = [None] if extents is None else [constant_integer(extent) for extent in extents]
    known = [number for number in numbers if number is not None]
    return math.prod(known) if len(known) == len(numbers) else None
