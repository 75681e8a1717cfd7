"""An axis of a tensor as rows, which kernels go along, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax

Emit = Callable[[Any], Any]


def in_rows(
    x: Any, shape: tuple[int, ...], axis: int, emit: Emit
) -> tuple[Any, Callable[[Any], Any]]:
    """A tensor as (rows, elements along an axis), and what makes of such rows, which may be longer
    or shorter, the axes that there were."""
    turn = [*range(axis), *range(axis + 1, len(shape)), axis]
    back = [turn.index(i) for i in range(len(shape))]
    others = [size for i, size in enumerate(shape) if i != axis]

    def whole(found: Any) -> Any:
        length = int(found.ty.shape[1])
        return emit(relax.op.permute_dims(emit(relax.op.reshape(found, [*others, length])), back))

    turned = emit(relax.op.permute_dims(x, turn))
    return emit(relax.op.reshape(turned, [math.prod(others), shape[axis]])), whole
