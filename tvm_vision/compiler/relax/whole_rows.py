"""Normalizations that a network writes out, as one kernel each.

A mean, what differs from it, the mean of its squares, a root, a quotient: exporters before opset 17
write layer normalization so, others those that ONNX has no operator for (by the root of the mean of
squares alone, over channels that come first, by E[x²] - E[x]²). FuseOps takes what is done element
by element into the sum before it, and nothing larger than the sum: that leaves five kernels, which
read or write the whole tensor each. Here sums over the same rows, and what is made of them and of
the rows element by element, become one function: a workgroup goes through a row once for each sum
and once for the results, and has it in its cache.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_vision.schedules.common import constant_integer

from .join_calls import Calls, Group, join_calls
from .kernel_calls import BROADCAST, INJECTIVE, MOST_CALLS
from .node_names import Nodes
from .operators import fixed_shape, without_ones

Shape = tuple[int, ...]
_NAME = "whole_rows"
# Of a call in a kernel, in the mean. Rows that go on from what the step before made of them, many
# times (loops that are written out), would be inlined twice by each step: 2 to the power of them.
MOST_COPIES = 4


@dataclass(frozen=True)
class Rows:
    """Rows of a tensor: its shape, and that of a sum over each that keeps the axes as 1."""

    whole: Shape
    of_sum: Shape

    @property
    def terms(self) -> int:
        """Of a sum."""
        return math.prod(self.whole) // math.prod(self.of_sum)

    @property
    def count(self) -> int:
        """Rows."""
        return math.prod(self.of_sum)

    @property
    def stretch(self) -> int:
        """Elements of a row that lie one behind the other, before one of another row."""
        found = 1
        for one, many in zip(reversed(self.of_sum), reversed(self.whole), strict=True):
            if one == many > 1:
                break
            found *= many
        return found


def join_rows(
    mod: tvm.IRModule,
    most_tensors: int,
    worth: Callable[[Rows], bool],
    fits: Callable[[tirx.PrimFunc], bool],
) -> tuple[tvm.IRModule, Nodes]:
    """``main`` with such calls as one, and the nodes of the model in each of these.

    Args:
        most_tensors: that a kernel may read and write.
        worth: whether rows are worth it.
        fits: whether there is a schedule for a function; what has none stays as it is.
    """
    calls = _Calls(mod)
    return join_calls(mod, calls, _groups(calls, most_tensors, worth), _NAME, fits)


class _Calls(Calls):
    """The calls of ``main``, and which sum over rows."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._sums = {
            gv: summed(f) for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)
        }

    def sums(self, var: Any) -> Rows | None:
        """The rows that a call sums over."""
        return self._sums[self.of[var].args[0]]

    def belongs(self, var: Any, rows: Rows) -> bool:
        """Whether a call sums over such rows, or makes one element of each of theirs."""
        if var not in self.of:
            return False
        pattern, shape = self.patterns[var], fixed_shape(var)
        if pattern <= BROADCAST and shape == rows.whole:
            return True
        # Sums that lost their axes get them back by a reshape.
        if pattern <= INJECTIVE and shape is not None:
            return without_ones(shape) == without_ones(rows.of_sum)
        return self.sums(var) == rows

    def again(self, group: Collection[Any]) -> bool:
        """Whether what a sum reads, or what that is made of in a group, is read there once more,
        from the cache then. Where it is not, the sum takes in what makes it, and what comes behind
        takes in what it reads beside: a kernel of both would have neither."""
        return any(
            used in group or len(self.readers[used].intersection(group)) > 1
            for var in group
            if self.sums(var)
            for used in self.sources[var]
        )

    def copies(self, group: Collection[Any]) -> int:
        """The calls that a kernel of a group has once each is inlined into all that read it. Sums
        and results are stored, and computed once."""
        times: dict[Any, int] = {}
        for var in sorted(group, key=self.order.__getitem__, reverse=True):
            readers = self.readers[var]
            times[var] = 1
            if self.sums(var) is None and readers.issubset(group):
                times[var] = sum(times[reader] * self._reads(reader, var) for reader in readers)
        return sum(times.values())

    def _reads(self, reader: Any, var: Any) -> int:
        return sum(bool(each.same_as(var)) for each in self.of[reader].args[1].fields)


