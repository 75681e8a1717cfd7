"""Greedy suppression of boxes that overlap, as onnxruntime does it, on a processor and on GPUs.

On a GPU the best box that is left is kept, and those that overlap it go, until none is left. Each
thread has a list of its own candidates, which shrinks as they go: a turn costs what is left, not
all pairs, and there are as many turns as boxes are kept. Processors have suppression_heap.py.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .barrier import barrier
from .suppression_heap import VALUES, HeapKernel, store_corners
from .suppression_rules import Rules, local, with_area

THREADS = 256
GROUP = 16


def suppression(
    boxes: te.Tensor,
    scores: te.Tensor,
    limits: te.Tensor,
    thresholds: te.Tensor,
    most: int,
) -> list[te.Tensor]:
    """The boxes that are kept, for each image and class by falling score, ties by rising index.

    boxes: (images, boxes, 4) float32, two opposite corners.
    scores: (images, classes, boxes) float32, none of them infinite.
    limits: (2,) int32, how many of the boxes are real, and how many of a class may be kept.
    thresholds: (2,) float32, the IoU above which a box goes, and the score above which it is
        a candidate.
    most: columns of the result: no more boxes of a class are kept.

    For the current target: the boxes kept (images · classes, most) int32, 0 behind the last; how
    many they are (images · classes,) int32; and scratch.
    """
    images, classes, count = (int(size) for size in scores.shape)
    rows, threads = images * classes, _threads()
    per_thread = -(-count // threads)
    shapes, dtypes = [(rows, most), (rows,), (rows, per_thread * threads)], ["int32"] * 3
    if threads == 1:
        shapes, dtypes = [*shapes, (images, count, VALUES)], [*dtypes, "float32"]

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        inputs, results = ([T.buffer_proxy(buffer) for buffer in those] for those in (ins, outs))
        if threads == 1:
            with IRBuilder() as first:
                store_corners(inputs[0], results[3])
            with IRBuilder() as second, T.parallel(0, rows) as row:
                HeapKernel(inputs, results, classes, row).statements()
            return tirx.SeqStmt([first.get(), second.get()])
        with IRBuilder() as builder:
            block, thread = (te.thread_axis(f"{axis}Idx.x") for axis in ("block", "thread"))
            launch = [(block, rows), (thread, threads)]
            attributes = [T.attr(axis, "thread_extent", size) for axis, size in launch]
            with T.frame_scope(attributes):
                _Turns(inputs, results, classes, block.var, thread.var, threads).statements()
            return builder.get()

    result: list[te.Tensor] = te.extern(
        shapes, [boxes, scores, limits, thresholds], body, dtype=dtypes, name="suppression"
    )
    return result


def _threads() -> int:
    target = tvm.target.Target.current(allow_none=True)
    if target is None or "gpu" not in target.keys:
        return 1
    most = min(THREADS, int(target.attrs["max_num_threads"]))
    return most // GROUP * GROUP


@dataclass
class _Turns(Rules):
    """What one workgroup of a GPU does; thread: its number among ``threads``."""

    thread: Any
    threads: int

    def statements(self) -> None:
        """Write the boxes kept, and how many they are."""
        sizes = (self.threads, self.threads // GROUP, 1)
        self._levels = [
            (local("float32", size, "shared"), local("int32", size, "shared")) for size in sizes
        ]
        self._corners = local("float32", 4)
        own, found, running, last = (local("int32") for _ in range(4))
        best = _Best(local("float32"), local("int32"), local("float32"), local("int32"))
        self._list_candidates(own)
        found[0], running[0], last[0] = T.int32(0), T.int32(1), T.int32(-1)
        limit = tirx.min(self.limits[1], T.int32(self.most))
        with T.While(running[0] > 0):
            self._drop_suppressed(own, last, best)
            last[0] = self._best_of_all(best)
            with T.If(tirx.all(last[0] >= 0, found[0] < limit)):
                with T.Then():
                    self._by_first(lambda: self._store_kept(found[0], last[0]))
                    found[0] = found[0] + 1
                with T.Else():
                    running[0] = T.int32(0)
        self._fill(found)
        self._by_first(lambda: self._store_count(found[0]))

    def _list_candidates(self, own: Any) -> None:
        """The thread's own candidates, by rising index."""
        own[0] = T.int32(0)
        with T.serial(0, -(-self.boxes_of_image // self.threads)) as turn:
            box = turn * self.threads + self.thread
            wanted = [box < self.boxes_of_image, box < self.limits[0]]
            # A score behind the last is not there to be read.
            with T.If(tirx.all(*wanted)), T.Then():
                with T.If(self.score(box) > self.thresholds[1]), T.Then():
                    self._append(own, box)

    def _drop_suppressed(self, own: Any, last: Any, best: _Best) -> None:
        """Shorten the thread's list by what the box kept last overlaps, and find its best."""
        left = local("int32")
        left[0], best.box[0] = T.int32(0), T.int32(-1)
        with T.If(last[0] >= 0), T.Then():
            for place, value in enumerate(self.corners(last[0])):
                self._corners[place] = value
        with T.serial(0, own[0]) as turn:
            box = self.lists[self.row, turn * self.threads + self.thread]
            gone = tirx.all(last[0] >= 0, tirx.any(box == last[0], self._overlap(box)))
            with T.If(tirx.Not(gone)), T.Then():
                self._append(left, box)
                best.take(self.score(box), box)
        own[0] = left[0]

    def _best_of_all(self, best: _Best) -> Any:
        """The best candidate of all threads; -1 where there is none.

        Some threads find the best of GROUP each, and the first the best of these.
        """
        self._hand_over(best, 0, self.threads)
        sizes = (self.threads, self.threads // GROUP, 1)
        for level, (before, here) in enumerate(itertools.pairwise(sizes)):
            scores, boxes = self._levels[level]
            members = before // here
            with T.If(self.thread < here), T.Then():
                best.box[0] = T.int32(-1)
                with T.serial(0, members) as member:
                    place = self.thread * members + member
                    best.take(scores[place], boxes[place])
            self._hand_over(best, level + 1, here)
        # Read from memory that all threads share, it is known to be the same for all.
        return self._levels[-1][1][0]

    def _hand_over(self, best: _Best, level: int, threads: int) -> None:
        scores, boxes = self._levels[level]
        with T.If(self.thread < threads), T.Then():
            scores[self.thread], boxes[self.thread] = best.score[0], best.box[0]
        barrier()

    def _overlap(self, box: Any) -> Any:
        """Whether a box overlaps the one kept last by more than the threshold."""
        kept = with_area(*(self._corners[place] for place in range(4)))
        return self.exceeds(kept, with_area(*self.corners(box)))

    def _append(self, length: Any, box: Any) -> None:
        self.lists[self.row, length[0] * self.threads + self.thread] = box
        length[0] = length[0] + 1

    def _fill(self, found: Any) -> None:
        with T.serial(0, -(-self.most // self.threads)) as turn:
            place = turn * self.threads + self.thread
            with T.If(tirx.all(place < self.most, place >= found[0])), T.Then():
                self.kept[self.row, place] = T.int32(0)

    def _store_kept(self, place: Any, box: Any) -> None:
        self.kept[self.row, place] = box

    def _store_count(self, count: Any) -> None:
        self.counts[self.row] = count

    def _by_first(self, statement: Any) -> None:
        with T.If(self.thread == 0), T.Then():
            statement()


@dataclass
class _Best:
    """The best candidate so far: its score and its number, -1 for none; and one to compare it to.

    What decides a branch cannot be read from shared memory.
    """

    score: Any
    box: Any
    other_score: Any
    other: Any

    def take(self, score: Any, box: Any) -> None:
        """Take another one if it is better, or as good and earlier."""
        self.other_score[0], self.other[0] = score, box
        tie = tirx.all(self.other_score[0] == self.score[0], self.other[0] < self.box[0])
        better = tirx.any(self.box[0] < 0, self.other_score[0] > self.score[0], tie)
        with T.If(tirx.all(self.other[0] >= 0, better)), T.Then():
            self.score[0], self.box[0] = self.other_score[0], self.other[0]
