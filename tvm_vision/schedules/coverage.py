"""Whether a scheduled function writes all of its results.

A schedule that spreads a kernel by the values of one block leaves parts of a larger one unwritten,
and TVM lets it: what lies in memory from before is then taken for a result. What each store
reaches is proven by TVM's iterator maps where these find an answer, and counted where not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm.ir import prim

from .common import constant_integer

# Steps of loops that are counted; with more it stays open.
MOST_COUNTED = 1 << 26
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class _Store:
    """One store and what surrounds it: loops (variable, extent) and conditions on them."""

    buffer: Any
    indices: tuple[Any, ...]
    loops: tuple[tuple[Any, int], ...]
    conditions: tuple[Any, ...]


def unwritten(function: tirx.PrimFunc) -> list[str]:
    """The results of a function, by name, of which some elements are never written.

    A result is a parameter that it stores to. Where an index or a condition depends on data, or an
    intrinsic stores, nothing is said of that result.
    """
    stores = _Stores(function)
    found = []
    for buffer in stores.results():
        sizes = [_number(n) for n in buffer.ty.shape]
        if -1 in sizes or buffer in stores.open:
            continue
        own = [store for store in stores.found if store.buffer.same_as(buffer)]
        if not any(_reaches_all(store, sizes) for store in own) and _counted(own, sizes) is False:
            found.append(str(buffer.name))
    return found


class _NotAffine(Exception):
    """Something whose value is not known before it runs."""


@dataclass
class _Stores:
    """The stores of a function, walked through from the outside in."""

    function: tirx.PrimFunc
    found: list[_Store] = field(default_factory=list)
    open: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._visit(self.function.body, (), ())

    def results(self) -> list[Any]:
        """The parameters that are stored to, in order."""
        stored = {*(store.buffer for store in self.found), *self.open}
        return [p for p in self.function.params if p in stored]

    def _visit(self, node: Any, loops: tuple[Any, ...], conditions: tuple[Any, ...]) -> None:
        if isinstance(node, tirx.SeqStmt):
            for part in node.seq:
                self._visit(part, loops, conditions)
        elif isinstance(node, tirx.For):
            self._loop(node.loop_var, node.min, node.extent, node.body, loops, conditions)
        elif isinstance(node, s_tir.SBlockRealize):
            block = node.block
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
                self._values[axis.var] = self._known(value)
            conditions = (*conditions, self._known(node.predicate))
            for part in (block.init, block.body):
                if part is not None:
                    self._visit(part, loops, conditions)
        elif isinstance(node, tirx.IfThenElse):
            condition = self._known(node.condition)
            self._visit(node.then_case, loops, (*conditions, condition))
            if node.else_case is not None:
                self._visit(node.else_case, loops, (*conditions, prim.Not(condition)))
        elif isinstance(node, tirx.BufferStore):
            indices = tuple(self._known(index) for index in node.indices)
            self.found.append(_Store(node.buffer, indices, loops, conditions))
        elif isinstance(node, tirx.AttrStmt) and str(node.attr_key) == "thread_extent":
            self._loop(node.node.var, 0, node.value, node.body, loops, conditions)
        else:
            self._rest(node, loops, conditions)

    def _loop(
        self, var: Any, first: Any, extent: Any, body: Any, loops: Any, conditions: Any
    ) -> None:
        size = constant_integer(extent)
        if size is None:
            size = constant_integer(sym.Analyzer().simplify(self._known(extent)))
        if size is None:
            self._leave_open(body)
            return
        own = tirx.Var(var.name, str(var.ty.dtype))
        self._values[var] = own + self._known(first)
        self._visit(body, (*loops, (own, size)), conditions)

    def _rest(self, node: Any, loops: Any, conditions: Any) -> None:
        body = getattr(node, "body", None)
        if body is not None and not isinstance(node, tirx.While):
            self._visit(body, loops, conditions)
        else:
            self._leave_open(node)

    def _leave_open(self, node: Any) -> None:
        """Nothing is known of what a statement stores to."""
        tvm_ffi.structural_walk(
            node,
            [
                (tirx.BufferStore, lambda store: self.open.add(store.buffer)),
                (ir.Call, self._pointer),
            ],
        )

    def _pointer(self, call: Any) -> None:
        tvm_ffi.structural_walk(call, (ir.Var, self.open.add))

    def _known(self, value: Any) -> Any:
        """A value in terms of the loops."""
        if isinstance(value, (int, bool)):
            return tirx.const(value)
        return tvm_ffi.structural_map(value, [(ir.Var, lambda var: self._values.get(var, var))])


def _reaches_all(store: _Store, sizes: list[int]) -> bool:
    """Whether one store is proven to reach every element."""
    if not sizes:
        return not store.conditions or all(_is_true(c) for c in store.conditions)
    domain = {var: ir.Range(0, extent) for var, extent in store.loops}
    condition = tirx.all(*store.conditions) if store.conditions else tirx.const(True)
    try:
        result = sym.detect_iter_map(store.indices, domain, condition, check_level="surjective")
    except Exception:  # it raises every kind for what it does not handle
        return False
    if len(result.indices) != len(sizes):
        return False
    return all(_is_whole(of, size) for of, size in zip(result.indices, sizes, strict=True))


def _is_true(condition: Any) -> bool:
    return bool(sym.Analyzer().can_prove(condition))


def _is_whole(index: Any, size: int) -> bool:
    """Whether a sum of iterators runs over 0 to size - 1 without gaps."""
    if _number(index.base) != 0:
        return False
    step = 1
    for scale, extent in sorted((_number(a.scale), _number(a.extent)) for a in index.args):
        if scale != step:
            return False
        step *= extent
    return step == size


def _number(value: Any) -> int:
    """A constant; -1 for anything else."""
    return int(value.value) if isinstance(value, prim.IntImm) else -1


def _counted(stores: list[_Store], sizes: list[int]) -> bool | None:
    """Whether the stores together reach every element, by going through their loops.

    None where that depends on data, or takes too long.
    """
    if sum(math.prod(extent for _, extent in _used(store)) for store in stores) > MOST_COUNTED:
        return None
    reached = np.zeros(math.prod(sizes), bool)
    try:
        for store in stores:
            _count(store, sizes, reached)
    except _NotAffine:
        return None
    return bool(reached.all())


def _used(store: _Store) -> list[tuple[Any, int]]:
    """The loops on which a store's place or its conditions depend."""
    seen: set[Any] = set()
    for value in (*store.indices, *store.conditions):
        tvm_ffi.structural_walk(value, (ir.Var, seen.add))
    return [(var, extent) for var, extent in store.loops if var in seen]


