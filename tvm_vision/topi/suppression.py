"""Greedy suppression of boxes that overlap, as onnxruntime does it, on a processor and on GPUs.

The best box that is left is kept, and those that overlap it go, until none is left. Each thread has
a list of its own candidates, which shrinks as they go: a turn costs what is left, not all pairs,
and there are as many turns as boxes are kept.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

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

    Three tensors of int32, for the current target: the boxes kept (images · classes, most), 0
    behind the last; how many they are (images · classes,); and scratch.
    """
    images, classes, count = (int(size) for size in scores.shape)
    rows, threads = images * classes, _threads()
    per_thread = -(-count // threads)

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        kernel = _Kernel(
            buffers=[T.buffer_proxy(buffer) for buffer in (*ins, *outs)],
            classes=classes,
            boxes_of_image=count,
            most=most,
            threads=threads,
        )
        with IRBuilder() as builder:
            if threads == 1:
                with T.parallel(0, rows) as row:
                    kernel.one_class(row, 0)
            else:
                block, thread = (te.thread_axis(f"{axis}Idx.x") for axis in ("block", "thread"))
                launch = [(block, rows), (thread, threads)]
                attributes = [T.attr(axis, "thread_extent", size) for axis, size in launch]
                with T.frame_scope(attributes):
                    kernel.one_class(block.var, thread.var)
            return builder.get()

    result: list[te.Tensor] = te.extern(
        [(rows, most), (rows,), (rows, per_thread * threads)],
        [boxes, scores, limits, thresholds],
        body,
        dtype=["int32"] * 3,
        name="suppression",
    )
    return result


def _threads() -> int:
    target = tvm.target.Target.current(allow_none=True)
    if target is None or "gpu" not in target.keys:
        return 1
    most = min(THREADS, int(target.attrs["max_num_threads"]))
    return most // GROUP * GROUP


@dataclass
class _Kernel:
    """What one workgroup does, or one thread of a processor: the boxes of a class of an image."""

    buffers: list[Any]
    classes: int
    boxes_of_image: int
    most: int
    threads: int

    def __post_init__(self) -> None:
        self.boxes, self.scores, self.limits, self.thresholds = self.buffers[:4]
        self.kept, self.counts, self.lists = self.buffers[4:]

    def one_class(self, row: Any, thread: Any) -> None:
        """The kernel's statements; ``row`` counts the classes of all images."""
        self._row, self._thread = row, thread
        if self.threads > 1:
            sizes = (self.threads, self.threads // GROUP, 1)
            self._levels = [
                (_buffer("float32", size, "shared"), _buffer("int32", size, "shared"))
                for size in sizes
            ]
        self._corners = _buffer("float32", 4)
        own, found, running, last = (_buffer("int32") for _ in range(4))
        best = _Best(_buffer("float32"), _buffer("int32"), _buffer("float32"), _buffer("int32"))
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
            box = turn * self.threads + self._thread
            wanted = [box < self.boxes_of_image, box < self.limits[0]]
            # A score behind the last is not there to be read.
            with T.If(tirx.all(*wanted)), T.Then():
                with T.If(self._score(box) > self.thresholds[1]), T.Then():
                    self._append(own, box)

    def _drop_suppressed(self, own: Any, last: Any, best: _Best) -> None:
        """Shorten the thread's list by what the box kept last overlaps, and find its best."""
        left = _buffer("int32")
        left[0], best.box[0] = T.int32(0), T.int32(-1)
        with T.If(last[0] >= 0), T.Then():
            for place, value in enumerate(self._corners_of(last[0])):
                self._corners[place] = value
        with T.serial(0, own[0]) as turn:
            box = self.lists[self._row, turn * self.threads + self._thread]
            gone = tirx.all(last[0] >= 0, tirx.any(box == last[0], self._overlap(box)))
            with T.If(tirx.Not(gone)), T.Then():
                self._append(left, box)
                best.take(self._score(box), box)
        own[0] = left[0]

    def _best_of_all(self, best: _Best) -> Any:
        """The best candidate of all threads; -1 where there is none.

        Some threads find the best of GROUP each, and the first the best of these.
        """
        if self.threads == 1:
            return best.box[0]
        self._hand_over(best, 0, self.threads)
        sizes = (self.threads, self.threads // GROUP, 1)
        for level, (before, here) in enumerate(itertools.pairwise(sizes)):
            scores, boxes = self._levels[level]
            members = before // here
            with T.If(self._thread < here), T.Then():
                best.box[0] = T.int32(-1)
                with T.serial(0, members) as member:
                    place = self._thread * members + member
                    best.take(scores[place], boxes[place])
            self._hand_over(best, level + 1, here)
        # Read from memory that all threads share, it is known to be the same for all.
        return self._levels[-1][1][0]

    def _hand_over(self, best: _Best, level: int, threads: int) -> None:
        scores, boxes = self._levels[level]
        with T.If(self._thread < threads), T.Then():
            scores[self._thread], boxes[self._thread] = best.score[0], best.box[0]
        self._barrier()

    def _overlap(self, box: Any) -> Any:
        """Whether a box overlaps the one kept last by more than the threshold.

        By a product, which is rounded in one way on all devices, and a quotient is not.
        """
        left, top, right, bottom = (self._corners[place] for place in range(4))
        x0, y0, x1, y1 = self._corners_of(box)
        zero = T.float32(0.0)
        width = tirx.max(tirx.min(right, x1) - tirx.max(left, x0), zero)
        height = tirx.max(tirx.min(bottom, y1) - tirx.max(top, y0), zero)
        common = width * height
        first, second = (right - left) * (bottom - top), (x1 - x0) * (y1 - y0)
        union = first + second - common
        filled = tirx.all(common > zero, first > zero, second > zero, union > zero)
        return tirx.all(filled, common > self.thresholds[0] * union)

    def _corners_of(self, box: Any) -> tuple[Any, Any, Any, Any]:
        image = self._row // self.classes
        a, b, c, d = (self.boxes[image, box, place] for place in range(4))
        return tirx.min(a, c), tirx.min(b, d), tirx.max(a, c), tirx.max(b, d)

    def _score(self, box: Any) -> Any:
        return self.scores[self._row // self.classes, self._row % self.classes, box]

    def _append(self, length: Any, box: Any) -> None:
        self.lists[self._row, length[0] * self.threads + self._thread] = box
        length[0] = length[0] + 1

    def _fill(self, found: Any) -> None:
        with T.serial(0, -(-self.most // self.threads)) as turn:
            place = turn * self.threads + self._thread
            with T.If(tirx.all(place < self.most, place >= found[0])), T.Then():
                self.kept[self._row, place] = T.int32(0)

    def _store_kept(self, place: Any, box: Any) -> None:
        self.kept[self._row, place] = box

    def _store_count(self, count: Any) -> None:
        self.counts[self._row] = count

    def _by_first(self, statement: Any) -> None:
        if self.threads == 1:
            statement()
            return
        with T.If(self._thread == 0), T.Then():
            statement()

    def _barrier(self) -> None:
        if self.threads > 1:
            shared = [tvm.ir.StringImm("shared")]
            T.evaluate(tvm.ir.Call("tirx.tvm_storage_sync", shared, ret_ty="void"))


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


def _buffer(dtype: str, size: int = 1, scope: str = "local") -> Any:
    return T.buffer_proxy(T.decl_buffer([size], dtype, scope=scope))
