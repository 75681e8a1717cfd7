"""Operands in vectors: neighbours that can be fetched at once, and blocks rewritten for that.

Where an operand's place in memory follows from its indices by divisions (a convolution's do), TVM
no longer sees that neighbours lie together once loops have taken the place of the indices. It does
while they are still variables of a block.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule

from ..common import NotThisKind, index_map, up
from ..iter_maps import transform_block_layout

_DIVISIONS = (prim.FloorDiv, prim.FloorMod)
_CONDITIONS = (prim.LT, prim.LE, prim.GT, prim.GE)


LEAST = 4  # elements of a vector that is worth its own load


def widths(most: int) -> list[int]:
    """Lanes of vectors to try, from ``most`` down by halves, to above those of LEAST."""
    found = []
    while most > LEAST:
        found.append(most)
        most //= 2
    return found


def last_written(body: Any) -> tuple[int, int]:
    """Which variables of a block the last two dimensions that it writes are.

    Raises:
        NotThisKind: the block writes no plain image of its variables, or has one axis, as weights
            of a single result have.
    """
    names = [axis.var.name for axis in body.iter_vars]
    written = [getattr(place.min, "name", "") for place in body.writes[0].region]
    if len(written) < 2 or set(written[-2:]) - set(names):
        raise NotThisKind("an operand is no plain image of its indices")
    row, column = (names.index(name) for name in written[-2:])
    return row, column


def in_vectors(schedule: Schedule, block: Any, widths: list[int], fallback: int = 0) -> int:
    """Cuts the last dimension that a fresh block writes into vectors, and returns their width.

    The first of ``widths`` of which all lanes lie together in memory, under one condition, is
    taken; where none fits, the fallback, and with 0 the block stays as it is. The cut is one of the
    block's variables, and its loops follow the dimensions that it writes.

    Raises:
        NotThisKind: the block writes no plain image of its variables.
    """
    body = schedule.get(block)
    row, column = last_written(body)
    lanes = next((w for w in widths if _lie_together(body, column, w)), fallback)
    if lanes == 0:
        return 0
    rest = [at for at in range(len(body.iter_vars)) if at not in (row, column)]

    def cut(*axes: Any) -> list[Any]:
        return [
            *(axes[at] for at in rest), axes[row], axes[column] // lanes, axes[column] % lanes
        ]  # fmt: skip

    transform_block_layout(schedule, block, index_map(schedule, block, cut, len(body.iter_vars)))
    simplify(schedule, block, lanes)
    return lanes


def simplify(schedule: Schedule, block: Any, lanes: int = 1) -> None:
    """Simplifies what a block stores, and where, by the ranges of its variables alone.

    Args:
        lanes: how many values the last variable has, if it is the one within a vector.
    """
    body = schedule.get(block)
    analyzer = _analyzer(body)
    stored = tvm_ffi.structural_map(
        body.body,
        [
            (ir.TensorLoad, lambda load: _by_one_index(load, analyzer)),
            (ir.Call, lambda call: _one_choice(call, analyzer)),
            *_simpler(analyzer, body.iter_vars[-1].var, lanes),
        ],
        order="post",
    )
    places = [analyzer.simplify(index) for index in stored.indices]
    stored = tirx.BufferStore(stored.buffer, stored.value, places)
    written = tirx.BufferRegion(
        stored.buffer, [ir.Range.from_min_extent(place, 1) for place in places]
    )
    simpler = s_tir.SBlock(
        body.iter_vars, body.reads, [written], body.name_hint, stored, body.init,
        body.alloc_buffers, body.match_buffers, body.annotations, body.span,
    )  # fmt: skip
    schedule.state.replace(schedule.get_sref(block), simpler, {body: simpler})


def _simpler(analyzer: sym.Analyzer, lane: Any, lanes: int) -> list[Any]:
    """Rules that simplify divisions and conditions; ``lane`` has values below ``lanes``."""
    return [
        (_DIVISIONS, lambda node: _divided(analyzer.simplify(node), analyzer, lane, lanes)),
        ((prim.LT, prim.GT), analyzer.simplify),
        # TVM takes common factors out of "less than" alone.
        (prim.LE, lambda node: analyzer.simplify(prim.Not(prim.LT(node.b, node.a)))),
        (prim.GE, lambda node: analyzer.simplify(prim.Not(prim.LT(node.a, node.b)))),
    ]


def _divided(node: Any, analyzer: sym.Analyzer, lane: Any, lanes: int) -> Any:
    """A division of lanes * x + lane by a multiple of lanes, of which x alone is divided.

    TVM sees that where the terms of x divide evenly, which parts of a split sum seldom do.
    """
    if type(node) not in _DIVISIONS or not isinstance(node.b, prim.IntImm):
        return node
    rest = analyzer.simplify(node.a - lane)
    known = analyzer.modular_set(rest)
    uneven = [int(n) % lanes for n in (node.b.value, known.coeff, known.base)]
    if lanes == 1 or any(uneven) or _mentions(rest, lane):
        return node
    if type(node) is prim.FloorDiv:
        return analyzer.simplify(prim.FloorDiv(rest, node.b))
    return analyzer.simplify(prim.FloorMod(rest, node.b)) + lane


def _one_choice(call: Any, analyzer: sym.Analyzer) -> Any:
    """A choice within a choice, both of the same value otherwise, as one of fewer conditions."""
    outer = _choice(call)
    inner = _choice(outer[1]) if outer else None
    if outer is None or inner is None or not tvm_ffi.structural_equal(outer[2], inner[2]):
        return call
    kept = _terms(inner[0])
    with analyzer.constraint_scope(inner[0]):
        kept += [term for term in _terms(outer[0]) if not analyzer.can_prove(term)]
    return tirx.if_then_else(tirx.all(*kept), inner[1], inner[2])


def _choice(value: Any) -> Any:
    """Condition and both values of a choice; None for another expression."""
    chooses = isinstance(value, ir.Call) and getattr(value.op, "name", "").endswith("if_then_else")
    return list(value.args) if chooses else None


def _terms(condition: Any) -> list[Any]:
    """What must hold together for a condition to hold."""
    if type(condition) is prim.And:
        return [*_terms(condition.a), *_terms(condition.b)]
    return [condition]


def _by_one_index(load: Any, analyzer: sym.Analyzer) -> Any:
    """A load whose place in memory needs no division, with the others' part in its last index."""
    place = _place(load)
    if place is None or not _divides(list(load.indices)):
        return load
    place = analyzer.simplify(place)
    if _divides([place]):
        return load
    zero = tirx.const(0, str(place.ty.dtype))
    return tirx.BufferLoad(load.source, [zero] * (len(load.indices) - 1) + [place])


