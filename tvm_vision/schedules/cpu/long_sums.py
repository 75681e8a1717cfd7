"""Sums over many numbers in parts, and the parts' sums: what rounding loses grows with the longest.

One after the other a million numbers of one sign are added to a sum that is a million times as
large, of which float32 has seven digits: the mean of a white image was off by 1 %. The parts are
rows, where there are, and elements of a vector, which are added up side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import prim
from tvm.s_tir import Schedule

# Sums of fewer are as exact as a vector's, and take less time as they are.
MANY = 256
# Parts are of this many at least, where a row has them.
LEAST = 16
FLOATS = ("float32", "float64")
# Results that threads do not share, of which none is worth waking them.
FEW = 8


@dataclass(frozen=True)
class SumLoops:
    """The loops of a block that sums.

    Attributes:
        spatial, reduced: those of its results, those of its terms.
        vector: neighbours of a result in a vector, 1 for none.
        lanes: neighbours of a term in a vector, 1 where vectors would be wrong along them.
    """

    spatial: Sequence[Any]
    reduced: Sequence[Any]
    vector: int
    lanes: int


def is_long(schedule: Schedule, block: Any) -> bool:
    """Whether a block adds up many numbers each of which it reads once, or has the largest or
    least of them for few results, which threads would not share.

    Of products, whose numbers are read for many results, tiles are in registers instead, and signs
    differ.
    """
    found = schedule.get(block)
    terms = [axis for axis in found.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    if math.prod(int(getattr(axis.dom.extent, "value", 0)) for axis in terms) < MANY:
        return False
    store = found.body
    if not isinstance(store, tirx.BufferStore):
        return False
    others = [axis for axis in found.iter_vars if axis.iter_type != tirx.IterVar.CommReduce]
    results = math.prod(int(getattr(axis.dom.extent, "value", 0)) for axis in others)
    kinds = (prim.Add, prim.Max, prim.Min) if results <= FEW else prim.Add
    if not isinstance(store.value, kinds):
        return False
    if str(store.buffer.ty.dtype) not in FLOATS:
        return False
    several = {axis.var for axis in found.iter_vars if getattr(axis.dom.extent, "value", 0) != 1}
    reduced = several.intersection(axis.var for axis in terms)
    loads: list[Any] = []
    tvm_ffi.structural_walk(store.value, (ir.TensorLoad, loads.append))
    used = [_variables(load) & several for load in loads if not load.source.same_as(store.buffer)]
    return bool(used) and all(vars == several or not vars & reduced for vars in used)


def _variables(load: Any) -> set[Any]:
    found: set[Any] = set()
    for index in load.indices:
        tvm_ffi.structural_walk(index, (ir.Var, found.add))
    return found


def schedule_long_sum(schedule: Schedule, block: Any, loops: SumLoops, threads_from: int) -> None:
    """Give a block its parts, and each of them loops. threads_from: operations of a part from which
    threads share it.

    Raises what TVM raises for a block that cannot be taken apart so.
    """
    spatial, terms = list(loops.spatial), list(loops.reduced)
    schedule.reorder(*spatial, *terms)
    vector = []
    if loops.lanes > 1:
        terms[-1], lane = schedule.split(terms[-1], factors=[None, loops.lanes])
        vector = [lane]
    elif loops.vector > 1:
        spatial[-1], lane = schedule.split(spatial[-1], factors=[None, loops.vector])
        vector = [lane]
    rows, together = _rows(schedule, terms)
    schedule.reorder(*spatial, *rows, *together, *vector)
    # Blocks, the place of the first loop over their terms, and whether the last loop is a vector.
    made: list[tuple[Any, int, bool]] = []
    rank = len(schedule.get(block).writes[0].region)
    if loops.lanes > 1:
        added = schedule.rfactor(schedule.get_loops(block)[-1], rank)
        made.append((block, len(spatial), False))
        block = added
    for place in range(len(rows)):
        added = schedule.rfactor(schedule.get_loops(block)[len(spatial) + place], rank + place)
        made.append((block, len(spatial) + place, bool(vector)))
        block = added
    made.append((block, len(spatial) + len(rows), bool(vector)))
    for part_of_sum, first, in_vectors in made:
        _loops(schedule, part_of_sum, first, in_vectors, threads_from)


def _loops(schedule: Schedule, block: Any, first: int, vector: bool, threads_from: int) -> None:
    loops = schedule.get_loops(block)
    operations = math.prod(_extent(schedule, loop) for loop in loops)
    if vector:
        schedule.vectorize(loops[-1])
    # Of a block that is in two TVM takes no loop for one that threads may share.
    if first and operations >= threads_from:
        schedule.parallel(schedule.fuse(*loops[:first]))
    schedule.decompose_reduction(block, loops[first])


def _rows(schedule: Schedule, terms: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The loops over parts, and those within one, which has about as many terms as are allowed: the
    fewer the parts, the less memory their sums take."""
    rows: list[Any] = []
    together: list[Any] = []
    count = 1
    for loop in reversed(terms):
        extent = _extent(schedule, loop)
        inside = 1 if rows else _divisor(extent, MANY // count)
        if not together and inside < min(LEAST, extent):
            inside = MANY  # the last part has fewer
        if inside == extent:
            together.insert(0, loop)
            count *= extent
            continue
        if inside > 1:
            loop, within = schedule.split(loop, factors=[None, inside])
            together.insert(0, within)
        parts = -(-extent // inside)
        if (fewer := _divisor(parts, MANY)) in (1, parts):
            rows.insert(0, loop)
        else:
            rows[:0] = schedule.split(loop, factors=[None, fewer])
    return rows, together


def _divisor(extent: int, most: int) -> int:
    """The largest divisor that is at most ``most``."""
    return next(n for n in range(max(1, min(most, extent)), 0, -1) if extent % n == 0)


def _extent(schedule: Schedule, loop: Any) -> int:
    return int(getattr(schedule.get(loop).extent, "value", 0))
