"""The k largest of rows that one workgroup can hold, each row by its own.

A thread keeps some keys of the row in registers. The key that is the k-th is found two bits at a
time: all threads count their keys that are as large as each of the next three thresholds. Of what
is equal to it the first are taken, whose last place is found in the same way. What is taken lies in
shared memory then, where each finds how many come before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import GROUP, barrier, before_thread, kernel, local
from .top_k import key_of, unsigned

# Threads of short rows and of longer ones, the longest of the former, and keys of a thread.
FEW, MANY, SHORT, MOST_KEYS = 64, 256, 1024, 64
LONGEST = MANY * MOST_KEYS
# What shared memory has room for.
MOST_TAKEN = 1024
KEY_BITS, BITS = 32, 2  # the latter of a round
# Of what is taken, fetched at once, and compared with it at once.
STEP, AT_ONCE = 8, 4
HALF = 16  # of a word that holds two counts


def fits(count: int, k: int) -> bool:
    """Whether a workgroup can find the k of a row of ``count``."""
    return count <= LONGEST and k <= MOST_TAKEN


def top_k_in_group(x: te.Tensor, k: int, largest: bool) -> list[te.Tensor]:
    """The k largest or smallest of each row, in order, and where they are: (rows, k) of x's type
    and of int32.

    x: (rows, n), of the types that ``key_of`` takes, and of a length that ``fits``.
    """
    rows, count = (int(size) for size in x.shape)
    threads = FEW if count <= SHORT else MANY
    share = -(-count // threads)
    place_bits = -(-(share * threads - 1).bit_length() // BITS) * BITS

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (given,), (values, places) = ins, outs
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        here = [each * threads + thread for each in range(share)]
        keys = local("uint32", share)
        for each, place in enumerate(here):
            # What is beyond the row is as small as can be, and behind all of it.
            keys[each] = T.uint32(0)
            with T.If(place < count), T.Then():
                keys[each] = unsigned(key_of(given[row, place], largest))
        totals = _Totals(thread, threads)
        last, place_of_last = local("uint32"), local("uint32")
        wanted = local("int32")
        wanted[0] = T.int32(k)
        _search(
            totals, last, wanted[0], KEY_BITS,
            lambda least: _count(keys[each] >= least for each in range(share)),
        )  # fmt: skip
        (larger,) = totals.of(_count(keys[each] > last[0] for each in range(share)))
        wanted[0] = T.int32(k) - larger
        # The first places are the largest from the other end.
        backwards = [T.uint32((1 << place_bits) - 1) - place.astype("uint32") for place in here]
        _search(
            totals, place_of_last, wanted[0], place_bits,
            lambda least: _count(
                tirx.all(keys[each] == last[0], backwards[each] >= least) for each in range(share)
            ),
        )  # fmt: skip

        def is_taken(each: int) -> Any:
            equal = tirx.all(
                keys[each] == last[0], backwards[each] >= place_of_last[0], here[each] < count
            )
            return tirx.any(keys[each] > last[0], equal)

        own = local("int32")
        own[0] = _count(is_taken(each) for each in range(share))
        position = before_thread(own[0], thread, threads, lambda a, b: a + b, T.int32(0))
        padded = -(-k // STEP) * STEP
        taken, where = local("uint32", padded, "shared"), local("int32", padded, "shared")
        for each, place in enumerate(here):
            with T.If(tirx.all(is_taken(each), position[0] < k)), T.Then():
                taken[position[0]], where[position[0]] = keys[each], place
                position[0] = position[0] + 1
        with T.If(thread < padded - k), T.Then():
            taken[k + thread], where[k + thread] = T.uint32(0), T.int32(LONGEST)
        barrier()
        for first in range(0, -(-k // threads), AT_ONCE):
            those = [
                thread + each * threads
                for each in range(first, min(first + AT_ONCE, -(-k // threads)))
            ]
            ranks = _ranks([tirx.min(each, k - 1) for each in those], taken, where)
            for each, (rank, place) in zip(those, ranks, strict=True):
                with T.If(each < k), T.Then():
                    values[row, rank] = given[row, place]
                    places[row, rank] = place

    launch = {"blockIdx.x": rows, "threadIdx.x": threads}
    results = [((rows, k), str(x.dtype)), ((rows, k), "int32")]
    return kernel("top_k", results, [x], launch, statements)


def _search(
    totals: _Totals, found: Any, wanted: Any, bits: int, counted: Callable[[Any], Any]
) -> None:
    """The largest number of ``bits`` for which ``counted(it)`` of all threads is ``wanted`` at the
    least, into a buffer."""
    found[0] = T.uint32(0)
    nexts = local("uint32", (1 << BITS) - 1)
    with T.serial(0, bits // BITS) as number:
        shift = T.uint32(bits - BITS) - T.uint32(BITS) * number.astype("uint32")
        for digit in range(1, 1 << BITS):
            nexts[digit - 1] = found[0] | (T.uint32(digit) << shift)
        counts = totals.of(*(counted(nexts[i]) for i in range((1 << BITS) - 1)))
        for i, count in enumerate(counts):
            found[0] = tirx.Select(count >= wanted, nexts[i], found[0])


def _ranks(those: list[Any], keys: Any, places: Any) -> list[tuple[Any, Any]]:
    """How many of the keys come before some of them, by their numbers, and their places."""
    own = [(local("uint32"), local("int32"), local("int32")) for _ in those]
    for (key, place, rank), number in zip(own, those, strict=True):
        key[0], place[0], rank[0] = keys[number], places[number], T.int32(0)
    other, there = local("uint32", STEP), local("int32", STEP)
    with T.serial(0, int(keys.shape[0]) // STEP) as step:
        for i in range(STEP):
            at = step.astype("int32") * STEP + i
            other[i], there[i] = keys[at], places[at]
        for key, place, rank in own:
            for i in range(STEP):
                before = tirx.all(other[i] == key[0], there[i] < place[0])
                rank[0] = rank[0] + tirx.any(other[i] > key[0], before).astype("int32")
    return [(rank[0], place[0]) for _, place, rank in own]


class _Totals:
    """Sums of the threads of a workgroup."""

    def __init__(self, thread: Any, threads: int) -> None:
        self._thread, self._groups = thread, threads // GROUP
        self._each = [local("int32", threads, "shared") for _ in range(2)]
        self._sums = [local("int32", self._groups, "shared") for _ in range(2)]
        self._own = local("int32")

    def of(self, *numbers: Any) -> list[Any]:
        """The sums of one number of each thread or of three, each less than 1 << HALF."""
        words = list(numbers)
        if len(numbers) == 3:
            words = [numbers[0] + (numbers[1] << T.int32(HALF)), numbers[2]]
        used = list(zip(self._each, self._sums, words, strict=False))
        for each, _, word in used:
            each[self._thread] = word
        barrier()
        with T.If(self._thread < self._groups), T.Then():
            for each, sums, _ in used:
                self._add(each, self._thread * GROUP, GROUP)
                sums[self._thread] = self._own[0]
        barrier()
        totals = []
        for _, sums, _ in used:
            self._add(sums, T.int32(0), self._groups)
            totals.append(local("int32"))
            totals[-1][0] = self._own[0]
        if len(numbers) == 1:
            return [totals[0][0]]
        low = totals[0][0] & T.int32((1 << HALF) - 1)
        return [low, totals[0][0] >> T.int32(HALF), totals[1][0]]

    def _add(self, buffer: Any, first: Any, count: int) -> None:
        # Written out, so that no load waits for the one before it.
        self._own[0] = sum((buffer[first + i] for i in range(1, count)), start=buffer[first])


def _count(conditions: Any) -> Any:
    """How many hold: int32."""
    return sum((each.astype("int32") for each in conditions), start=T.int32(0))
