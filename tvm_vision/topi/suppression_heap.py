"""Suppression on a processor: candidates in a heap, so that only those looked at are sorted.

Boxes leave the heap by falling score, ties by rising index, and each is held to those kept before
it until one overlaps it. Classes are shared out to threads.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import local
from .suppression_rules import Box, Rules, corners_of, with_area

# Corners and area of a box, beside one another.
VALUES = 5


def store_corners(boxes: Any, table: Any) -> None:
    """Statements that write the corners and the area of each box of each image into ``table``."""
    images, count, _ = table.shape
    with T.parallel(0, images * count) as each:
        image, box = each // count, each % count
        shape = with_area(*corners_of(boxes, image, box))
        values = (shape.left, shape.top, shape.right, shape.bottom, shape.area)
        for place, value in enumerate(values):
            table[image, box, place] = value


class HeapKernel(Rules):
    """What a thread does for one class of an image; results[3] is what store_corners wrote."""

    def statements(self) -> None:
        """Write the boxes kept, and how many they are."""
        self._left, self._found = local("int32"), local("int32")
        self._list_candidates()
        with T.serial(0, self._left[0] // 2) as turn:
            self._sift_down(self._left[0] // 2 - 1 - turn)
        self._found[0] = T.int32(0)
        limit = tirx.min(self.limits[1], T.int32(self.most))
        with T.While(tirx.all(self._left[0] > 0, self._found[0] < limit)):
            self._take_best()
        with T.serial(0, self.most - self._found[0]) as turn:
            self.kept[self.row, self._found[0] + turn] = T.int32(0)
        self.counts[self.row] = self._found[0]

    def _list_candidates(self) -> None:
        self._left[0] = T.int32(0)
        count = tirx.min(self.limits[0], T.int32(self.boxes_of_image))
        with T.serial(0, count) as box:
            with T.If(self.score(box) > self.thresholds[1]), T.Then():
                self.lists[self.row, self._left[0]] = box
                self._left[0] = self._left[0] + 1

    def _take_best(self) -> None:
        """Take the heap's first, and keep it unless a box that is kept overlaps it."""
        best, place, free = local("int32"), local("int32"), local("int32")
        corners = local("float32", VALUES)
        best[0] = self.lists[self.row, 0]
        self._left[0] = self._left[0] - 1
        self.lists[self.row, 0] = self.lists[self.row, self._left[0]]
        self._sift_down(T.int32(0))
        table = self.results[3]
        for value in range(VALUES):
            corners[value] = table[self.image, best[0], value]
        own = Box(*(corners[value] for value in range(VALUES)))
        place[0], free[0] = T.int32(0), T.int32(1)
        with T.While(tirx.all(free[0] > 0, place[0] < self._found[0])):
            other = self.kept[self.row, place[0]]
            kept = Box(*(table[self.image, other, value] for value in range(VALUES)))
            with T.If(self.exceeds(kept, own)), T.Then():
                free[0] = T.int32(0)
            place[0] = place[0] + 1
        with T.If(free[0] > 0), T.Then():
            self.kept[self.row, self._found[0]] = best[0]
            self._found[0] = self._found[0] + 1

    def _sift_down(self, start: Any) -> None:
        """Move the candidate at a place of the heap below those that are better."""
        place, child, moved, one = (local("int32") for _ in range(4))
        place[0] = start
        with T.If(place[0] < self._left[0]), T.Then():
            moved[0] = self.lists[self.row, place[0]]
            child[0] = 2 * place[0] + 1
            with T.While(child[0] < self._left[0]):
                one[0] = self.lists[self.row, child[0]]
                with T.If(child[0] + 1 < self._left[0]), T.Then():
                    other = self.lists[self.row, child[0] + 1]
                    with T.If(self._better(other, one[0])), T.Then():
                        child[0] = child[0] + 1
                        one[0] = self.lists[self.row, child[0]]
                with T.If(self._better(one[0], moved[0])):
                    with T.Then():
                        self.lists[self.row, place[0]] = one[0]
                        place[0] = child[0]
                        child[0] = 2 * place[0] + 1
                    with T.Else():
                        child[0] = self._left[0]
            self.lists[self.row, place[0]] = moved[0]

    def _better(self, one: Any, other: Any) -> Any:
        """Whether a box comes before another: by its score, then by its index."""
        mine, others = self.score(one), self.score(other)
        return tirx.any(mine > others, tirx.all(mine == others, one < other))
