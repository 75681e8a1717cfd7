"""Scatters as gathers: each element of the result finds what was written to it.

Written one after the other, a thread of a GPU waits for each update before the next. Here no
element waits for another, but in ``put_in_turn``, for processors, and none for updates of another
place. Of several updates of one place the last counts, as when they are written in turn, and of
sums the order is the same in each run; a place outside the tensor is none, where TVM's operators
write beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .by_hand import launched

# By name of a reduction: of what is there and an update, of all updates of a place, and the update
# that changes nothing, by type.
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[str], Any]]] = {
    "add": (lambda a, b: a + b, te.sum, lambda dtype: tirx.const(0, dtype)),
    "mul": (
        lambda a, b: a * b,
        te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="product"),
        lambda dtype: tirx.const(1, dtype),
    ),
    "min": (tirx.min, te.min, lambda dtype: te.max_value(dtype)),
    "max": (tirx.max, te.max, lambda dtype: te.min_value(dtype)),
}


# Threads of a workgroup.
THREADS = 64
# Updates of one place that a thread adds up one after another.
CHUNK = 256
# What code generation takes for GLSL's atomicMax: address, value.
ATOMIC_MAX = "tvm_vision_atomic_max"


@dataclass(frozen=True)
class Steps:
    """Places along an axis: the first, how far apart they are, and how many."""

    first: int
    step: int
    count: int


def targets_of(indices: te.Tensor, sizes: Sequence[int]) -> te.Tensor:
    """Places of updates, counted through axes of these sizes: int32 (m,), of indices (m, axes).

    -1: outside of an axis. Negative indices are outside.
    """

    def target(m: Any) -> Any:
        place: Any = tirx.const(0, "int32")
        inside = []
        for axis, size in enumerate(sizes):
            index = indices[m, axis]
            inside.append(tirx.all(index >= 0, index < size))
            place = place * size + index.astype("int32")
        return tirx.Select(tirx.all(*inside), place, tirx.const(-1, "int32"))

    return te.compute(indices.shape[:1], target, name="targets")


def targets_along(indices: te.Tensor, count: int) -> te.Tensor:
    """Places of updates along an axis of ``count``: int32 (before, m, after), of indices of this
    shape, of which those below zero count from the end. -1: outside of the axis."""

    def target(*at: Any) -> Any:
        index = indices(*at)
        place = tirx.Select(index < 0, index + count, index)
        inside = tirx.all(place >= 0, place < count)
        return tirx.Select(inside, place.astype("int32"), tirx.const(-1, "int32"))

    return te.compute(indices.shape, target, name="targets")


def latest_among(targets: te.Tensor, count: int) -> te.Tensor:
    """The last update of each place, on a GPU: int32 (before, count, after), of targets int32
    (before, m, after); -1: of a place that has none."""
    before, many, after = (int(size) for size in targets.shape)

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        where, latest = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])

        def clear(own: Any) -> None:
            latest[_split(own, count, after)] = tirx.const(-1, "int32")

        def note(own: Any) -> None:
            b, m, c = _split(own, many, after)
            place = where[b, m, c]
            with T.If(tirx.all(place >= 0, place < count)), T.Then():
                address = tirx.address_of(latest[b, place, c])
                T.evaluate(T.call_extern("int32", ATOMIC_MAX, address, m))

        launches = [_launch(before * count * after, clear), _launch(before * many * after, note)]
        return tirx.SeqStmt(launches)

    shape = (before, count, after)
    return te.extern([shape], [targets], body, dtype=["int32"], name="latest_among")


def put(data: te.Tensor, latest: te.Tensor, updates: te.Tensor, reduction: str) -> te.Tensor:
    """Data with an update, where there is one, in its place or added to it.

    data: (before, count, after, inner). latest: int32 (before, count, after). updates: (before, m,
    after, inner).
    """

    def value(b: Any, place: Any, c: Any, i: Any) -> Any:
        update = updates[b, tirx.max(latest[b, place, c], 0), c, i]
        old = data[b, place, c, i]
        return tirx.if_then_else(latest[b, place, c] >= 0, _with(old, update, reduction), old)

    return te.compute(data.shape, value, name="put")


def put_all(data: te.Tensor, targets: te.Tensor, updates: te.Tensor, reduction: str) -> te.Tensor:
    """Data with all updates of each place added to it, or the like.

    data: (before, count, after, inner). targets: (before, m, after). updates: (before, m, after,
    inner). reduction: of REDUCTIONS.
    """
    both, together, nothing = REDUCTIONS[reduction]
    m = te.reduce_axis((0, targets.shape[1]), "m")

    def all_of(b: Any, place: Any, c: Any, i: Any) -> Any:
        here = targets[b, m, c] == place.astype(targets.dtype)
        return together(tirx.Select(here, updates[b, m, c, i], nothing(data.dtype)), axis=m)

    found = te.compute(data.shape, all_of, name="updates_of_place")
    return te.compute(data.shape, lambda *at: both(data(*at), found(*at)), name="put_all")


def put_few(data: te.Tensor, targets: te.Tensor, updates: te.Tensor, reduction: str) -> te.Tensor:
    """As ``put_all``, of so few updates that each element asks for all of them; "update", too."""
    count = int(targets.shape[1])

    def value(b: Any, place: Any, c: Any, i: Any) -> Any:
        found = data[b, place, c, i]
        for m in range(count):
            here = targets[b, m, c] == place.astype(targets.dtype)
            found = tirx.if_then_else(here, _with(found, updates[b, m, c, i], reduction), found)
        return found

    return te.compute(data.shape, value, name="put_few")


def put_sorted(
    data: te.Tensor, targets: te.Tensor, order: te.Tensor, updates: te.Tensor, reduction: str
) -> te.Tensor:
    """As ``put_all``, of many updates on a GPU. order: int32 (before, m, after), the updates sorted
    by their targets.

    Those of one place lie behind each other then: a thread for each stretch of CHUNK adds up its
    own, and that of a place's first update what the stretches of the place come to.
    """
    before, count, after, inner = (int(size) for size in data.shape)
    many = int(targets.shape[1])
    whole = before * after * inner

    def begins(where: Any, number: Any, b: Any, at: Any, c: Any) -> Any:
        """Whether the update at a place in the order is the first of its target, and which."""
        place = where[b, number[b, at, c], c]
        above = where[b, number[b, tirx.max(at - 1, 0), c], c]
        return tirx.any(at == 0, above != place), place

    def ends(where: Any, number: Any, b: Any, at: Any, c: Any, place: Any) -> Any:
        """Whether there is no update of a place there in the order."""
        last = number[b, tirx.min(at, many - 1), c]
        return tirx.any(at >= many, where[b, last, c] != place)

    def stretches(ins: Any, outs: Any) -> tirx.Stmt:
        where, number, new = (T.buffer_proxy(buffer) for buffer in ins)
        sums = T.buffer_proxy(outs[0])

        def add(own: Any) -> None:
            b, at, c = _split(own // inner, many, after)
            i = own % inner
            first, place = begins(where, number, b, at, c)
            with T.If(tirx.any(first, at % CHUNK == 0)), T.Then():
                sums[b, at, c, i] = new[b, number[b, at, c], c, i]
                with T.serial(0, CHUNK - 1) as further:
                    beyond = at + further + 1
                    over = ends(where, number, b, beyond, c, place)
                    with T.If(tirx.any(beyond % CHUNK == 0, over)), T.Then():
                        T.evaluate(tirx.break_loop())
                    update = new[b, number[b, beyond, c], c, i]
                    sums[b, at, c, i] = _with(sums[b, at, c, i], update, reduction)

        return _launch(whole * many, add)

    def places(ins: Any, outs: Any) -> tirx.Stmt:
        old, where, number, sums = (T.buffer_proxy(buffer) for buffer in ins)
        result = T.buffer_proxy(outs[0])

        def copy(own: Any) -> None:
            at = (*_split(own // inner, count, after), own % inner)
            result[at] = old[at]

        def add(own: Any) -> None:
            b, at, c = _split(own // inner, many, after)
            i = own % inner
            first, place = begins(where, number, b, at, c)
            with T.If(tirx.all(first, place >= 0, place < count)), T.Then():
                element = (b, place, c, i)
                result[element] = _with(result[element], sums[b, at, c, i], reduction)
                with T.serial(0, -(-many // CHUNK)) as further:
                    next_ = (at // CHUNK + further + 1) * CHUNK
                    with T.If(ends(where, number, b, next_, c, place)), T.Then():
                        T.evaluate(tirx.break_loop())
                    result[element] = _with(result[element], sums[b, next_, c, i], reduction)

        return tirx.SeqStmt([_launch(whole * count, copy), _launch(whole * many, add)])

    dtype = [str(data.dtype)]
    sums = te.extern(
        [updates.shape], [targets, order, updates], stretches, dtype=dtype, name="sums_in_order"
    )
    return te.extern(
        [data.shape], [data, targets, order, sums], places, dtype=dtype, name="put_sorted"
    )


def put_in_turn(
    data: te.Tensor, targets: te.Tensor, updates: te.Tensor, reduction: str
) -> te.Tensor:
    """As ``put_few``, one update after another: of many, for a processor."""
    before, count, after, inner = (int(size) for size in data.shape)
    rows, many = before * after, int(targets.shape[1])

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        old, where, new = (T.buffer_proxy(buffer) for buffer in ins)
        result = T.buffer_proxy(outs[0])
        with IRBuilder() as copies, T.parallel(0, before * count) as each:
            with T.serial(0, after) as c, T.serial(0, inner) as i:
                at = (each // count, each % count, c, i)
                result[at] = old[at]
        with IRBuilder() as writes, T.parallel(0, rows) as row:
            with T.serial(0, many) as m, T.serial(0, inner) as i:
                b, c = row // after, row % after
                place = where[b, m, c]
                with T.If(tirx.all(place >= 0, place < count)), T.Then():
                    at = (b, place, c, i)
                    result[at] = _with(result[at], new[b, m, c, i], reduction)
        return tirx.SeqStmt([copies.get(), writes.get()])

    return te.extern(
        [data.shape], [data, targets, updates], body, dtype=[str(data.dtype)], name="put_in_turn"
    )


def _split(own: Any, middle: int, last: int) -> tuple[Any, Any, Any]:
    """The places along three axes of a number that counts through them."""
    return own // (middle * last), own // last % middle, own % last


def _launch(count: int, body: Callable[[Any], None]) -> tirx.Stmt:
    """A thread for each of ``count``, whose number the body takes."""
    with IRBuilder() as builder:
        with launched({"blockIdx.x": -(-count // THREADS), "threadIdx.x": THREADS}) as at:
            own = at["blockIdx.x"] * THREADS + at["threadIdx.x"]
            with T.If(own < count), T.Then():
                body(own)
        return builder.get()


def _with(old: Any, update: Any, reduction: str) -> Any:
    return update if reduction == "update" else REDUCTIONS[reduction][0](old, update)


def put_grid(
    data: te.Tensor, updates: te.Tensor, grid: Sequence[Steps], reduction: str
) -> te.Tensor:
    """Data with updates at the places of a grid over its first axes.

    updates: of as many elements along each of these axes as the grid has steps.
    """

    def value(*at: Any) -> Any:
        inside, where = [], []
        for index, size, steps in zip(at, data.shape, grid, strict=False):
            if steps == Steps(0, 1, int(size)):
                where.append(index)
                continue
            along = index - steps.first
            inside += [index >= steps.first, along < steps.step * steps.count]
            if steps.step > 1:
                inside.append(tirx.floormod(along, steps.step) == 0)
            number = tirx.floordiv(along, steps.step)
            where.append(tirx.max(0, tirx.min(number, steps.count - 1)))
        update = updates(*where, *at[len(grid) :])
        new = _with(data(*at), update, reduction)
        return tirx.if_then_else(tirx.all(*inside), new, data(*at)) if inside else new

    return te.compute(data.shape, value, name="put_grid")
