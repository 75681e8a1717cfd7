"""Suppression on a GPU, in three kernels.

The candidates of a class are listed, and each finds its place by counting those before it. Then one
workgroup takes them in order, a block of BLOCK after another: those that a box kept before overlaps
go, the others know which before them in the block they overlap, as bits, and each is decided as
soon as these are. So there are as many turns as blocks of candidates that are looked at, and not as
boxes are kept: an H200 took 7 us for each of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from .by_hand import barrier, before_thread, kernel, local
from .suppression_rules import Box, corners_of, overlapping, with_area

THREADS = 256
BLOCK = 64  # candidates that are decided together
BITS = 32
WORDS = BLOCK // BITS
SIDES = ("left", "top", "right", "bottom", "area")  # of a Box
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
        row, thread = at["blockIdx.y"], at["threadIdx.x"]
        first = at["blockIdx.x"] * threads
        i = first + thread
        box, score, end = local("int32"), local("float32"), local("int32")
        rank = local("uint32")
        # All threads look at the same candidates, which they fetch together.
        boxes, scores = local("int32", threads, "shared"), local("float32", threads, "shared")
        box[0], score[0], rank[0], end[0] = T.int32(0), T.float32(0), T.uint32(0), counts[row]
        with T.If(i < end[0]), T.Then():
            box[0], score[0] = listed[row, i], values[row, i]
        tiles = tirx.floordiv(end[0] + (threads - 1), threads)
        with T.serial(0, tirx.Select(first < end[0], tiles, T.int32(0))) as tile:
            begin = tile.astype("int32") * threads
            # Behind all others: no score is less, and no box that scores as little.
            boxes[thread], scores[thread] = tirx.max_value("int32"), tirx.min_value("float32")
            with T.If(begin + thread < end[0]), T.Then():
                boxes[thread] = listed[row, begin + thread]
                scores[thread] = values[row, begin + thread]
            barrier()
            with T.serial(0, threads) as j:
                tie = _both(scores[j] == score[0], boxes[j] < box[0])
                rank[0] = rank[0] + (scores[j] > score[0]).astype("uint32") + tie
            barrier()
        with T.If(i < end[0]), T.Then():
            ordered[row, rank[0].astype("int32")] = box[0]

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
    rows = int(ordered.shape[0])

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        _Blocks(ins, outs, classes, row, thread, threads).statements()

    return kernel(
        "suppression",
        [((rows, most), "int32"), ((rows,), "int32"), ((rows, len(SIDES), most), "float32")],
        [boxes, ordered, counts, limits, thresholds],
        {"blockIdx.x": rows, "threadIdx.x": threads},
        statements,
    )


@dataclass
class _Blocks:
    """What one workgroup does; thread: its number among ``threads``.

    Each candidate of a block has several threads, one of BLOCK after another, which share the boxes
    to compare it with; the first BLOCK threads decide about one each.
    """

    inputs: list[Any]
    results: list[Any]
    classes: int
    row: Any
    thread: Any
    threads: int

    def __post_init__(self) -> None:
        self.boxes, self.ordered, self.counts, self.limits, self.thresholds = self.inputs
        self.kept, self.found_of, self.kept_sides = self.results
        self.most = int(self.kept.shape[1])
        self.sharing, self.slot = self.threads // BLOCK, self.thread % BLOCK
        self.share = self.thread // BLOCK
        # Of the block's candidates: corners and area, those of boxes kept before, what is known of
        # the candidates, whether a box kept before overlaps them, and which before them they
        # overlap, by words.
        self.sides = [local("float32", BLOCK, "shared") for _ in SIDES]
        self.tile = [local("float32", self.threads, "shared") for _ in SIDES]
        self.state = local("int32", BLOCK, "shared")
        self.dropped = local("uint32", self.threads, "shared")
        self.overlaps_of = local("uint32", WORDS * BLOCK, "shared")
        self.kept_bits, self.open_bits = (local("uint32", WORDS, "shared") for _ in range(2))
        # Of the thread's candidate: which, corners and area, state, and those words.
        self.box, self.own = local("int32"), local("int32")
        self.corners, self.overlaps = local("float32", len(SIDES)), local("uint32", WORDS)
        self.overlap = local("float32")

    def statements(self) -> None:
        """Write the boxes kept, and how many they are."""
        found, first, running, end = (local("int32") for _ in range(4))
        end[0], self.overlap[0] = self.counts[self.row], self.thresholds[0]
        found[0], first[0] = T.int32(0), T.int32(0)
        limit = tirx.min(self.limits[1], T.int32(self.most))
        running[0] = (end[0] > 0).astype("int32")
        with T.While(running[0] > 0):
            self._read_block(first[0], end[0], found[0])
            self._compare_within_block()
            self._decide()
            self._store_kept(found, limit)
            first[0] = first[0] + BLOCK
            more = tirx.all(first[0] < end[0], found[0] < limit)
            running[0] = more.astype("int32")
            barrier()
        with T.serial(0, -(-self.most // self.threads)) as turn:
            place = turn * self.threads + self.thread
            with T.If(tirx.all(place < self.most, place >= found[0])), T.Then():
                self.kept[self.row, place] = T.int32(0)
        with T.If(self.thread == 0), T.Then():
            self.found_of[self.row] = found[0]

    def _read_block(self, first: Any, end: Any, found: Any) -> None:
        """The block's candidates, those that a box kept before overlaps gone."""
        dropped, undecided = local("uint32"), local("uint32")
        place = first + self.slot
        dropped[0], self.box[0] = T.uint32(1), T.int32(0)
        with T.If(place < end), T.Then():
            dropped[0], self.box[0] = T.uint32(0), self.ordered[self.row, place]
        box = with_area(*corners_of(self.boxes, self.row // self.classes, self.box[0]))
        for i, side in enumerate(SIDES):
            self.corners[i] = getattr(box, side)
        # Memory that others wrote is far away: as many boxes at a time as there are threads are
        # fetched together.
        with T.serial(0, tirx.floordiv(found + (self.threads - 1), self.threads)) as turn:
            tile = turn.astype("int32") * self.threads
            with T.If(tile + self.thread < found), T.Then():
                for i, fetched in enumerate(self.tile):
                    fetched[self.thread] = self.kept_sides[self.row, i, tile + self.thread]
            barrier()
            with T.serial(0, self.threads // self.sharing) as member:
                number = member.astype("int32") * self.sharing + self.share
                with T.If(tile + number < found), T.Then():
                    overlaps = self._overlapped_by(Box(*(side[number] for side in self.tile)))
                    dropped[0] = dropped[0] | overlaps
            barrier()
        self.dropped[self.thread] = dropped[0]
        barrier()
        self.own[0] = T.int32(GONE)
        with T.If(self.thread < BLOCK), T.Then():
            undecided[0] = T.uint32(0)
            for share in range(self.sharing):
                undecided[0] = undecided[0] | self.dropped[share * BLOCK + self.thread]
            with T.If(undecided[0] == 0), T.Then():
                self.own[0] = T.int32(UNDECIDED)
                for i, side in enumerate(self.sides):
                    side[self.slot] = self.corners[i]
            self.state[self.slot] = self.own[0]
        barrier()

    def _overlapped_by(self, other: Box) -> Any:
        """1 where a box that comes before overlaps the thread's candidate, 0 elsewhere.

        A number, of numbers: what decides a branch cannot be read from shared memory, and every
        condition behind another is a branch.
        """
        own = Box(*(self.corners[i] for i in range(len(SIDES))))
        return _both(*overlapping(other, own, self.overlap[0]))

    def _compare_within_block(self) -> None:
        """Which of the block's candidates overlap one before them."""
        state, bits = local("int32"), local("uint32")
        for word in range(WORDS):
            with T.If(self.share == word % self.sharing), T.Then():
                bits[0] = T.uint32(0)
                with T.serial(0, BITS) as bit:
                    i = word * BITS + bit.astype("int32")
                    state[0] = self.state[i]
                    with T.If(tirx.all(i < self.slot, state[0] == UNDECIDED)), T.Then():
                        overlaps = self._overlapped_by(Box(*(side[i] for side in self.sides)))
                        bits[0] = bits[0] | _shifted(overlaps, bit)
                self.overlaps_of[word * BLOCK + self.slot] = bits[0]
        barrier()
        for word in range(WORDS):
            self.overlaps[word] = self.overlaps_of[word * BLOCK + self.slot]

    def _decide(self) -> None:
        """Which of the block's candidates are kept: a candidate is as soon as none before it that
        it overlaps is kept or undecided."""
        state, running = local("int32"), local("int32")
        kept, left, undecided = (local("uint32") for _ in range(3))
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
                self.state[self.slot] = self.own[0]
            barrier()

    def _store_kept(self, found: Any, limit: Any) -> None:
        total, place, mask = local("int32"), local("int32"), local("uint32")
        total[0], place[0] = T.int32(0), found[0]
        for word in range(WORDS):
            # Of those before the thread's own; a word is not shifted by its whole length.
            before = tirx.min(tirx.max(self.slot - word * BITS, 0), BITS)
            mask[0] = _shifted(T.uint32(1), tirx.min(before, BITS - 1)) - T.uint32(1)
            with T.If(before == BITS), T.Then():
                mask[0] = T.uint32(0xFFFFFFFF)
            for found_of, bits in ((place, mask[0]), (total, T.uint32(0xFFFFFFFF))):
                found_of[0] = found_of[0] + _ones(self.kept_bits[word] & bits)
        with T.If(tirx.all(self.own[0] == KEPT, place[0] < limit)), T.Then():
            self.kept[self.row, place[0]] = self.box[0]
            for i in range(len(SIDES)):
                self.kept_sides[self.row, i, place[0]] = self.corners[i]
        found[0] = tirx.min(found[0] + total[0], limit)


# Bits are unsigned: TVM computes with signed numbers of 64 bits where it knows no bound.
def _shifted(bits: Any, by: Any) -> Any:
    return bits.astype("uint32") << by.astype("uint32")


def _both(one: Any, other: Any) -> Any:
    return one.astype("uint32") * other.astype("uint32")


def _ones(bits: Any) -> Any:
    return tirx.popcount(bits).astype("int32")
