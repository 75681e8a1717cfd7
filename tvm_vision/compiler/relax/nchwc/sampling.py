"""Images read at places of a grid: where the pixels are, for all channels, and then their sum."""

from __future__ import annotations

import math
from typing import Any

from tvm import relax

from tvm_vision.topi.grid_sample import GridForm, grid_taps, sampled

from ..kernel_calls import OPAQUE
from .rewriter import NchwcRewriter
from .values import NchwcTensor


def grid_sample(blocks: NchwcRewriter, call: Any) -> Any:
    """In blocks where there are channels for one, else in the model's order; volumes as images of
    the rows of all their planes."""
    before, result, attrs = blocks.shape(call.args[0]), blocks.shape(call), call.attrs
    places = blocks.shape(call.args[1])
    if before is None or result is None or places is None or 0 in (*before, *result):
        return None
    form = GridForm(
        str(attrs.method), str(attrs.padding_mode), bool(attrs.align_corners), before[2:]
    )
    tables = blocks.emit(
        blocks.compute(
            lambda x: grid_taps(x, form), [blocks.plain(call.args[1])], "grid_taps", OPAQUE
        )
    )
    taps = [blocks.emit(relax.TupleGetItem(tables, i)) for i in range(2 * len(form.sizes))]
    image, shape = call.args[0], _as_image(result)
    in_blocks = before[1] >= blocks.block or blocks.value(image) is not None
    if len(before) > 4:
        image = blocks.emit(relax.op.reshape(blocks.plain(image), _as_image(before)))
    value = blocks.blocked(image) if in_blocks else None
    read = blocks.emit(
        blocks.compute(
            lambda x, *tables: sampled(x, tables, form, shape[2:]),
            [blocks.plain(image) if value is None else value.var, *taps], "grid_sample", OPAQUE,
        )
    )  # fmt: skip
    found = None if value is None else NchwcTensor(read, shape)
    if len(result) == 4:
        return found or read
    return relax.op.reshape(blocks.emit(blocks.unpacked(found)) if found else read, result)


def _as_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a volume's rows one below another; an image's own."""
    n, channels, *planes, columns = shape
    return n, channels, math.prod(planes), columns
