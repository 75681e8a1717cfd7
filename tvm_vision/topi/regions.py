"""What an image holds in each of many boxes, on a grid of bins: ONNX's RoiAlign and MaxRoiPool.

A thread goes through a bin of some channels, so that where it reads is found once for all of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import for_each_place, local
from .forms import TextForm

AVERAGE, LARGEST, POOL = "avg", "max", "pool"
CHANNELS = 8  # of a thread
# Of samples of a bin, which would be read in turn.
MOST = 1 << 20
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class RegionForm(TextForm):
    """What is taken of each box.

    Attributes:
        kind: AVERAGE of samples between pixels; LARGEST of the pixels around them, each weighted,
            as RoiAlign-22 has it; POOL: the largest of whole pixels, as MaxRoiPool-22.
        height, width: bins.
        scale: pixels of the image in a unit of the boxes.
        samples: of a bin along each axis; 0: as many as it has pixels, rounded up.
        is_shifted: whether pixels lie half a pixel from where boxes count from.
    """

    kind: str
    height: int
    width: int
    scale: float = 1.0
    samples: int = 0
    is_shifted: bool = False


def regions(
    data: te.Tensor, boxes: te.Tensor, images: te.Tensor, form: RegionForm, on_gpu: bool
) -> te.Tensor:
    """(n, channels, height, width) of data's type, of data (batch, channels, rows, columns).

    boxes: (n, 4) float32, x and y of two corners. images: (n,) int32, which of the batch each is
    of; where it is none of them the nearest counts.
    """
    count, channels = int(boxes.shape[0]), int(data.shape[1])
    share = min(CHANNELS, channels)
    groups, bins = -(-channels // share), form.height * form.width

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        read, result = [T.buffer_proxy(each) for each in ins], T.buffer_proxy(outs[0])

        def take(above: Any, place: Any) -> None:
            number, first = above // groups, above % groups * share
            row, column = place // form.width, place % form.width
            found = _bin(read, number, first, share, row, column, form)
            for each in range(share):
                with T.If(first + each < channels), T.Then():
                    value = found[each].astype(str(data.dtype))
                    result[number, first + each, row, column] = value

        return for_each_place(count * groups, bins, take, on_gpu)

    shape = (count, channels, form.height, form.width)
    given = [data, boxes, images]
    return te.extern([shape], given, body, dtype=[str(data.dtype)], name="regions")


def _bin(
    read: list[Any], number: Any, first: Any, share: int, row: Any, column: Any, form: RegionForm
) -> Any:
    """The values of a bin, of ``share`` channels from ``first`` on: a buffer of float32."""
    data, boxes, images = read
    batch, channels, rows, columns = (int(size) for size in data.shape)
    image = _bounded(images[number], 0, batch - 1)
    planes = [tirx.min(first + each, channels - 1) for each in range(share)]
    ends = [boxes[number, each] for each in range(4)]
    found = local("float32", share)
    if form.kind == POOL:
        along = [
            _Pixels(ends[1], ends[3], form.height, row, rows, form.scale),
            _Pixels(ends[0], ends[2], form.width, column, columns, form.scale),
        ]
        is_empty = tirx.any(*(each.count[0] == 0 for each in along))
        for each in range(share):
            found[each] = tirx.Select(is_empty, _float(0), _float(LOWEST))
        with T.serial(0, along[0].count[0]) as i, T.serial(0, along[1].count[0]) as j:
            y, x = along[0].first[0] + i, along[1].first[0] + j
            for each, plane in enumerate(planes):
                value = data[image, plane, y, x].astype("float32")
                found[each] = tirx.max(found[each], value)
        return found
    samples = [
        _Samples(ends[1], ends[3], form.height, row, rows, form),
        _Samples(ends[0], ends[2], form.width, column, columns, form),
    ]
    # Of samples outside the image nothing is read, and they are 0.
    some = tirx.any(*(each.count[0] < each.all[0] for each in samples))
    none = tirx.any(*(each.all[0] == 0 for each in samples))
    start = _float(0)
    if form.kind == LARGEST:
        start = tirx.Select(tirx.any(some, none), start, _float(LOWEST))
    for each in range(share):
        found[each] = start
    with T.serial(0, samples[0].count[0]) as i:
        y = samples[0].at(i)
        with T.serial(0, samples[1].count[0]) as j:
            x = samples[1].at(j)
            corners = [(one, other) for one in y.pixels() for other in x.pixels()]
            for each, plane in enumerate(planes):
                parts = [
                    a_share[0] * b_share[0] * data[image, plane, a[0], b[0]].astype("float32")
                    for (a, a_share), (b, b_share) in corners
                ]
                if form.kind == LARGEST:
                    value = functools.reduce(tirx.max, parts)
                    found[each] = tirx.max(found[each], value)
                else:
                    found[each] = found[each] + sum(parts[1:], parts[0])
    if form.kind == AVERAGE:
        count = tirx.max(samples[0].all[0] * samples[1].all[0], 1)
        for each in range(share):
            found[each] = found[each] / count.astype("float32")
    return found


class _Pixels:
    """Pixels of a bin along an axis: the first, and how many; as statements that run here."""

    def __init__(
        self, low: Any, high: Any, bins: int, number: Any, pixels: int, scale: float
    ) -> None:
        self.first, self.count = local("int32"), local("int32")
        begin, size = local("int32"), local("int32")
        start, end = (_rounded(each * _float(scale)) for each in (low, high))
        begin[0] = tirx.max(tirx.min(start, _float(MOST)), _float(-MOST)).astype("int32")
        size[0] = tirx.max(_index(end - start + _float(1), MOST // bins), 1)
        # In whole numbers, as the quotients of a GPU may be just below one that is whole.
        first = begin[0] + tirx.floordiv(number * size[0], bins)
        stop = begin[0] + tirx.floordiv((number + 1) * size[0] + (bins - 1), bins)
        self.first[0] = _bounded(first, 0, pixels)
        self.count[0] = tirx.max(_bounded(stop, 0, pixels) - self.first[0], 0)


class _Samples:
    """Samples of a bin along an axis; as statements that run here.

    Attributes:
        all: how many there are; ``count`` of them, from ``first`` on, may lie in the image.
    """

    def __init__(
        self, low: Any, high: Any, bins: int, number: Any, pixels: int, form: RegionForm
    ) -> None:
        self.all, self.count, self.first = (local("int32") for _ in range(3))
        self._start, self._step = local("float32"), local("float32")
        self._pixels, self._size = pixels, local("float32")
        offset = _float(0.5 if form.is_shifted else 0.0)
        start = low * _float(form.scale) - offset
        size = high * _float(form.scale) - offset - start
        self._size[0] = (size if form.is_shifted else tirx.max(size, _float(1))) / _float(bins)
        self._start[0] = start + number.astype("float32") * self._size[0]
        if form.samples:
            self.all[0] = T.int32(form.samples)
        else:
            # A quotient of a GPU may be just above one that is whole.
            near = local("float32")
            near[0] = tirx.ceil(self._size[0])
            exact = size if form.is_shifted else tirx.max(size, _float(1))
            less = tirx.Select((near[0] - _float(1)) * _float(bins) >= exact, _float(1), _float(0))
            self.all[0] = _index(near[0] - less, MOST)
        self._step[0] = self._size[0] / tirx.max(self.all[0], 1).astype("float32")
        if form.samples:
            self.first[0], self.count[0] = T.int32(0), self.all[0]
        else:
            # Where there are several they are more than half a pixel apart.
            before = (_float(-1) - self._start[0]) / self._step[0] - _float(1.5)
            self.first[0] = tirx.min(_index(tirx.floor(before), MOST), self.all[0])
            self.count[0] = tirx.min(self.all[0] - self.first[0], 2 * pixels + 6)

    def at(self, number: Any) -> _Between:
        """Where a sample lies."""
        half = (self.first[0] + number).astype("float32") + _float(0.5)
        return _Between(self._start[0] + half * self._step[0], self._pixels)


class _Between:
    """A place between two pixels of an axis, and the share of each; as statements that run here.
    Outside of the image both shares are 0."""

    def __init__(self, place: Any, pixels: int) -> None:
        self._low, self._high = local("int32"), local("int32")
        self._shares = [local("float32"), local("float32")]
        whole, at = local("float32"), local("float32")
        whole[0] = place
        at[0] = tirx.max(tirx.min(whole[0], _float(pixels - 1)), _float(0))
        self._low[0] = _bounded(at[0].astype("int32"), 0, pixels - 1)
        self._high[0] = tirx.min(self._low[0] + 1, pixels - 1)
        further = at[0] - self._low[0].astype("float32")
        # What is no number is not inside.
        inside = tirx.all(whole[0] >= _float(-1), whole[0] <= _float(pixels))
        self._shares[0][0] = tirx.Select(inside, _float(1) - further, _float(0))
        self._shares[1][0] = tirx.Select(inside, further, _float(0))

    def pixels(self) -> list[tuple[Any, Any]]:
        """Each pixel and its share: buffers of one number."""
        return [(self._low, self._shares[0]), (self._high, self._shares[1])]


def _float(value: float) -> Any:
    return tirx.const(float(value), "float32")


def _rounded(value: Any) -> Any:
    """To whole numbers, halves away from 0."""
    whole = tirx.floor(tirx.abs(value) + _float(0.5))
    return tirx.Select(value < _float(0), -whole, whole)


def _index(value: Any, most: int) -> Any:
    """A whole number of float32 as int32 of 0 to ``most``, whatever it is."""
    near = tirx.max(tirx.min(value, _float(most)), _float(0))
    return _bounded(near.astype("int32"), 0, most)


def _bounded(value: Any, least: int, most: int) -> Any:
    return tirx.max(tirx.min(value, tirx.const(most, "int32")), tirx.const(least, "int32"))
