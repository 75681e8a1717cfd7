"""What a layer computes as pictures: its channels side by side, beside those of the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..errors import InputError
from ..whole_files import write_whole

MOST_CHANNELS = 256
LEAST_SIDE = 48  # pixels of a channel's shorter side; smaller ones are enlarged by whole numbers
GAP = 2
# A channel's colours span at least this part of the tensor's range: less would show its rounding.
LEAST_SPAN = 0.01


@dataclass(frozen=True)
class Pictures:
    """BGR pictures of one layer, all of a size.

    Attributes:
        ours, reference: with the same colours for the same values of a channel, from the smallest
            to the largest that the reference has in it.
        difference: of the two, from 0 to its largest, with the same colours in all channels.
        words: shape, range and largest difference.
    """

    ours: np.ndarray
    reference: np.ndarray
    difference: np.ndarray
    words: str


def pictures_of(ours: np.ndarray, reference: np.ndarray) -> Pictures:
    """The pictures of a tensor (N, C, H, W), of which the first of a batch is shown, (C, H, W),
    (H, W) or a vector; a matrix of more than that is its last two axes.

    Of more than MOST_CHANNELS channels the first ones. Raises InputError where the shapes differ or
    there is nothing in it.
    """
    if ours.shape != reference.shape or ours.size == 0:
        raise InputError(
            f"two tensors of one shape with something in them are needed, found {list(ours.shape)} "
            f"and {list(reference.shape)}"
        )
    mine, theirs = (_channels(each.astype(np.float64)) for each in (ours, reference))
    apart = np.abs(mine - theirs)
    low, high = _range(theirs, 0.0)
    ranges = np.array([_range(each, LEAST_SPAN * (high - low)) for each in theirs])
    lows, highs = ranges.T[:, :, np.newaxis, np.newaxis]
    most = float(np.nanmax(apart[np.isfinite(apart)], initial=0.0))
    words = (
        f"{'×'.join(map(str, reference.shape))}, values from {low:.4g} to {high:.4g}, largest "
        f"difference {most:.2e}"
    )
    return Pictures(
        _grid(_colours(mine, lows, highs, cv2.COLORMAP_VIRIDIS)),
        _grid(_colours(theirs, lows, highs, cv2.COLORMAP_VIRIDIS)),
        _grid(_colours(apart, 0.0, most, cv2.COLORMAP_INFERNO)),
        words,
    )


def _channels(tensor: np.ndarray) -> np.ndarray:
    """As (channels, height, width)."""
    if tensor.ndim == 4:
        tensor = tensor[0]
    height, width = (1, 1, *tensor.shape)[-2:]
    return tensor.reshape(-1, height, width)[:MOST_CHANNELS]


def _range(values: np.ndarray, least: float) -> tuple[float, float]:
    """The smallest and the largest finite value, moved apart evenly where they are closer than
    ``least``; 0 and 1 of none."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    more = max(0.0, least - (high - low)) / 2
    return low - more, high + more


def _colours(channels: np.ndarray, low: Any, high: Any, colours: int) -> np.ndarray:
    """(channels, height, width, 3) in BGR, low and high for all or for each channel; what is no
    number is white."""
    span = np.asarray(high - low)
    scaled = np.where(span > 0, (channels - low) / np.where(span > 0, span, 1.0), 0.0)
    bytes_of = np.nan_to_num(255 * np.clip(scaled, 0, 1)).round().astype(np.uint8)
    rows = bytes_of.reshape(-1, channels.shape[-1])
    found = cv2.applyColorMap(rows, colours).reshape(*channels.shape, 3)
    found[np.isnan(channels)] = 255
    return found


def _grid(channels: np.ndarray) -> np.ndarray:
    """The channels in rows, about as wide as high, on white."""
    count, height, width = channels.shape[:3]
    scale = max(1, math.ceil(LEAST_SIDE / max(1, min(height, width))))
    if max(height, width) * scale > 1024:  # a vector, or a long matrix
        scale = max(1, 1024 // max(height, width))
    channels = channels.repeat(scale, axis=1).repeat(scale, axis=2)
    height, width = channels.shape[1:3]
    across = max(1, min(count, round(math.sqrt(count * (height + GAP) / (width + GAP)))))
    down = math.ceil(count / across)
    grid = np.full((down * (height + GAP) - GAP, across * (width + GAP) - GAP, 3), 255, np.uint8)
    for index, channel in enumerate(channels):
        y, x = index // across * (height + GAP), index % across * (width + GAP)
        grid[y : y + height, x : x + width] = channel
    return grid


def write_pictures(pictures: Pictures, folder: Path, stem: str) -> list[Path]:
    """Write them as STEM-ours.png, STEM-reference.png and STEM-difference.png; their paths.

    Raises InputError where that is not possible.
    """
    paths = []
    for name in ("ours", "reference", "difference"):
        encoded, data = cv2.imencode(".png", getattr(pictures, name))
        assert encoded, "OpenCV writes every PNG of 8 bits"
        paths.append(folder / f"{stem}-{name}.png")
        write_whole(paths[-1], data.tobytes(), InputError)
    return paths
