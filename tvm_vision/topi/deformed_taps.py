"""What a convolution reads whose taps are moved by offsets: ONNX's DeformConv.

The offsets are those of many channels: a thread goes through a tap of some of them at a place of
the result, so that where it reads, and the share of each pixel, is found once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import for_each_place, local
from .forms import TextForm

CHANNELS = 8  # of a thread


@dataclass(frozen=True)
class TapForm(TextForm):
    """Where taps lie without offsets.

    Attributes:
        kernel, strides, dilations: of the window, down and along a row.
        pads: pixels above, and before a row.
        parts: groups of channels, each with offsets of its own.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]
    parts: int


def deformed_taps(
    data: te.Tensor, given: list[te.Tensor], form: TapForm, on_gpu: bool
) -> te.Tensor:
    """(batch, channels * taps, rows, columns) of data's type: the image between the four pixels
    around each tap, 0 outside, times the tap's factor where there are factors.

    data: (batch, channels, height, width). given: offsets down and along a row in pixels, (batch,
    parts * taps * 2, rows, columns), and factors (batch, parts * taps, rows, columns), or none.
    """
    batch, channels = int(data.shape[0]), int(data.shape[1])
    rows, columns = int(given[0].shape[2]), int(given[0].shape[3])
    taps, inner = form.kernel[0] * form.kernel[1], channels // form.parts
    share = min(CHANNELS, inner)
    groups, places = -(-inner // share), rows * columns
    planes = batch * form.parts * groups * taps

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        read, result = [T.buffer_proxy(each) for each in ins], T.buffer_proxy(outs[0])

        def take(plane: Any, place: Any) -> None:
            tap, above = plane % taps, plane // taps
            first, above = above % groups * share, above // groups
            part, image = above % form.parts, above // form.parts
            at = (place // columns, place % columns)
            corners = _corners(read[1:], image, part * taps + tap, tap, at, data, form)
            for each in range(share):
                channel = part * inner + tirx.min(first + each, inner - 1)
                parts = [
                    weight * read[0][image, channel, y[0], x[0]].astype(str(weight.ty.dtype))
                    for y, x, weight in corners
                ]
                with T.If(first + each < inner), T.Then():
                    value = sum(parts[1:], parts[0]).astype(str(data.dtype))
                    result[image, channel * taps + tap, at[0], at[1]] = value

        return for_each_place(planes, places, take, on_gpu)

    shape = (batch, channels * taps, rows, columns)
    tensors = [data, *given]
    return te.extern([shape], tensors, body, dtype=[str(data.dtype)], name="deformed_taps")


def _corners(
    given: list[Any],
    image: Any,
    number: Any,
    tap: Any,
    at: tuple[Any, Any],
    data: Any,
    form: TapForm,
) -> list[tuple[Any, Any, Any]]:
    """Row, column and share of each pixel around a tap, as statements that run here."""
    work = "float64" if str(data.dtype) == "float64" else "float32"
    steps = (tap // form.kernel[1], tap % form.kernel[1])
    sides = []
    for axis in range(2):
        plain = at[axis] * form.strides[axis] + steps[axis] * form.dilations[axis] - form.pads[axis]
        offset = given[0][image, number * 2 + axis, at[0], at[1]].astype(work)
        sides.append(_pixels(plain.astype(work) + offset, int(data.shape[2 + axis]), work))
    factor = local(work)
    factor[0] = given[1][image, number, at[0], at[1]].astype(work) if given[1:] else _one(work)
    found = []
    for row, of_row in sides[0]:
        for column, of_column in sides[1]:
            weight = local(work)
            weight[0] = of_row[0] * of_column[0] * factor[0]
            found.append((row, column, weight[0]))
    return found


def _pixels(place: Any, size: int, work: str) -> list[tuple[Any, Any]]:
    """The pixels around a place of an axis and their shares, buffers of one number; the share of
    one outside is 0, and another stands for it."""
    at, low = local(work), local("int32")
    at[0] = tirx.max(tirx.min(place, tirx.const(size, work)), tirx.const(-1, work))
    low[0] = tirx.floor(at[0]).astype("int32")
    further = at[0] - low[0].astype(work)
    found = []
    for pixel, share in ((low[0], _one(work) - further), (low[0] + 1, further)):
        where, own = local("int32"), local(work)
        where[0] = tirx.max(tirx.min(pixel, size - 1), 0)
        own[0] = tirx.Select(where[0].equal(pixel), share, tirx.const(0, work))
        found.append((where, own))
    return found


def _one(work: str) -> Any:
    return tirx.const(1, work)
