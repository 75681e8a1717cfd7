"""Tensors as mod.json describes them: names, shapes, types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .fields import LARGEST, Fields, integer, wrong

# Bytes of an element; the names are numpy's.
ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
MAX_RANK = 16
_INTEGERS = [name for name in ITEM_BYTES if "int" in name]
LAYOUTS = ("", "NCHW", "NHWC", "NHW")


def read_shape(value: Any, where: str) -> tuple[int, ...]:
    """Sizes in elements whose product is below 2**40."""
    if not isinstance(value, list) or len(value) > MAX_RANK:
        wrong(where, f"a list of at most {MAX_RANK} sizes", value)
    shape = tuple(integer(size, f"{where}[{axis}]") for axis, size in enumerate(value))
    if math.prod(shape) > LARGEST:
        wrong(where, f"a shape of at most {LARGEST} elements", value)
    return shape


@dataclass(frozen=True)
class IntegersInfo:
    """Integers that stand for real numbers: (integer - zero_point) * scale."""

    dtype: str
    scale: float
    zero_point: int

    @classmethod
    def from_json(cls, value: Any, where: str) -> IntegersInfo:
        fields = Fields(value, where)
        info = cls(
            dtype=fields.text("dtype", among=_INTEGERS),
            scale=fields.number("scale"),
            zero_point=fields.integer("zero_point", low=-LARGEST),
        )
        if info.scale <= 0:
            wrong(fields.path("scale"), "a number above 0", info.scale)
        fields.done()
        return info

    @property
    def largest(self) -> float:
        """The largest number that one of them stands for."""
        bits = 8 * ITEM_BYTES[self.dtype] - (not self.dtype.startswith("u"))
        return (2**bits - 1 - self.zero_point) * self.scale


@dataclass(frozen=True)
class TensorInfo:
    """One input or output. layout: of images "NCHW", "NHWC" or, of one channel, "NHW", else "";
    units: words for people.

    quantization: what the network keeps it as, where that is integers; of another type than dtype
    it is converted within the network.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    units: str = ""
    quantization: IntegersInfo | None = None

    @property
    def steps(self) -> IntegersInfo | None:
        """What its integers stand for, where it is integers outside the network as well."""
        found = self.quantization
        return found if found is not None and found.dtype == self.dtype else None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    @classmethod
    def from_json(cls, value: Any, where: str) -> TensorInfo:
        fields = Fields(value, where)
        info = cls(
            name=fields.text("name"),
            shape=read_shape(fields.take("shape"), fields.path("shape")),
            dtype=fields.text("dtype", among=ITEM_BYTES),
            layout=fields.text("layout", among=LAYOUTS),
            units=fields.text("units", empty=True),
            quantization=fields.optional("quantization", IntegersInfo.from_json),
        )
        if info.layout and len(info.shape) != len(info.layout):
            wrong(fields.path("layout"), f"one for {len(info.shape)} axes", info.layout)
        fields.done()
        return info
