"""An image read at places of a grid, ONNX's GridSample, in two steps for processors.

Where the pixels around a place are, and what each of them counts, is the same for all channels: the
first step finds it, for each axis by itself. The second one adds pixels up, those of a block of
channels beside each other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

# Pixels that are read along an axis.
TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
# How far outside all pixels around a place are outside, too.
FAR = 3
# Of cubic weights, as onnxruntime and PyTorch have it.
SHARPNESS = -0.75


@dataclass(frozen=True)
class GridForm:
    """How an image is read.

    Attributes:
        method: a key of TAPS.
        padding: what is outside: "zeros", "border" or "reflection".
        is_aligned: whether -1 and 1 are the middles of the outermost pixels, not their edges.
        sizes: of the image along its axes, two or three of them.
    """

    method: str
    padding: str
    is_aligned: bool
    sizes: Sequence[int]

    @property
    def taps(self) -> int:
        """Pixels that are read along an axis."""
        return TAPS[self.method]


def grid_taps(grid: te.Tensor, form: GridForm) -> list[te.Tensor]:
    """For each axis of the image, in their order, two tensors (n, taps, places): int32 indices of
    the pixels that are read, -1 for one that is outside and counts nothing, and float32 weights.

    grid: (n, axes, *shape) float32, the last axis of the image first. What is no number is outside,
    or at the border where there is no outside.
    """
    n, axes, *shape = (int(size) for size in grid.shape)
    places = functools.reduce(lambda a, b: a * b, shape)
    return [
        tensor
        for axis, size in enumerate(form.sizes)
        for tensor in _along(grid, axes - 1 - axis, size, (n, form.taps, places), form)
    ]


def _along(
    grid: te.Tensor, part: int, size: int, shape: tuple[int, int, int], form: GridForm
) -> list[te.Tensor]:
    outer = [int(extent) for extent in grid.shape[2:]]

    def place(i: Any, p: Any) -> Any:
        indices = []
        for extent in reversed(outer[1:]):
            indices.append(p % extent)
            p = p // extent
        return _pixels(grid(i, part, p, *reversed(indices)), size, form)

    at = te.compute((shape[0], shape[2]), place, name="place")
    return [
        te.compute(shape, lambda i, k, p: _index(at(i, p), k, size, form), name="index"),
        te.compute(shape, lambda i, k, p: _weight(at(i, p), k, form), name="weight"),
    ]


def _pixels(value: Any, size: int, form: GridForm) -> Any:
    """A place in pixels, so near to the image that it is an int32."""
    if form.is_aligned:
        at = (value + _real(1)) * _real((size - 1) / 2)
    else:
        at = (value + _real(1)) * _real(size / 2) - _real(0.5)
    low, high = -FAR, size - 1 + FAR
    if form.padding == "reflection":
        at, low, high = _reflected(at, size, form.is_aligned), -1, size
    if form.padding != "zeros" and form.method != "bicubic":
        low, high = 0, size - 1
    return tirx.min(tirx.max(at, _real(low)), _real(high))


def _reflected(at: Any, size: int, is_aligned: bool) -> Any:
    """A place reflected at the edges or the corners of an image, as often as it takes."""
    low, span = (0.0, size - 1) if is_aligned else (-0.5, size)
    further = tirx.abs(at - _real(low))
    times = tirx.floor(further / _real(span))
    rest = further - times * _real(span)
    is_odd = times - tirx.floor(times * _real(0.5)) * _real(2) > _real(0.5)
    return tirx.Select(is_odd, _real(span) - rest, rest) + _real(low)


def _index(at: Any, tap: Any, size: int, form: GridForm) -> Any:
    if form.method == "nearest":
        pixel = tirx.nearbyint(at).astype("int32")
    else:
        pixel = tirx.floor(at).astype("int32") + tap.astype("int32") - (form.taps // 2 - 1)
    if form.padding == "zeros":
        inside = tirx.all(pixel >= 0, pixel < size)
        return tirx.Select(inside, pixel, tirx.const(-1, "int32"))
    if form.padding == "reflection" and form.method == "bicubic":
        # Around a place in the image; a small one is passed more than once.
        period = 2 * (size - 1) if form.is_aligned else 2 * size
        within = tirx.floormod(pixel, period)
        pixel = tirx.min(within, (period if form.is_aligned else period - 1) - within)
    return tirx.max(tirx.min(pixel, size - 1), 0)


def _weight(at: Any, tap: Any, form: GridForm) -> Any:
    if form.method == "nearest":
        return _real(1)
    further = at - tirx.floor(at)
    if form.method == "bilinear":
        return tirx.Select(tap < 1, _real(1) - further, further)
    weights = [_outer(further + 1), _inner(further), _inner(1 - further), _outer(2 - further)]
    return functools.reduce(
        lambda rest, k: tirx.Select(tap <= k, weights[k], rest), (2, 1, 0), weights[3]
    )


def _inner(distance: Any) -> Any:
    a = SHARPNESS
    return ((a + 2) * distance - (a + 3)) * distance * distance + 1


def _outer(distance: Any) -> Any:
    a = SHARPNESS
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def sampled(x: te.Tensor, taps: Sequence[te.Tensor], form: GridForm, shape: Sequence[int]) -> Any:
    """The pixels of ``x`` at ``taps`` times their weights, added up.

    x: an image (n, c, rows, columns), or one in blocks of channels (n, c / b, rows, columns, b); of
    three axes, the rows of all planes. taps: of ``grid_taps``. shape: (rows, columns) of the
    result, which is as ``x`` otherwise.
    """
    in_blocks = len(x.shape) == 5
    tables = list(zip(taps[::2], taps[1::2], strict=True))

    def compute(i: Any, o: Any, y: Any, z: Any, *lane: Any) -> Any:
        place = y * shape[1] + z

        def pixel(at: list[Any]) -> Any:
            if form.padding != "zeros":
                return x(i, o, _row(at, form.sizes), at[-1], *lane)
            inside = tirx.all(*(each >= 0 for each in at))
            if in_blocks:
                value = x(i, o, _row(at, form.sizes), at[-1], *lane)
                return tirx.if_then_else(inside, value, _real(0))
            # Without a branch, so that places may be side by side in a vector.
            at = [tirx.max(each, 0) for each in at]
            return tirx.Select(inside, x(i, o, _row(at, form.sizes), at[-1]), _real(0))

        def along(at: list[Any]) -> Any:
            if len(at) == len(tables):
                return pixel(at)
            index, weight = tables[len(at)]
            parts = [along([*at, index(i, k, place)]) for k in range(form.taps)]
            if form.method == "nearest":
                return parts[0]
            terms = [weight(i, k, place) * part for k, part in enumerate(parts)]
            return functools.reduce(lambda a, b: a + b, terms)

        return along([])

    n, outer, *_ = x.shape
    return te.compute((n, outer, *shape, *x.shape[4:]), compute, name="sampled")


def _row(at: Sequence[Any], sizes: Sequence[int]) -> Any:
    """The row, of all planes, of a pixel."""
    return at[0] if len(at) == 2 else at[0] * sizes[1] + at[1]


def _real(value: float) -> Any:
    return tirx.const(float(value), "float32")