def _count(store: _Store, sizes: list[int], reached: np.ndarray) -> None:
    for at in _steps(_used(store)):
        lanes: Any = np.zeros((), np.int64)
        for index, size in zip(store.indices, sizes, strict=True):
            lanes = lanes * size + _value(index, at)
        kept: Any = np.ones((), bool)
        for condition in store.conditions:
            kept = kept & _value(condition, at)
        places, chosen = np.broadcast_arrays(lanes, kept)
        reached[places[chosen.astype(bool)]] = True


def _steps(loops: list[tuple[Any, int]]) -> Iterator[dict[Any, np.ndarray]]:
    """The values of the loops' variables, _AT_ONCE steps at a time, each along an axis of its own:
    what depends on a few of them is computed for those alone."""
    inner, whole = 1, len(loops)
    while whole and inner * loops[whole - 1][1] <= _AT_ONCE:
        whole -= 1
        inner *= loops[whole][1]
    parts = []
    for place, (var, extent) in enumerate(loops):
        # The last axis is for the lanes of a vector.
        values = np.arange(extent).reshape(-1, *[1] * (len(loops) - place))
        fitting = extent if place >= whole else _AT_ONCE // inner if place == whole - 1 else 1
        size = max(1, fitting)
        parts.append([(var, values[first : first + size]) for first in range(0, extent, size)])
    yield from map(dict, itertools.product(*parts))


_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    prim.Add: np.add,
    prim.Sub: np.subtract,
    prim.Mul: np.multiply,
    prim.FloorDiv: np.floor_divide,
    prim.FloorMod: np.mod,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
    prim.LT: np.less,
    prim.LE: np.less_equal,
    prim.GT: np.greater,
    prim.GE: np.greater_equal,
    prim.EQ: np.equal,
    prim.NE: np.not_equal,
    prim.And: np.logical_and,
    prim.Or: np.logical_or,
}


def _value(node: Any, at: dict[Any, np.ndarray]) -> Any:
    """The value of an expression: steps of the loops × lanes, or what broadcasts to them."""
    if isinstance(node, ir.Var):
        if node not in at:
            raise _NotAffine
        return at[node]
    if isinstance(node, prim.IntImm):
        return int(node.value)
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return operator(_value(node.a, at), _value(node.b, at))
    if isinstance(node, prim.Not):
        return np.logical_not(_value(node.a, at))
    if isinstance(node, prim.Cast):
        return _value(node.value, at)
    if isinstance(node, prim.Ramp):
        first, stride = _value(node.base, at), _value(node.stride, at)
        steps = np.arange(int(node.lanes))
        return first + stride * steps
    if isinstance(node, ir.Call) and getattr(node.op, "name", "").endswith("likely"):
        return _value(node.args[0], at)
    raise _NotAffine
