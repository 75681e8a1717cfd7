"""Suppression on a GPU, in three kernels.

The candidates of a class are listed, and each finds its place by counting those before it. Then one
workgroup takes them in order, a block of BLOCK after another: within a block each knows which
earlier ones it overlaps, as bits, and is decided as soon as these are; all threads then drop what
the block's kept boxes overlap behind it. So there are as many turns as blocks of candidates, and
not as boxes are kept: an H200 took 7 us for each of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from .by_hand import barrier, before_thread, kernel, local
from .suppression_rules import Box, corners_of, exceeds, with_area

THREADS = 256
BLOCK = 64  # candidates that are decided together
BITS = 32
WORDS = BLOCK // BITS
UNDECIDED, KEPT, GONE = 0, 1, 2


def threads_for(target: Target) -> int:
    """Threads of a workgroup: a multiple of BLOCK."""
    most = min(THREADS, int(target.attrs["max_num_threads"]))
    return max(most // BLOCK, 1) * BLOCK


def candidates_of(
    scores: te.Tensor, limits: te.Tensor, thresholds: te.Tensor, threads: int
) -> list[te.Tensor]:
    """Which boxes of each row (image and class) are real and score enough: (rows, boxes) int32, in
    an order that is the same in each run; their scores (rows, boxes); how many (rows,) int32."""
    images, classes, count = (int(size) for size in scores.shape)
    rows = images * classes

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (of, limits, thresholds), (listed, values, counts) = ins, outs
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        own = local("int32")

        def through(take: Callable[[Any, Any], None]) -> None:
            with T.serial(0, -(-count // threads)) as turn:
                box = turn * threads + thread
                # A score behind the last is not there to be read.
                with T.If(tirx.all(box < count, box < limits[0])), T.Then():
                    score = of[row // classes, row % classes, box]
                    with T.If(score > thresholds[1]), T.Then():
                        take(box, score)

        def counted(box: Any, score: Any) -> None:
            own[0] = own[0] + 1

        own[0] = T.int32(0)
        through(counted)
        place = before_thread(own[0], thread, threads, lambda a, b: a + b, T.int32(0))

        def stored(box: Any, score: Any) -> None:
            listed[row, place[0]], values[row, place[0]] = box, score
            place[0] = place[0] + 1

        through(stored)
        with T.If(thread == threads - 1), T.Then():
            counts[row] = place[0]

    return kernel(
        "suppression",
        [((rows, count), "int32"), ((rows, count), "float32"), ((rows,), "int32")],
        [scores, limits, thresholds],
        {"blockIdx.x": rows, "threadIdx.x": threads},
        statements,
    )


def in_order(
    listed: te.Tensor, values: te.Tensor, counts: te.Tensor, threads: int
) -> list[te.Tensor]:
    """The candidates by falling score, ties by rising index: (rows, boxes) int32."""
    rows, count = (int(size) for size in listed.shape)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (listed, values, counts), (ordered,) = ins, outs
        row, i = at["blockIdx.y"], at["blockIdx.x"] * threads + at["threadIdx.x"]
        box, score, rank, end = local("int32"), local("float32"), local("int32"), local("int32")
        end[0] = counts[row]
        with T.If(i < end[0]), T.Then():
            box[0], score[0], rank[0] = listed[row, i], values[row, i], T.int32(0)
            with T.serial(0, end[0]) as j:
                other = values[row, j]
                tie = tirx.all(other == score[0], listed[row, j] < box[0])
                rank[0] = rank[0] + tirx.any(other > score[0], tie).astype("int32")
            ordered[row, rank[0]] = box[0]

    return kernel(
        "suppression",
        [((rows, count), "int32")],
        [listed, values, counts],
        {"blockIdx.x": -(-count // threads), "blockIdx.y": rows, "threadIdx.x": threads},
        statements,
    )


def kept_in_blocks(
    boxes: te.Tensor,
    ordered: te.Tensor,
    counts: te.Tensor,
    limits: te.Tensor,
    thresholds: te.Tensor,
    classes: int,
    most: int,
    threads: int,
) -> list[te.Tensor]:
    """What ``suppression`` gives, of the candidates in order."""
    rows, count = (int(size) for size in ordered.shape)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        _Blocks(ins, outs, classes, row, thread, threads).statements()

    return kernel(
        "suppression",
        [((rows, most), "int32"), ((rows,), "int32"), ((rows, count), "int32")],
        [boxes, ordered, counts, limits, thresholds],
        {"blockIdx.x": rows, "threadIdx.x": threads},
        statements,
    )


@dataclass
class _Blocks:
    """What one workgroup does: thread: its number among ``threads``."""

    inputs: list[Any]
    results: list[Any]
    classes: int
    row: Any
    thread: Any
    threads: int

    def __post_init__(self) -> None:
        self.boxes, self.ordered, self.counts, self.limits, self.thresholds = self.inputs
        self.kept, self.found_of, self.gone = self.results
        self.most, self.count = int(self.kept.shape[1]), int(self.ordered.shape[1])
        # Of the block's candidates: corners and area, and what is known of them.
        self.sides = [local("float32", BLOCK, "shared") for _ in range(5)]
        self.state = local("int32", BLOCK, "shared")
        self.kept_bits, self.open_bits = (local("uint32", WORDS, "shared") for _ in range(2))
        # Of the thread's candidate, if it has one: which, corners and area, state, and which
        # before it it overlaps.
        self.box, self.own = local("int32"), local("int32")
        self.corners, self.overlaps = local("float32", 5), local("uint32", WORDS)

    def statements(self) -> None:
        """Write the boxes kept, and how many they are."""
        found, block, running, end = (local("int32") for _ in range(4))
        end[0] = self.counts[self.row]
        found[0], block[0] = T.int32(0), T.int32(0)
        limit = tirx.min(self.limits[1], T.int32(self.most))
        with T.serial(0, -(-self.count // self.threads)) as turn:
            place = turn * self.threads + self.thread
            with T.If(place < end[0]), T.Then():
                self.gone[self.row, place] = T.int32(0)
        running[0] = (end[0] > 0).astype("int32")
        with T.While(running[0] > 0):
            first = block[0] * BLOCK
            # The threads take turns, so that each reads what it wrote of its candidates itself.
            slot = self.thread - first % self.threads
            self._read_block(slot, first, end)
            self._decide(slot)
            self._store_kept(slot, found, limit)
            block[0] = block[0] + 1
            more = tirx.all(block[0] * BLOCK < end[0], found[0] < limit)
            with T.If(more):
                with T.Then():
                    self._drop_behind(block[0] * BLOCK, end)
                with T.Else():
                    running[0] = T.int32(0)
            barrier()
        with T.serial(0, -(-self.most // self.threads)) as turn:
            place = turn * self.threads + self.thread
            with T.If(tirx.all(place < self.most, place >= found[0])), T.Then():
                self.kept[self.row, place] = T.int32(0)
        with T.If(self.thread == 0), T.Then():
            self.found_of[self.row] = found[0]

    def _read_block(self, slot: Any, first: Any, end: Any) -> None:
        self.own[0] = T.int32(GONE)
        with T.If(tirx.all(slot >= 0, slot < BLOCK)), T.Then():
            place = first + slot
            with T.If(place < end[0]), T.Then():
                with T.If(self.gone[self.row, place] == 0), T.Then():
                    self._take(place)
                    for side, value in zip(self.sides, self._sides(self.corners), strict=True):
                        side[slot] = value
                    self.own[0] = T.int32(UNDECIDED)
            self.state[slot] = self.own[0]
        barrier()

    def _take(self, place: Any) -> None:
        """The candidate at a place, as the thread's own."""
        self.box[0] = self.ordered[self.row, place]
        image = self.row // self.classes
        box = with_area(*corners_of(self.boxes, image, self.box[0]))
        for i, value in enumerate((box.left, box.top, box.right, box.bottom, box.area)):
            self.corners[i] = value

    def _sides(self, corners: Any) -> list[Any]:
        return [corners[i] for i in range(5)]

    def _overlapped_by(self, i: Any) -> Any:
        """1 where a candidate of the block overlaps the thread's own, 0 elsewhere.

        A number, since what decides a branch cannot be read from shared memory.
        """
        other = Box(*(side[i] for side in self.sides))
        overlaps = exceeds(other, Box(*self._sides(self.corners)), self.thresholds[0])
        return overlaps.astype("uint32")

    def _decide(self, slot: Any) -> None:
        """Which of the block's candidates are kept: a candidate is as soon as none before it that
        it overlaps is kept or undecided."""
        state, running = local("int32"), local("int32")
        kept, left, undecided = (local("uint32") for _ in range(3))
        with T.If(self.own[0] == UNDECIDED), T.Then():
            for word in range(WORDS):
                self.overlaps[word] = T.uint32(0)
                with T.serial(0, BITS) as bit:
                    state[0] = self.state[word * BITS + bit]
                    with T.If(tirx.all(word * BITS + bit < slot, state[0] == UNDECIDED)), T.Then():
                        overlaps = self._overlapped_by(word * BITS + bit)
                        self.overlaps[word] = self.overlaps[word] | _shifted(overlaps, bit)
        running[0] = T.int32(1)
        with T.While(running[0] > 0):
            with T.If(self.thread < WORDS), T.Then():
                kept[0], left[0] = T.uint32(0), T.uint32(0)
                with T.serial(0, BITS) as bit:
                    state[0] = self.state[self.thread * BITS + bit]
                    kept[0] = kept[0] | _shifted(state[0] == KEPT, bit)
                    left[0] = left[0] | _shifted(state[0] == UNDECIDED, bit)
                self.kept_bits[self.thread], self.open_bits[self.thread] = kept[0], left[0]
            barrier()
            kept[0], left[0], undecided[0] = (T.uint32(0) for _ in range(3))
            for word in range(WORDS):
                kept[0] = kept[0] | (self.overlaps[word] & self.kept_bits[word])
                left[0] = left[0] | (self.overlaps[word] & self.open_bits[word])
                undecided[0] = undecided[0] | self.open_bits[word]
            running[0] = (undecided[0] != 0).astype("int32")
            with T.If(self.own[0] == UNDECIDED), T.Then():
                with T.If(kept[0] != 0):
                    with T.Then():
                        self.own[0] = T.int32(GONE)
                    with T.Else():
                        with T.If(left[0] == 0), T.Then():
                            self.own[0] = T.int32(KEPT)
                self.state[slot] = self.own[0]
            barrier()

    def _store_kept(self, slot: Any, found: Any, limit: Any) -> None:
        total, place, mask = local("int32"), local("int32"), local("uint32")
        total[0], place[0] = T.int32(0), found[0]
        for word in range(WORDS):
            # Of those before the thread's own; a word is not shifted by its whole length.
            before = tirx.min(tirx.max(slot - word * BITS, 0), BITS)
            mask[0] = _shifted(T.uint32(1), tirx.min(before, BITS - 1)) - T.uint32(1)
            with T.If(before == BITS), T.Then():
                mask[0] = T.uint32(0xFFFFFFFF)
            for found_of, bits in ((place, mask[0]), (total, T.uint32(0xFFFFFFFF))):
                found_of[0] = found_of[0] + _ones(self.kept_bits[word] & bits)
        with T.If(tirx.all(self.own[0] == KEPT, place[0] < limit)), T.Then():
            self.kept[self.row, place[0]] = self.box[0]
        found[0] = tirx.min(found[0] + total[0], limit)

    def _drop_behind(self, start: Any, end: Any) -> None:
        """Of the candidates from a place on, those that the block's kept ones overlap."""
        bits, dropped = local("uint32"), local("uint32")
        turns = (start // self.threads, tirx.floordiv(end[0] + self.threads - 1, self.threads))
        with T.serial(*turns) as turn:
            place = turn * self.threads + self.thread
            with T.If(tirx.all(place >= start, place < end[0])), T.Then():
                with T.If(self.gone[self.row, place] == 0), T.Then():
                    self._take(place)
                    dropped[0] = T.uint32(0)
                    for word in range(WORDS):
                        bits[0] = self.kept_bits[word]
                        with T.serial(0, BITS) as bit:
                            with T.If((bits[0] & _shifted(T.uint32(1), bit)) != 0), T.Then():
                                overlaps = self._overlapped_by(word * BITS + bit)
                                dropped[0] = dropped[0] | overlaps
                    self.gone[self.row, place] = dropped[0].astype("int32")


# Bits are unsigned: TVM computes with signed numbers of 64 bits where it knows no bound.
def _shifted(bits: Any, by: Any) -> Any:
    return bits.astype("uint32") << by.astype("uint32")


def _ones(bits: Any) -> Any:
    return tirx.popcount(bits).astype("int32")
