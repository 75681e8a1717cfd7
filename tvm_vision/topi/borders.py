"""What lies around a tensor: a number, or what its own elements are at other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

NUMBER = "constant"


def _reflected(place: Any, size: int) -> Any:
    last = tirx.const(size - 1, place.ty.dtype)
    return last - tirx.abs(last - tirx.abs(place))


def _replicated(place: Any, size: int) -> Any:
    last, zero = (tirx.const(n, place.ty.dtype) for n in (size - 1, 0))
    return tirx.max(tirx.min(place, last), zero)


def _circular(place: Any, size: int) -> Any:
    # A remainder of what may be negative is one that TVM simplifies wrongly on a GPU.
    extent, zero = (tirx.const(n, place.ty.dtype) for n in (size, 0))
    over = tirx.Select(place >= extent, place - extent, place)
    return tirx.Select(place < zero, place + extent, over)


# By PyTorch's names of modes, which Relax has: where an element comes from, without a branch.
PLACES: dict[str, Callable[[Any, int], Any]] = {
    "reflect": _reflected,
    "replicate": _replicated,
    "circular": _circular,
}


def borders(
    x: te.Tensor, widths: Sequence[tuple[int, int]], mode: str, value: float = 0.0
) -> te.Tensor:
    """``x`` with so many elements more before and after each axis, fewer where a number is
    negative.

    widths: (before, after) of each axis.

    mode: ``constant``, with ``value``, or one of PLACES: ``reflect`` at the first and the last
    element, fewer than there are along the axis; ``replicate`` these; ``circular``, at most as many
    as there are.
    """
    if mode == NUMBER:
        before, after = ([side[end] for side in widths] for end in (0, 1))
        return topi.nn.pad(x, before, after, tirx.const(value, x.dtype), name=NUMBER)
    sizes = [int(size) for size in x.shape]
    shape = [size + sum(side) for size, side in zip(sizes, widths, strict=True)]

    def element(*at: Any) -> Any:
        places = []
        for place, size, side in zip(at, sizes, widths, strict=True):
            moved = place - side[0]
            places.append(PLACES[mode](moved, size) if max(side) > 0 else moved)
        return x(*places)

    return te.compute(shape, element, name=mode, tag=topi.tag.INJECTIVE)