def _place(load: Any) -> Any:
    """The element of memory that is loaded; None where the tensor does not lie there densely."""
    source = load.source
    if not len(load.indices):
        return tirx.const(0)
    if len(source.ty.strides) or not all(isinstance(n, tirx.IntImm) for n in source.ty.shape):
        return None
    place = load.indices[0]
    for index, extent in zip(list(load.indices)[1:], list(source.ty.shape)[1:], strict=True):
        place = place * extent + index
    return place


def _lie_together(body: Any, axis: int, lanes: int) -> bool:
    """Whether ``lanes`` neighbours along an axis lie side by side, under conditions they share."""
    split = body.iter_vars[axis]
    dtype = str(split.var.ty.dtype)
    vector, lane = tirx.Var("vector", dtype), tirx.Var("lane", dtype)
    analyzer = _analyzer(body)
    for var, extent in ((vector, up(int(split.dom.extent), lanes)), (lane, lanes)):
        analyzer.bind(var, ir.Range.from_min_extent(tirx.const(0, dtype), extent))

    def cut(value: Any) -> Any:
        return tvm_ffi.structural_map(
            value,
            [
                (ir.Var, lambda var: vector * lanes + lane if var.same_as(split.var) else var),
                *_simpler(analyzer, lane, lanes),
            ],
        )

    conditions: list[Any] = []
    loads: list[Any] = []
    tvm_ffi.structural_walk(
        body.body.value,
        [(_CONDITIONS, conditions.append), (ir.TensorLoad, loads.append)],
    )
    if any(_mentions(cut(condition), lane) for condition in conditions):
        return False
    places = [_place(load) for load in loads]
    if any(place is None for place in places):
        return False
    # One value serves all lanes.
    moving = [place for place in places if not isinstance(place, prim.IntImm)]
    for place in moving:
        rest = analyzer.simplify(cut(place) - lane)
        if _mentions(rest, lane):
            return False
    return bool(moving)


def _analyzer(body: Any) -> sym.Analyzer:
    analyzer = sym.Analyzer()
    for axis in body.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    return analyzer


def _divides(values: list[Any]) -> bool:
    found: list[Any] = []
    for value in values:
        tvm_ffi.structural_walk(value, (_DIVISIONS, found.append))
    return bool(found)


def _mentions(value: Any, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.Var, found.append))
    return any(variable.same_as(other) for other in found)
