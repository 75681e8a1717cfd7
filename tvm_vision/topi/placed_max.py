"""The largest of each window and where it lies: ONNX's MaxPool with its second result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import for_each_place, local
from .forms import TextForm


@dataclass(frozen=True)
class PoolForm(TextForm):
    """Windows.

    Attributes:
        kernel, strides, dilations: of the window, for each axis of the image.
        pads: elements before the image along each axis.
        after: sizes of the result.
        columns_first: whether places count along the first axis of the image first.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]
    after: Sequence[int]
    columns_first: bool = False


def placed_max(data: te.Tensor, form: PoolForm, on_gpu: bool) -> list[te.Tensor]:
    """Values of data's type and places int32, both (batch, channels, *after), of data (batch,
    channels, *sizes); of equal values the first counts, and a place counts through one plane."""
    planes, sizes = int(data.shape[0]) * int(data.shape[1]), [int(n) for n in data.shape[2:]]
    inner, channels = math.prod(form.after), int(data.shape[1])
    factors = [
        math.prod(sizes[:a] if form.columns_first else sizes[a + 1 :]) for a in range(len(sizes))
    ]

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        (read,), (values, places) = ([T.buffer_proxy(b) for b in those] for those in (ins, outs))

        def take(plane: Any, number: Any) -> None:
            rest = number
            at: list[Any] = []
            for size in form.after[::-1]:
                at.insert(0, rest % size)
                rest = rest // size
            best, where, empty = local(str(data.dtype)), local("int32"), local("int32")
            image, channel = plane // channels, plane % channels
            best[0] = tirx.min_value(str(data.dtype))
            where[0], empty[0] = T.int32(0), T.int32(1)
            with T.serial(0, math.prod(form.kernel)) as counted:
                tap, place, inside = counted.astype("int32"), T.int32(0), []
                pixels: list[Any] = []
                for axis in reversed(range(len(sizes))):
                    pixel = at[axis] * form.strides[axis] - form.pads[axis]
                    pixel = pixel + tap % form.kernel[axis] * form.dilations[axis]
                    tap = tap // form.kernel[axis]
                    inside += [pixel >= 0, pixel < sizes[axis]]
                    pixels.insert(0, pixel)
                    place = place + pixel * factors[axis]
                with T.If(tirx.all(*inside)), T.Then():
                    value, taken = local(str(data.dtype)), (image, channel, *pixels)
                    value[0] = read[taken]
                    larger = tirx.any(empty[0] == 1, value[0] > best[0])
                    where[0] = tirx.Select(larger, place, where[0])
                    best[0] = tirx.Select(larger, value[0], best[0])
                    empty[0] = T.int32(0)
            result = (image, channel, *at)
            values[result] = best[0]
            places[result] = where[0]

        return for_each_place(planes, inner, take, on_gpu)

    shape = (*data.shape[:2], *form.after)
    made = te.extern([shape] * 2, [data], body, dtype=[str(data.dtype), "int32"], name="placed_max")
    return list(made)
