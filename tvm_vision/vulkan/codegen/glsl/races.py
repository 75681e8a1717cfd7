"""Finds statements that are right only when the threads of a subgroup run in lockstep.

TVM's scans write ``s[i] = s[i] + s[i - 4]`` for all threads at once: in lockstep every thread reads
before any writes, elsewhere a thread may read what its neighbour has written already. Indices into
shared memory depend on little more than the thread's number, so the question is settled by trying
all threads (1024 at the most); a statement that cannot be tried counts as racing.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tvm_ffi
from tvm import ir
from tvm.ir.prim import expr as prim

_MOST_THREADS = 1024


class KernelFacts(Protocol):
    """What is asked of a kernel's analysis: thread axes and variables by handle, loops' extents."""

    axes: dict[int, Any]
    extents: dict[str, Any]
    values: dict[int, Any]

    def root_of(self, data: Any) -> Any:
        """The buffer that a view is of."""


class _Unknown(Exception):
    """An index or a condition depends on more than the thread's number."""


_BINARY: dict[type, Any] = {
    prim.Add: np.add,
    prim.Sub: np.subtract,
    prim.Mul: np.multiply,
    prim.FloorDiv: np.floor_divide,
    prim.FloorMod: np.mod,
    prim.Mod: np.fmod,
    prim.Div: lambda a, b: np.trunc(a / b).astype(np.int64),
    prim.LShift: np.left_shift,
    prim.RShift: np.right_shift,
    prim.BitwiseAnd: np.bitwise_and,
    prim.BitwiseOr: np.bitwise_or,
    prim.BitwiseXor: np.bitwise_xor,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
    prim.EQ: np.equal,
    prim.NE: np.not_equal,
    prim.LT: np.less,
    prim.LE: np.less_equal,
    prim.GT: np.greater,
    prim.GE: np.greater_equal,
    prim.And: np.logical_and,
    prim.Or: np.logical_or,
}


def needs_lockstep(analysis: KernelFacts, store: Any, conditions: list[Any]) -> bool:
    """Whether a store under ``conditions`` may overwrite what another thread has yet to read."""
    root = analysis.root_of(store.buffer)
    loads: list[Any] = []

    def see(load: Any) -> None:
        if analysis.root_of(load.source).same_as(root):
            loads.append(load)

    tvm_ffi.structural_walk(store.value, (ir.TensorLoad, see))
    target = store.indices[0]
    others = [x for x in loads if not tvm_ffi.structural_equal(x.indices[0], target)]
    if not others:
        return False
    try:
        return _conflict(analysis, target, [x.indices[0] for x in others], conditions)
    except _Unknown:
        return True


def _conflict(analysis: KernelFacts, target: Any, reads: list[Any], conditions: list[Any]) -> bool:
    values, total = _threads(analysis)
    active = np.ones(total, dtype=bool)
    for condition in conditions:
        active &= np.broadcast_to(_evaluate(condition, values, analysis), (total,)).astype(bool)
    threads = np.flatnonzero(active)
    if not len(threads):
        return False
    written = _per_thread(target, values, analysis, total)[threads]
    read = np.concatenate([_per_thread(r, values, analysis, total)[threads] for r in reads], 1)
    low = min(written.min(), read.min())
    writer = np.full(int(max(written.max(), read.max()) - low) + 1, -1)
    writer[written - low] = threads[:, None]
    if len(np.unique(written)) != written.size:
        return True
    found = writer[read - low]
    return bool(np.any((found >= 0) & (found != threads[:, None])))


def _threads(analysis: KernelFacts) -> tuple[dict[int, np.ndarray], int]:
    extents = []
    for axis in "xyz":
        extent = analysis.extents.get(f"threadIdx.{axis}")
        extents.append(int(extent.value) if isinstance(extent, prim.IntImm) else 1)
    total = extents[0] * extents[1] * extents[2]
    if total > _MOST_THREADS:
        raise _Unknown
    number = np.arange(total, dtype=np.int64)
    places = {
        "threadIdx.x": number % extents[0],
        "threadIdx.y": number // extents[0] % extents[1],
        "threadIdx.z": number // (extents[0] * extents[1]),
    }
    values = {
        variable: places[axis.thread_tag]
        for variable, axis in analysis.axes.items()
        if axis.thread_tag in places
    }
    return values, total


def _per_thread(index: Any, values: dict, analysis: KernelFacts, total: int) -> np.ndarray:
    """Elements touched: one row a thread, one column a lane."""
    if type(index) is prim.Ramp:
        base = _evaluate(index.base, values, analysis)
        stride = _evaluate(index.stride, values, analysis)
        lanes = np.arange(int(index.lanes), dtype=np.int64)
        base, stride = (np.broadcast_to(v, (total,))[:, None] for v in (base, stride))
        return base + stride * lanes
    if type(index) is prim.Broadcast:
        index = index.value
    return np.broadcast_to(_evaluate(index, values, analysis), (total,))[:, None]


def _evaluate(expression: Any, values: dict, analysis: KernelFacts) -> Any:
    node = type(expression)
    if node is prim.IntImm:
        return np.int64(int(expression.value))
    if node is ir.Var:
        key = expression.__chandle__()
        if key in values:
            return values[key]
        if key in analysis.values:
            return _evaluate(analysis.values[key], values, analysis)
    elif node is prim.Cast:
        return _evaluate(expression.value, values, analysis)
    elif node is prim.Not:
        return np.logical_not(_evaluate(expression.a, values, analysis))
    elif node in _BINARY:
        a = _evaluate(expression.a, values, analysis)
        return _BINARY[node](a, _evaluate(expression.b, values, analysis))
    raise _Unknown