def _groups(calls: _Calls, most_tensors: int, worth: Callable[[Rows], bool]) -> list[Group]:
    """The calls that become one each."""
    taken: set[Any] = set()
    found: list[Group] = []
    for var, _ in calls.bound:
        rows = calls.sums(var)
        if rows is None or var in taken or not worth(rows):
            continue
        for last in reversed(_behind(calls, var, rows, taken)):
            if fixed_shape(last) != rows.whole:
                continue
            group = _ending_with(calls, last, rows, taken)
            small = calls.tensors(group) <= most_tensors
            small = small and calls.copies(group) <= MOST_COPIES * len(group)
            if var in group and small and calls.again(group) and not calls.cancel(group):
                found.append(calls.group(group))
                taken |= group
                break
    return found


def _behind(calls: _Calls, first: Any, rows: Rows, taken: Collection[Any]) -> list[Any]:
    """A sum and what is made of it and of what is made of it, in order, as far as a kernel goes."""
    found = {first: None}
    for var, _ in calls.bound[calls.order[first] + 1 :]:
        if len(found) == MOST_CALLS:
            break
        if any(used in found for used in calls.sources[var]):
            if var not in taken and calls.belongs(var, rows):
                found[var] = None
    return list(found)


def _ending_with(calls: _Calls, last: Any, rows: Rows, taken: Collection[Any]) -> set[Any]:
    """The calls that a last one is made of and nothing else is, it included; the nearest where
    there are more than a kernel has.

    What is computed before any sum is left to the kernel before it, unless the rows that it is made
    of are read in the group anyway: a workgroup would do it again for each sum.
    """
    group: set[Any] = set()
    nearest = [-calls.order[last]]  # who reads a result comes before whom it is of
    while nearest and len(group) < MOST_CALLS:
        var, _ = calls.bound[-heapq.heappop(nearest)]
        if var in group or not (var is last or calls.readers[var] <= group):
            continue
        group.add(var)
        for used in calls.sources[var]:
            if used not in taken and calls.belongs(used, rows):
                heapq.heappush(nearest, -calls.order[used])
    made: set[Any] = set()
    for var in sorted(group, key=calls.order.__getitem__):
        if calls.sums(var) or not made.isdisjoint(calls.sources[var]):
            made.add(var)
    while True:
        before = {
            var
            for var in group - made
            if any(_alone(calls, var, used, group) for used in calls.sources[var])
            or not calls.readers[var] <= group
        }
        if not before:
            return group
        group -= before


def _alone(calls: _Calls, var: Any, used: Any, group: Collection[Any]) -> bool:
    """Whether nothing else in a group reads what a call reads."""
    return used not in group and calls.readers[used].intersection(group) == {var}


def summed(function: tirx.PrimFunc) -> Rows | None:
    """The rows that a function of one tensor sums over, or takes the largest of; None for others.

    What it sums is seen by the places of what its reductions read: a pool over windows as large as
    the image is such a sum, too.
    """
    shapes = [shape for param in function.params if (shape := _shape(param.ty)) is not None]
    if len(shapes) != 2 or len(function.params) != 2:
        return None
    whole, result = shapes
    found: set[Shape | None] = set()

    def see(block: Any) -> None:
        if any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars):
            found.add(_of_sums(block, whole))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, see))
    if len(found) != 1:
        return None
    of_sum = found.pop()
    kept = of_sum is not None and of_sum != whole and without_ones(result) == without_ones(of_sum)
    return Rows(whole, of_sum) if of_sum is not None and kept else None


def _of_sums(block: Any, whole: Shape) -> Shape | None:
    """The shape of what a reduction leaves of a tensor, its axes kept; None where it does not read
    each element at the place that its own axes say."""
    found: set[Shape | None] = set()

    def left_of(index: Any, extent: int) -> int | None:
        for axis in block.iter_vars:
            if axis.var.same_as(index) and constant_integer(axis.dom.extent) == extent:
                return 1 if axis.iter_type == tirx.IterVar.CommReduce else extent
        return 1 if extent == 1 else None

    def see(load: Any) -> None:
        if _shape(load.source.ty) == whole:
            left = [left_of(*pair) for pair in zip(load.indices, whole, strict=True)]
            kept = tuple(extent for extent in left if extent is not None)
            found.add(kept if len(kept) == len(whole) else None)

    tvm_ffi.structural_walk(block.body, (ir.TensorLoad, see))
    return found.pop() if len(found) == 1 else None


def _shape(of: Any) -> Shape | None:
    """Of the type of a function's tensor; None for anything else, and where a size is open."""
    extents = [constant_integer(extent) for extent in getattr(of, "shape", None) or ()]
    known = hasattr(of, "shape") and None not in extents
    return tuple(extent for extent in extents if extent is not None) if known else None
