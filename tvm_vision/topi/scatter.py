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

from .by_hand import GROUP, all_before_thread, for_each, launched, local

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


# Sorted updates that a thread goes through, more where there would be more stretches than these.
STRETCH = 16
MOST_STRETCHES = 1 << 13
TOGETHER = 256  # threads that put a row's stretches together, at most
# By type: that of sums, in which those of fewer bits are no slower and more exact.
WIDE = {
    "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "float16": "float32",
}  # fmt: skip
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

        launches = [for_each(before * count * after, clear), for_each(before * many * after, note)]
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
    """As ``put_all``, of many updates on a GPU.

    targets: uint32 (before * after, m), each row sorted, those outside at its end. order: int32,
    where in its row each was.

    Updates of one place lie behind each other then. A thread goes through a stretch of them and
    writes the places that begin and end there; of the others, which stretches share, a workgroup a
    row adds up what each has. So no thread has more to do than others, whatever the places are.
    """
    before, count, after, inner = (int(size) for size in data.shape)
    rows, many = before * after, int(targets.shape[1])
    stretch = STRETCH
    while many > stretch * MOST_STRETCHES:
        stretch *= 2
    stretches = -(-many // stretch)
    threads = min(TOGETHER, -(-stretches // GROUP) * GROUP)
    dtype = str(data.dtype)
    wide = WIDE.get(dtype, dtype)

    def both(one: Any, other: Any) -> Any:
        return _with(one, other, reduction)

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        old, where, number, new = (T.buffer_proxy(buffer) for buffer in ins)
        result, heads, tails = (T.buffer_proxy(buffer) for buffer in outs)

        def copy(own: Any) -> None:
            at = (*_split(own // inner, count, after), own % inner)
            result[at] = old[at]

        def write(row: Any, i: Any, place: Any, value: Any) -> None:
            with T.If(place < T.uint32(count)), T.Then():
                at = (row // after, place.astype("int32"), row % after, i)
                result[at] = both(old[at].astype(wide), value).astype(dtype)

        def sum_up(own: Any) -> None:
            row, k, i = _split(own, stretches, inner)
            place, further = local("uint32"), local("uint32")
            value, update, ended = local(wide), local(wide), local("int32")

            def read(at: Any) -> None:
                further[0] = where[row, at]
                update[0] = new[row // after, number[row, at], row % after, i].astype(wide)

            read(k * stretch)
            place[0], value[0], ended[0] = further[0], update[0], T.int32(0)
            with T.serial(0, stretch - 1) as n:
                at = k * stretch + n.astype("int32") + 1
                with T.If(at < many), T.Then():
                    read(at)
                    with T.If(further[0] == place[0]):
                        with T.Then():
                            value[0] = both(value[0], update[0])
                        with T.Else():
                            with T.If(ended[0] == 0):
                                with T.Then():
                                    heads[row, k, i] = value[0]
                                with T.Else():
                                    write(row, i, place[0], value[0])
                            place[0], value[0], ended[0] = further[0], update[0], T.int32(1)
            with T.If(ended[0] == 0), T.Then():
                heads[row, k, i] = value[0]
            tails[row, k, i] = value[0]

        def put_together(at: dict[str, Any]) -> None:
            row, i, thread = at["blockIdx.x"], at["blockIdx.y"], at["threadIdx.x"]
            _put_together(
                _Stretches(where, heads, tails, row, i, many, stretch), thread, threads, both,
                lambda place, value: write(row, i, place, value),
            )  # fmt: skip

        copied = for_each(rows * count * inner, copy)
        summed = for_each(rows * stretches * inner, sum_up)
        with IRBuilder() as builder:
            with launched({"blockIdx.x": rows, "blockIdx.y": inner, "threadIdx.x": threads}) as at:
                put_together(at)
            return tirx.SeqStmt([copied, summed, builder.get()])

    parts = (rows, stretches, inner)
    given = [data, targets, order, updates]
    types = [dtype, wide, wide]
    return te.extern([data.shape, parts, parts], given, body, dtype=types, name="put_sorted")[0]


class _Stretches:
    """What is known of the stretches of a row of sorted targets.

    Attributes:
        many: how many there are.
        first, last: buffers of one target, of the stretch that was read.
        head, tail: of what the updates of these two come to within it.
        one, goes_on: 0 or 1, whether it has but one target, and whether its last one goes on in the
            next stretch.
    """

    def __init__(
        self, where: Any, heads: Any, tails: Any, row: Any, i: Any, updates: int, stretch: int
    ) -> None:
        self._where, self._heads, self._tails, self._row, self._i = where, heads, tails, row, i
        self._updates, self._stretch = updates, stretch
        self.many = -(-updates // stretch)
        self.dtype = str(heads.dtype)
        self.first, self.last = local("uint32"), local("uint32")
        self.head, self.tail = local(self.dtype), local(self.dtype)
        self.one, self.goes_on = local("int32"), local("int32")

    def read(self, k: Any) -> None:
        """Of a stretch by its number."""
        end = tirx.min((k + 1) * self._stretch, self._updates)
        self.first[0] = self._where[self._row, k * self._stretch]
        self.last[0] = self._where[self._row, end - 1]
        next_ = self._where[self._row, tirx.min(end, self._updates - 1)]
        inside = (end < self._updates).astype("int32")
        self.one[0] = (self.first[0] == self.last[0]).astype("int32")
        self.goes_on[0] = inside * (next_ == self.last[0]).astype("int32")
        self.head[0] = self._heads[self._row, k, self._i]
        self.tail[0] = self._tails[self._row, k, self._i]


# What stretches hand on to the next one, for the place that it begins with: nothing, a value, a
# value together with what is handed to them, or that alone.
NOTHING, VALUE, MORE, SAME = range(4)


def _put_together(
    stretches: _Stretches,
    thread: Any,
    threads: int,
    both: Callable[..., Any],
    write: Callable[..., Any],
) -> None:
    """Writes the places whose updates begin with a stretch or end with one. A thread has some
    stretches beside each other.

    both: of two values together. write: stores a place's.
    """
    share = -(-stretches.many // threads)
    kind, value = local("int32"), local(stretches.dtype)
    kind_then, value_then = local("int32"), local(stretches.dtype)

    def combined(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        more, same = other[0] == MORE, other[0] == SAME
        has = (one[0] == VALUE).astype("int32") + (one[0] == MORE).astype("int32")
        kinds = tirx.Select(one[0] <= VALUE, T.int32(VALUE), T.int32(MORE))
        values = tirx.Select(has == 1, both(one[1], other[1]), other[1])
        return [
            tirx.Select(same, one[0], tirx.Select(more, kinds, other[0])),
            tirx.Select(same, one[1], tirx.Select(more, values, other[1])),
        ]

    def through(take: Callable[[], None]) -> None:
        with T.serial(0, share) as s:
            k = thread * share + s.astype("int32")
            with T.If(k < stretches.many), T.Then():
                stretches.read(k)
                take()
                has = tirx.Select(stretches.one[0] == 1, T.int32(MORE), T.int32(VALUE))
                kinds = tirx.Select(stretches.goes_on[0] == 1, has, T.int32(NOTHING))
                keep(combined([kind[0], value[0]], [kinds, stretches.tail[0]]))

    def keep(pair: Sequence[Any]) -> None:
        kind_then[0], value_then[0] = pair
        kind[0], value[0] = kind_then[0], value_then[0]

    def written() -> None:
        head = tirx.Select(kind[0] == VALUE, both(value[0], stretches.head[0]), stretches.head[0])
        ends = 1 - stretches.goes_on[0]
        with T.If(stretches.one[0] * stretches.goes_on[0] == 0), T.Then():
            write(stretches.first[0], head)
        with T.If((1 - stretches.one[0]) * ends == 1), T.Then():
            write(stretches.last[0], stretches.tail[0])

    unchanged = [T.int32(SAME), tirx.const(0, stretches.dtype)]
    kind[0], value[0] = unchanged
    through(lambda: None)
    handed = all_before_thread([kind[0], value[0]], thread, threads, combined, unchanged)
    keep(combined([T.int32(NOTHING), unchanged[1]], [each[0] for each in handed]))
    through(written)


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
