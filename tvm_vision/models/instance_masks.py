"""Masks of single objects, each kept as the part of the frame that it lies in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
# Bytes of a dense stack above which it is refused: a mistake on most robots.
LARGEST_STACK = 2**31


@dataclass(frozen=True, eq=False)
class InstanceMasks:
    """Which pixels of a frame belong to each of n objects.

    A mask has the size of its object, not that of the frame: a hundred objects in a large frame
    would take hundreds of megabytes else. ``masks[i]`` is one mask of the whole frame,
    ``np.asarray(masks)`` all of them, bool [n, height, width].

    crops: n arrays, bool [rows, columns], each the part of a mask that can be set.
    corners: int32 [n, 2], the row and column of the frame at which each crop begins.
    shape: height and width of the frame.

    Raises ValueError, naming what was expected and what was given, when these do not hold.
    """

    crops: tuple[Bools, ...]
    corners: npt.NDArray[np.int32]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        count = len(self.crops)
        corners = self.corners
        if corners.dtype != np.int32 or corners.shape != (count, 2):
            raise ValueError(
                f"expected corners of int32 [{count}, 2], got {corners.dtype} {list(corners.shape)}"
            )
        for crop, (top, left) in zip(self.crops, corners.tolist(), strict=True):
            if crop.dtype != np.bool_ or crop.ndim != 2:
                raise ValueError(
                    f"expected crops of bool [n, n], got {crop.dtype} {list(crop.shape)}"
                )
            rows, columns = crop.shape
            inside = 0 <= top <= self.shape[0] - rows and 0 <= left <= self.shape[1] - columns
            if not inside:
                raise ValueError(
                    f"expected crops within {self.shape[0]}x{self.shape[1]}, got {rows}x{columns} "
                    f"at {top}, {left}"
                )

    @classmethod
    def from_dense(cls, masks: Bools) -> InstanceMasks:
        """From masks of the whole frame, bool [n, height, width]."""
        crops, corners = [], []
        for mask in masks:
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            top, left = (int(rows[0]), int(columns[0])) if len(rows) else (0, 0)
            bottom, right = (int(rows[-1]) + 1, int(columns[-1]) + 1) if len(rows) else (0, 0)
            crops.append(mask[top:bottom, left:right].copy())
            corners.append((top, left))
        return cls(
            tuple(crops),
            np.array(corners, np.int32).reshape(-1, 2),
            (masks.shape[1], masks.shape[2]),
        )

    def __len__(self) -> int:
        return len(self.crops)

    def __getitem__(self, index: int) -> Bools:
        """One mask of the whole frame, bool [height, width]. Raises IndexError for none."""
        mask = np.zeros(self.shape, np.bool_)
        mask[self.place(index)] = self.crops[index]
        return mask

    def __iter__(self) -> Iterator[Bools]:
        """Each mask of the whole frame."""
        return (self[index] for index in range(len(self)))

    def place(self, index: int) -> tuple[slice, slice]:
        """Rows and columns of the frame that a crop covers."""
        top, left = self.corners[index].tolist()
        rows, columns = self.crops[index].shape
        return slice(top, top + rows), slice(left, left + columns)

    def select(self, indices: Sequence[int]) -> InstanceMasks:
        """Those of some objects, in that order."""
        chosen = [int(index) for index in indices]
        corners = self.corners[chosen] if chosen else np.empty((0, 2), np.int32)
        return InstanceMasks(tuple(self.crops[i] for i in chosen), corners, self.shape)

    def ids(self) -> npt.NDArray[np.uint16]:
        """For each pixel of the frame, uint16 [height, width], 1 + the position of its object, the
        first of those that overlap there; 0 where there is none."""
        image = np.zeros(self.shape, np.uint16)
        for index in reversed(range(len(self))):
            image[self.place(index)][self.crops[index]] = min(index + 1, 65535)
        return image

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All masks of the whole frame, bool [n, height, width]."""
        size = len(self) * self.shape[0] * self.shape[1]
        if size > LARGEST_STACK:
            raise ValueError(
                f"expected masks of at most {LARGEST_STACK} bytes in all, got {size}: take them "
                "one by one"
            )
        stack = np.zeros((len(self), *self.shape), np.bool_)
        for index, crop in enumerate(self.crops):
            stack[index][self.place(index)] = crop
        return stack if dtype is None else stack.astype(dtype)
