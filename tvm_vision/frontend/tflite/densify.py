"""Sparse weights of TFLite files, as the dense ones that they stand for.

After "The tensor algebra compiler" (Kjolstad et al., 2017): the axes of a tensor and of blocks in
it are stored one in another, each dense, with every index, or compressed (CSR), with the indices
that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DENSE = 0  # the format of an axis; the other is compressed
# Zeros for each stored value, beyond which a file is damaged or made to take all memory.
MOST_ZEROS = 1000


def densified(
    sparsity: Any, values: np.ndarray, shape: tuple[int, ...], damaged: Callable[[str], Exception]
) -> np.ndarray:
    """The dense tensor. Raises ``damaged`` with a reason where the parts do not fit each other.

    sparsity: the schema's SparsityParameters. values: what is stored, in order.
    """
    order = [int(axis) for axis in _list(sparsity.TraversalOrderLength(), sparsity.TraversalOrder)]
    blocks = [int(axis) for axis in _list(sparsity.BlockMapLength(), sparsity.BlockMap)]
    rank = len(shape)
    levels = sparsity.DimMetadataLength()
    if sorted(order) != list(range(rank + len(blocks))) or levels != len(order):
        raise damaged(f"sparse weights of {rank} axes are stored in the order {order}")
    formats = [sparsity.DimMetadata(level) for level in range(levels)]
    if math.prod(shape) > MOST_ZEROS * (len(values) + 1):
        raise damaged(f"sparse weights of shape {shape} have {len(values)} values")
    sizes = _sizes(formats, order, blocks, shape)
    if sizes is None:
        raise damaged(f"blocks of sparse weights do not fill the shape {shape}")
    # Along each stored axis, the index there of every value; built level by level.
    places = np.zeros((1, 0), np.int64)
    for level, (kind, axis) in enumerate(zip(formats, order, strict=True)):
        room = math.prod(sizes[axis] for axis in order[: level + 1])
        indices, parents = _level(kind, sizes[axis], len(places))
        if indices is None or len(indices) > room:
            raise damaged(f"level {level} of sparse weights does not fit the others")
        places = np.concatenate([places[parents], indices[:, None]], axis=1)
    if len(places) != len(values):
        raise damaged(f"sparse weights have {len(values)} values for {len(places)} places")
    full = np.zeros([sizes[axis] for axis in range(len(order))], values.dtype)
    full[tuple(places[:, order.index(axis)] for axis in range(len(order)))] = values
    return _merged(full, rank, blocks).reshape(shape)


def _list(length: int, item: Callable[[int], Any]) -> list[Any]:
    return [item(index) for index in range(min(length, 64))]


def _sizes(
    formats: Sequence[Any], order: list[int], blocks: list[int], shape: tuple[int, ...]
) -> list[int] | None:
    """The extent of each axis, those of blocks behind the tensor's own; None where they differ."""
    rank = len(shape)
    inner = {
        axis: int(kind.DenseSize())
        for kind, axis in zip(formats, order, strict=True)
        if axis >= rank
    }
    outer = list(shape)
    for number, axis in enumerate(blocks):
        block = inner.get(rank + number, 0)
        if not 0 <= axis < rank or block < 1 or outer[axis] % block:
            return None
        outer[axis] //= block
    return outer + [inner[rank + number] for number in range(len(blocks))]


def _level(kind: Any, size: int, parents: int) -> tuple[np.ndarray | None, np.ndarray]:
    """The index along an axis of each entry of a level, and the entry above that it belongs to."""
    nothing = np.zeros(0, np.int64)
    if kind.Format() == DENSE:
        if size != kind.DenseSize():
            return None, nothing
        return np.tile(np.arange(size), parents), np.repeat(np.arange(parents), size)
    segments = _vector(kind.ArraySegmentsType(), kind.ArraySegments())
    indices = _vector(kind.ArrayIndicesType(), kind.ArrayIndices())
    if segments is None or indices is None or len(segments) != parents + 1:
        return None, nothing
    counts = np.diff(segments)
    whole = segments[0] == 0 and segments[-1] == len(indices) and (counts >= 0).all()
    if not whole or ((indices < 0) | (indices >= size)).any():
        return None, nothing
    return indices, np.repeat(np.arange(parents), counts)


def _vector(kind: int, table: Any) -> np.ndarray | None:
    """The numbers of one of the schema's three kinds of index vectors."""
    import tflite

    names = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
    if table is None or kind not in names:
        return None
    vector = getattr(tflite, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.array(vector.ValuesAsNumpy(), np.int64) if vector.ValuesLength() else np.zeros(0, int)


def _merged(full: np.ndarray, rank: int, blocks: list[int]) -> np.ndarray:
    """With each block's axis beside the one that it divides."""
    axes: list[int] = []
    for axis in range(rank):
        axes += [axis, *(rank + number for number, of in enumerate(blocks) if of == axis)]
    return full.transpose(axes)
