"""What the values of a candidate's box mean: any form to corners or oriented boxes, in pixels of
the network's input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...package import DetectionInfo
from ...package.detection import cells_of
from ..values import (
    LARGEST_EXPONENT,
    LARGEST_SIDE,
    Floats,
    corners_of,
    refuse_nan_boxes,
    sigmoid,
)
from .candidates import box_table

Ints = npt.NDArray[np.int64]


class Grid:
    """The cells of one or more grids over a network's input, in the order of its candidates."""

    def __init__(
        self, size: tuple[int, int], strides: tuple[int, ...], anchors: tuple[float, ...] = ()
    ) -> None:
        """size: height and width of the input. strides: pixels of the input in a cell. anchors: see
        DetectionInfo; the cells of each follow one another."""
        sides = np.array(anchors, np.float32).reshape(len(strides), -1, 2)
        each = max(1, sides.shape[1])
        cells = [cells_of(size, stride) for stride in strides]
        counts = [each * count for count in cells]
        columns = [-(-size[1] // stride) for stride in strides]
        place = np.concatenate([np.tile(np.arange(count), each) for count in cells])
        #: Width and height of the anchor of each, float32 [cells, 2]; none where boxes have none.
        self.anchors = np.concatenate(
            [np.repeat(those, count, axis=0) for those, count in zip(sides, cells, strict=True)]
        )
        width = np.repeat(columns, counts)
        #: Column and row of each cell, float32 [cells, 2].
        self.cells = np.stack((place % width, place // width), axis=1).astype(np.float32)
        #: Its side in pixels, float32 [cells, 1].
        self.strides = np.repeat(strides, counts).astype(np.float32)[:, None]


def read_boxes(
    outputs: Mapping[str, npt.NDArray[Any]],
    info: DetectionInfo,
    places: Ints,
    size: tuple[int, int],
    grid: Grid | None,
) -> Floats:
    """Boxes of the candidates at ``places``, float32 [n, 4], x1, y1, x2, y2 in pixels of the input;
    of oriented ones [n, 4], centre x, y, width, height.

    size: height and width of the input. grid: of boxes that are in grids.

    Raises InputError where a box is NaN.
    """
    values = box_table(outputs, info)
    if info.box == "distances":
        assert grid is not None
        boxes = _from_distances(values[:, places].T, grid.cells[places], grid.strides[places])
        refuse_nan_boxes(boxes)
        return np.clip(boxes, -LARGEST_SIDE, LARGEST_SIDE)
    rows = values[:4, places].T.astype(np.float32, copy=False)
    refuse_nan_boxes(rows)
    if info.box == "grid":
        assert grid is not None
        rows = _from_grid(rows, grid.cells[places], grid.strides[places])
    if info.box == "anchors":
        assert grid is not None
        rows = _from_anchors(rows, grid, places)
    if info.relative:
        height, width = size
        sides = (height, width) if info.box == "yxyx" else (width, height)
        rows = rows * np.array(sides * 2, np.float32)
    if info.oriented:
        return np.clip(rows, -LARGEST_SIDE, LARGEST_SIDE)
    if info.box in ("cxcywh", "grid", "anchors"):
        return corners_of(rows)
    corners = np.clip(rows, -LARGEST_SIDE, LARGEST_SIDE)
    corners = corners[:, [1, 0, 3, 2]] if info.box == "yxyx" else corners
    # A box that is turned inside out has no area; it is none in the frame.
    corners[:, 2:] = np.maximum(corners[:, 2:], corners[:, :2])
    return corners


def _from_grid(rows: Floats, cells: Floats, strides: Floats) -> Floats:
    """Centre and sides of t: (t + cell) * stride and exp(t) * stride, as YOLOX has it."""
    centre = (rows[:, :2] + cells) * strides
    sides = np.exp(np.minimum(rows[:, 2:4], LARGEST_EXPONENT)) * strides
    return np.concatenate((centre, sides), axis=1)


def _from_anchors(rows: Floats, grid: Grid, places: Ints) -> Floats:
    """Centre and sides of a sigmoid s: (2 s - 1/2 + cell) * stride and (2 s)^2 * anchor, as YOLOv5
    and v7 have it."""
    twice = 2 * sigmoid(rows)
    centre = (twice[:, :2] - 0.5 + grid.cells[places]) * grid.strides[places]
    return np.concatenate((centre, twice[:, 2:] ** 2 * grid.anchors[places]), axis=1)


def _from_distances(values: npt.NDArray[Any], cells: Floats, strides: Floats) -> Floats:
    """Corners of distributions [n, 4 * bins]: the mean of each is the distance of an edge, left,
    top, right, bottom, from the cell's middle (generalized focal loss; PicoDet, NanoDet)."""
    bins = values.reshape(len(values), 4, -1).astype(np.float32)
    weights = np.exp(bins - bins.max(axis=2, keepdims=True))
    means = weights @ np.arange(bins.shape[2], dtype=np.float32) / weights.sum(axis=2)
    middles = (cells + 0.5) * strides
    far = means * strides
    return np.concatenate((middles - far[:, :2], middles + far[:, 2:]), axis=1)
