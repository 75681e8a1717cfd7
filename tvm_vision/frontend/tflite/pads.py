"""Operators that add to the edges of a tensor, and those that make images of every n-th pixel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..onnx.graph import Unsupported
from .moves import Moved
from .network import EXPORT
from .step import Converter, Step
from .values import LAST, is_rounded, to_first


def pad(step: Step) -> None:
    """With zeros, or with the third input."""
    begins, ends = _pads(step)
    order = step.order(0)
    moved = Moved(step, order=order)
    dtype = step.network.dtype(moved.value)
    number: Any = np.zeros((), dtype)
    if step.has(2):
        number = step.stored(2) if moved.is_kept else step.real(2)
        if moved.is_kept and not step.moves(2):
            moved.is_kept, moved.value, number = False, step.real(0, order), step.real(2)
    elif moved.is_kept and is_rounded(step.tensor(0)):
        by = step.tensor(0).quantization
        assert by is not None
        number = by.zero_point[0].astype(dtype)
    if isinstance(number, str) and step.network.shape(number):
        number = step.emit("Reshape", number, np.zeros(0, np.int64))
    both = [*_in_order(begins, order), *_in_order(ends, order)]
    moved.give(step.emit("Pad", moved.value, np.array(both, np.int64), number), order)


def mirror_pad(step: Step) -> None:
    """Mirrored about the edge, or about the last place, which is not repeated then."""
    begins, ends = _pads(step)
    symmetric = step.options.Mode() == 1
    order = step.order(0)
    moved = Moved(step, order=order)
    value, shape = moved.value, step.shape(0)
    for axis, (before, after) in enumerate(zip(begins, ends, strict=True)):
        if max(before, after) > shape[axis] - (not symmetric):
            raise Unsupported(f"it mirrors {max(before, after)} of {shape[axis]} places", EXPORT)
        if before or after:
            wide, every = (before, after), np.arange(shape[axis])
            places = (
                np.pad(every, wide, "symmetric") if symmetric else np.pad(every, wide, "reflect")
            )
            value = step.emit("Gather", value, places, axis=step.axis(axis, len(shape), order))
    moved.give(value, order)


def _pads(step: Step) -> tuple[list[int], list[int]]:
    """What is added before and after each axis of the file."""
    found = step.numbers(1, "its pads")
    if len(found) != 2 * len(step.shape(0)) or min(found, default=0) < 0:
        raise Unsupported(f"its pads are {found} of {len(step.shape(0))} axes", EXPORT)
    return found[::2], found[1::2]


def _in_order(sizes: Sequence[int], order: str) -> list[int]:
    if order == LAST or len(sizes) < 3:
        return list(sizes)
    return [sizes[axis] for axis in to_first(len(sizes))]


def space_to_batch(step: Step) -> None:
    """Every ``block``-th pixel of a padded image is an image of its own."""
    blocks = step.numbers(1, "its blocks")
    pads = np.array(step.numbers(2, "its pads")).reshape(-1, 2)
    _check_blocks(step, blocks, pads)
    shape, count = list(step.shape(0)), len(blocks)
    rest = len(shape) - count - 1
    both = [0, *pads[:, 0], *[0] * rest, 0, *pads[:, 1], *[0] * rest]
    moved = Moved(step)
    number = np.zeros((), step.network.dtype(moved.value))
    if moved.is_kept and (by := step.tensor(0).quantization) is not None:
        number = by.zero_point[0].astype(number.dtype)
    value = step.emit("Pad", moved.value, np.array(both, np.int64), number)
    padded = [size + int(pads[i].sum()) for i, size in enumerate(shape[1 : count + 1])]
    if any(size % block for size, block in zip(padded, blocks, strict=True)):
        raise Unsupported(f"blocks of {blocks} do not fill {padded}", EXPORT)
    inner = [n for size, block in zip(padded, blocks, strict=True) for n in (size // block, block)]
    value = step.emit("Reshape", value, np.array([shape[0], *inner, *shape[count + 1 :]]))
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2)]
    perm += range(2 * count + 1, 2 * count + 1 + rest)
    value = step.emit("Transpose", value, perm=perm)
    sizes = [size // block for size, block in zip(padded, blocks, strict=True)]
    final = [shape[0] * math.prod(blocks), *sizes, *shape[count + 1 :]]
    moved.give(step.emit("Reshape", value, np.array(final)))


def batch_to_space(step: Step) -> None:
    """The other way round, and cropped."""
    blocks = step.numbers(1, "its blocks")
    crops = np.array(step.numbers(2, "its crops")).reshape(-1, 2)
    _check_blocks(step, blocks, crops)
    shape, count = list(step.shape(0)), len(blocks)
    batch, uneven = divmod(shape[0], math.prod(blocks))
    if uneven:
        raise Unsupported(f"blocks of {blocks} are no parts of {shape[0]} images", EXPORT)
    moved = Moved(step)
    value = step.emit("Reshape", moved.value, np.array([*blocks, batch, *shape[1:]]))
    perm = [count]
    for axis in range(count):
        perm += [count + 1 + axis, axis]
    perm += range(2 * count + 1, count + len(shape))
    value = step.emit("Transpose", value, perm=perm)
    sizes = [size * block for size, block in zip(shape[1:], blocks, strict=False)]
    value = step.emit("Reshape", value, np.array([batch, *sizes, *shape[count + 1 :]]))
    if crops.any():
        begins, ends = crops[:, 0], np.array(sizes) - crops[:, 1]
        value = step.emit("Slice", value, begins, ends, np.arange(1, count + 1))
    moved.give(value)


def _check_blocks(step: Step, blocks: Sequence[int], beside: np.ndarray) -> None:
    if (
        len(blocks) != len(beside)
        or len(blocks) >= len(step.shape(0))
        or min(blocks, default=0) < 1
    ):
        raise Unsupported(f"its blocks are {list(blocks)}", EXPORT)
    if beside.min() < 0:
        raise Unsupported("its pads or crops are below 0", EXPORT)


PADS: dict[str, Converter] = {
    "PAD": pad,
    "PADV2": pad,
    "MIRROR_PAD": mirror_pad,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
}
