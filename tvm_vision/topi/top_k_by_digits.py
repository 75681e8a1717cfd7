"""The k largest of long rows, by the digits of their keys.

Comparing each with each (top_k.py) grows with the square of a row. Here the key that is the k-th is
found a digit after another: how many keys of those that begin like it have each next digit is
counted by all workgroups, a part of the row each. What is larger is then taken by its place in the
row, and of what is equal the first, so that few are left to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import barrier, before_thread, kernel, local
from .top_k import unsigned

THREADS = 128
PART = 4096  # elements of a workgroup
DIGIT_BITS = 4
DIGITS = 1 << DIGIT_BITS
ROUNDS = 32 // DIGIT_BITS


def parts_of(count: int) -> int:
    """How many workgroups share a row."""
    return -(-count // PART)


def counts_of_digits(keys: te.Tensor, state: te.Tensor) -> te.Tensor:
    """How many keys of each part that begin with the digits found so far have each next digit:
    uint32 (rows, parts, DIGITS).

    keys: (rows, n) int32, the largest first. state: (rows, 3) uint32, the digits found, how many of
    the keys that begin so are among the k, and where in a key the next digit is: the kernel of all
    digits is the same, compiled once.
    """
    rows, count = (int(size) for size in keys.shape)
    each = THREADS // DIGITS

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (keys, state), (counts,) = ins, outs
        row, part, thread = at["blockIdx.y"], at["blockIdx.x"], at["threadIdx.x"]
        own, key, total = local("uint32", DIGITS), local("uint32"), local("uint32")
        shift, found = local("uint32"), local("uint32")
        all_of, sums = (local("uint32", n, "shared") for n in (DIGITS * THREADS, THREADS))
        for digit in range(DIGITS):
            own[digit] = T.uint32(0)
        found[0], shift[0] = state[row, 0], state[row, 2]
        with T.serial(0, PART // THREADS) as i:
            place = part * PART + i.astype("int32") * THREADS + thread
            with T.If(place < count), T.Then():
                key[0] = unsigned(keys[row, place])
                # In two steps, as none of the digits may have been found: by 32 bits none shifts.
                rest = key[0] >> shift[0]
                begins = (rest >> T.uint32(DIGIT_BITS) == found[0]).astype("uint32")
                following = rest & T.uint32(DIGITS - 1)
                for digit in range(DIGITS):
                    same = (following == T.uint32(digit)).astype("uint32")
                    own[digit] = own[digit] + begins * same
        for digit in range(DIGITS):
            all_of[digit * THREADS + thread] = own[digit]
        barrier()
        # Several threads add up a digit's, and one theirs.
        total[0] = T.uint32(0)
        with T.serial(0, DIGITS) as i:
            total[0] = total[0] + all_of[thread * DIGITS + i.astype("int32")]
        sums[thread] = total[0]
        barrier()
        with T.If(thread < DIGITS), T.Then():
            total[0] = T.uint32(0)
            with T.serial(0, each) as i:
                total[0] = total[0] + sums[thread * each + i.astype("int32")]
            counts[row, part, thread] = total[0]

    launch = {"blockIdx.x": parts_of(count), "blockIdx.y": rows, "threadIdx.x": THREADS}
    shape = (rows, parts_of(count), DIGITS)
    return kernel("digits", [(shape, "uint32")], [keys, state], launch, statements)[0]


def next_digit(counts: te.Tensor, state: te.Tensor) -> te.Tensor:
    """The state with one digit more, of its counts (rows, parts, DIGITS)."""
    rows, parts, _ = (int(size) for size in counts.shape)
    sharing = THREADS // DIGITS

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (counts, state), (changed,) = ins, outs
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        total, sums = local("uint32"), local("uint32", THREADS, "shared")
        left, digit, found = (local("uint32") for _ in range(3))
        total[0] = T.uint32(0)
        with T.serial(0, -(-parts // sharing)) as i:
            part = i.astype("int32") * sharing + thread // DIGITS
            with T.If(part < parts), T.Then():
                total[0] = total[0] + counts[row, part, thread % DIGITS]
        sums[thread] = total[0]
        barrier()
        with T.If(thread == 0), T.Then():
            left[0], digit[0], found[0] = state[row, 1], T.uint32(0), T.uint32(0)
            for each in reversed(range(DIGITS)):
                total[0] = T.uint32(0)
                for share in range(sharing):
                    total[0] = total[0] + sums[share * DIGITS + each]
                with T.If(found[0] == T.uint32(0)), T.Then():
                    with T.If(left[0] <= total[0]):
                        with T.Then():
                            digit[0], found[0] = T.uint32(each), T.uint32(1)
                        with T.Else():
                            left[0] = left[0] - total[0]
            changed[row, 0] = (state[row, 0] << T.uint32(DIGIT_BITS)) | digit[0]
            changed[row, 1] = left[0]
            changed[row, 2] = state[row, 2] - T.uint32(DIGIT_BITS)

    launch = {"blockIdx.x": rows, "threadIdx.x": THREADS}
    return kernel("next_digit", [((rows, 3), "uint32")], [counts, state], launch, statements)[0]


def counts_of_parts(keys: te.Tensor, state: te.Tensor) -> list[te.Tensor]:
    """How many keys of each part are larger than the k-th, and how many are equal: (rows, parts)
    int32 both."""
    rows, count = (int(size) for size in keys.shape)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (keys, state), results = ins, outs
        row, part, thread = at["blockIdx.y"], at["blockIdx.x"], at["threadIdx.x"]
        for which, result in zip(
            _counted(keys, state, row, part, thread, count), results, strict=True
        ):
            before = before_thread(which[0], thread, THREADS, lambda a, b: a + b, T.int32(0))
            with T.If(thread == THREADS - 1), T.Then():
                result[row, part] = before[0] + which[0]

    shape = ((rows, parts_of(count)), "int32")
    launch = {"blockIdx.x": parts_of(count), "blockIdx.y": rows, "threadIdx.x": THREADS}
    return kernel("parts", [shape, shape], [keys, state], launch, statements)


def places_by_digits(
    keys: te.Tensor, state: te.Tensor, larger: te.Tensor, equal: te.Tensor, k: int
) -> te.Tensor:
    """Where the k largest of each row are, (rows, k) int32: what is larger than the k-th, then
    what is equal to it, each in the order of the row.

    larger, equal: how many are in the parts before, (rows, parts).
    """
    rows, count = (int(size) for size in keys.shape)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (keys, state, *earlier), (places,) = ins, outs
        row, part, thread = at["blockIdx.y"], at["blockIdx.x"], at["threadIdx.x"]
        at_most = local("int32", 2)
        # What is equal comes behind all that is larger.
        at_most[1] = state[row, 1].astype("int32")
        at_most[0] = T.int32(k) - at_most[1]
        position = local("int32", 2)
        own = _counted(keys, state, row, part, thread, count)
        for kind in range(2):
            before = before_thread(own[kind][0], thread, THREADS, lambda a, b: a + b, T.int32(0))
            position[kind] = earlier[kind][row, part] + before[0]

        def store(kind: int, place: Any) -> None:
            with T.If(position[kind] < at_most[kind]), T.Then():
                first = T.int32(0) if kind == 0 else at_most[0]
                places[row, first + position[kind]] = place
            position[kind] = position[kind] + 1

        _through(keys, state, row, part, thread, count, store)

    launch = {"blockIdx.x": parts_of(count), "blockIdx.y": rows, "threadIdx.x": THREADS}
    given = [keys, state, larger, equal]
    return kernel("places", [((rows, k), "int32")], given, launch, statements)[0]


def _counted(keys: Any, state: Any, row: Any, part: Any, thread: Any, count: int) -> list[Any]:
    """Buffers of one number: how many of a thread's keys are larger than the k-th, and equal."""
    own = [local("int32"), local("int32")]
    for each in own:
        each[0] = T.int32(0)

    def add(kind: int, place: Any) -> None:
        own[kind][0] = own[kind][0] + 1

    _through(keys, state, row, part, thread, count, add)
    return own


def _through(
    keys: Any, state: Any, row: Any, part: Any, thread: Any, count: int,
    take: Callable[[int, Any], None],
) -> None:  # fmt: skip
    """A thread's keys in order: ``take(0, place)`` for those larger than the k-th, ``take(1,
    place)`` for its equals."""
    share, key = PART // THREADS, local("uint32")
    with T.serial(0, share) as i:
        place = part * PART + thread * share + i.astype("int32")
        with T.If(place < count), T.Then():
            key[0] = unsigned(keys[row, place])
            with T.If(key[0] > state[row, 0]):
                with T.Then():
                    take(0, place)
                with T.Else():
                    with T.If(key[0] == state[row, 0]), T.Then():
                        take(1, place)


def begun(rows: int, k: int) -> te.Tensor:
    """The state before a digit is found."""
    none, wanted, first = (tirx.const(n, "uint32") for n in (0, k, 32 - DIGIT_BITS))
    return te.compute(
        (rows, 3),
        lambda _, i: tirx.Select(i == 0, none, tirx.Select(i == 1, wanted, first)),
        name="begun",
    )
