"""mod.params: TVM's own file of named tensors, written in pieces and checked before TVM reads it.

Format (TVM's SaveParams, little endian): u64 magic, u64 0, u64 count, count names as u64 length and
bytes, u64 count, then each tensor: u64 magic, u64 0, i32 device type, i32 device id, i32 axes,
u8 type code, u8 bits, u16 lanes, i64 sizes, i64 bytes, the bytes.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from ..errors import PackageError
from .fields import LARGEST, REMEDY
from .graph import PlannedTensor
from .tensors import ITEM_BYTES, MAX_RANK

if TYPE_CHECKING:
    import numpy as np

LIST_MAGIC = 0xF7E58D4F05049CB7
TENSOR_MAGIC = 0xDD5E40F096B4A13F
CPU = 1
MAX_NAME_BYTES = 4096
# DLPack's type codes.
CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in mod.params: its header begins at ``begin`` in the file, its bytes at
    ``offset``."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    begin: int


def _type_of(dtype: str) -> tuple[int, int]:
    """DLPack's code and bits of a type."""
    return CODES[dtype.rstrip("0123456789")], 8 * ITEM_BYTES[dtype]


TYPES = {_type_of(dtype): dtype for dtype in ITEM_BYTES}


def write_params(stream: BinaryIO, params: Mapping[str, np.ndarray]) -> None:
    """Write tensors sorted by name. Raises PackageError for a type that packages do not have."""
    import numpy as np

    names = sorted(params)
    stream.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(names)))
    for name in names:
        encoded = name.encode("utf-8")
        stream.write(struct.pack("<Q", len(encoded)) + encoded)
    stream.write(struct.pack("<Q", len(names)))
    for name in names:
        # ascontiguousarray would make a scalar one-dimensional.
        array = np.asarray(params[name], order="C")
        dtype = str(array.dtype)
        if dtype not in ITEM_BYTES:
            known = ", ".join(ITEM_BYTES)
            raise PackageError(f"weights must be one of {known}, and '{name}' is {dtype}")
        code, bits = _type_of(dtype)
        stream.write(struct.pack("<QQ2iiBBH", TENSOR_MAGIC, 0, CPU, 0, array.ndim, code, bits, 1))
        stream.write(struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes))
        if array.size:
            stream.write(array.reshape(-1).view(np.uint8).data)


def list_params(stream: BinaryIO | mmap.mmap) -> dict[str, StoredTensor]:
    """What is in a file or its copy in memory, by name. Raises PackageError unless every size fits
    it."""
    return _Reader(stream).tensors()


def check_params(
    stored: Mapping[str, StoredTensor],
    params: Mapping[str, int],
    tensors: tuple[PlannedTensor, ...],
) -> None:
    """Raise PackageError unless the weights are those that the graph names, in shape and type."""
    for name in [*params, *stored]:
        if name not in stored or name not in params:
            place = "mod.json" if name not in params else "mod.params"
            _refuse(f"a weight '{name[:60]}' is needed in mod.json and mod.params, not in {place}")
        found, needed = stored[name], tensors[params[name]]
        if (found.shape, found.dtype) != (needed.shape, needed.dtype):
            _refuse(
                f"weight '{name[:60]}' must be {needed.dtype} {list(needed.shape)}, found "
                f"{found.dtype} {list(found.shape)}"
            )


class _Reader:
    def __init__(self, stream: BinaryIO | mmap.mmap) -> None:
        self._stream = stream
        # seek of an mmap returns nothing before Python 3.13.
        stream.seek(0, os.SEEK_END)
        self._size = stream.tell()
        stream.seek(0)

    def tensors(self) -> dict[str, StoredTensor]:
        magic, _, count = self._unpack("QQQ")
        if magic != LIST_MAGIC:
            _refuse("it does not begin as TVM's parameters do")
        # Eight bytes a name are the least, so a count that fits bounds the loop by the file's size.
        if count * 8 > self._size:
            _refuse(f"{count} weights do not fit into {self._size} bytes")
        names = [self._name() for _ in range(count)]
        if self._unpack("Q")[0] != count or len(set(names)) != count:
            _refuse("its names do not fit its tensors")
        result = {name: self._tensor(name) for name in names}
        if self._stream.tell() != self._size:
            _refuse(f"{self._size - self._stream.tell()} bytes follow the last weight")
        return result

    def _unpack(self, form: str) -> tuple[Any, ...]:
        data = self._stream.read(struct.calcsize(f"<{form}"))
        if len(data) < struct.calcsize(f"<{form}"):
            _refuse("it ends in the middle")
        return struct.unpack(f"<{form}", data)

    def _name(self) -> str:
        (length,) = self._unpack("Q")
        if length > MAX_NAME_BYTES:
            _refuse(f"a name of {length} bytes, and {MAX_NAME_BYTES} are allowed")
        (data,) = self._unpack(f"{length}s")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            _refuse("a name is not UTF-8")

    def _tensor(self, name: str) -> StoredTensor:
        begin = self._stream.tell()
        magic, _, device, _, rank, code, bits, lanes = self._unpack("QQ2iiBBH")
        dtype = TYPES.get((code, bits)) if lanes == 1 else None
        if magic != TENSOR_MAGIC or device != CPU or not 0 <= rank <= MAX_RANK or dtype is None:
            _refuse(f"weight '{name[:60]}' has a damaged header")
        *shape, size = self._unpack(f"{rank}qq")
        offset = self._stream.tell()
        fits = all(0 <= axis <= LARGEST for axis in shape)
        if not fits or math.prod(shape) * ITEM_BYTES[dtype] != size or size > self._size - offset:
            _refuse(f"weight '{name[:60]}' has {size} bytes, which fits neither its shape nor file")
        self._stream.seek(size, os.SEEK_CUR)
        return StoredTensor(tuple(shape), dtype, offset, begin)


def _refuse(reason: str) -> NoReturn:
    raise PackageError(f"mod.params cannot be read: {reason}: {REMEDY}")
