"""Selections of channels from tensors in blocks, for processors.

Which lane goes where is known here, so that each vector of the result is made by shuffles of whole
vectors instead of one value at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import prim

from ...topi.nchwc import GATHER
from . import loops as make
from .loops import Kind, NotWritten, Processor

# Fewer values are moved before other threads have woken up.
WORTH_THREADS = 1 << 14


def write_gather(function: Any, _processor: Processor) -> Any:
    """Loops for a function that gathers channels. Raises NotWritten for other functions."""
    stages = make.stages_of(function)
    notes = stages[0].block.annotations
    if GATHER not in notes or len(stages) != 1:
        raise NotWritten("a gather of channels is needed")
    stride, *channels = (int(number) for number in notes[GATHER])
    images, blocks, height, width, lanes = stages[0].shape
    sources = function.params[: len(function.params) - 2]
    result = stages[0].buffer
    channels += channels[-1:] * (blocks * lanes - len(channels))

    def row(index: Any) -> Any:
        image, y = index // height, index % height

        def pixel(x: Any) -> Any:
            def vector(buffer: Any, block: int) -> Any:
                at = prim.Ramp(make.integer(0), make.integer(1), lanes)
                return tirx.BufferLoad(buffer, [image, make.integer(block), y, x, at])

            stores = []
            for block in range(blocks):
                wanted = channels[block * lanes : (block + 1) * lanes]
                places = [
                    (sources[number // stride], number % stride // lanes) for number in wanted
                ]
                at = prim.Ramp(make.integer(0), make.integer(1), lanes)
                stores.append(
                    tirx.BufferStore(
                        result,
                        _shuffled([vector(*place) for place in dict.fromkeys(places)],
                                  _lanes(places, wanted, lanes)),
                        [image, make.integer(block), y, x, at],
                    )
                )  # fmt: skip
            return make.sequence(stores)

        return make.loop("x", width, pixel)

    work = math.prod((images, blocks, height, width, lanes))
    kind = Kind.PARALLEL if work >= WORTH_THREADS and images * height > 1 else Kind.SERIAL
    return make.written(function, make.loop("row", images * height, row, kind))


def _lanes(places: Sequence[Any], wanted: Sequence[int], lanes: int) -> list[int]:
    """Positions of the lanes in the vectors of ``places``, each vector there once, end to end."""
    order = {place: index for index, place in enumerate(dict.fromkeys(places))}
    return [
        order[place] * lanes + number % lanes for place, number in zip(places, wanted, strict=True)
    ]


def _shuffled(vectors: list[Any], lanes: list[int]) -> Any:
    if len(vectors) == 1 and lanes == list(range(len(lanes))):
        return vectors[0]
    return prim.Shuffle(vectors, [tirx.IntImm("int32", lane) for lane in lanes])
