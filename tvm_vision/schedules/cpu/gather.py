"""Selections of channels from tensors in blocks, for processors.

Which lane goes where is known here, so that each vector of the result is made by shuffles of whole
vectors instead of one value at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import prim

from ...topi.nchwc import GATHER
from . import loops as make
from .loops import Kind, NotWritten
from .processor import Processor

# Fewer values are moved before other threads have woken up.
WORTH_THREADS = 1 << 14


@dataclass(frozen=True)
class GatherLoop:
    """How channels are gathered; parallel: whether threads share the rows."""

    parallel: bool


def gather_of(function: Any) -> tuple[int, ...]:
    """The shape, in blocks, that a function gathers into. Raises NotWritten for others."""
    return tuple(_stage(function).shape)


def candidates(shape: tuple[int, ...], _processor: Processor) -> list[GatherLoop]:
    """With and without threads, the likelier first."""
    images, _, height, _, _ = shape
    many = images * height > 1
    likely = many and math.prod(shape) >= WORTH_THREADS
    return [GatherLoop(likely), *([GatherLoop(not likely)] if many else [])]


def _stage(function: Any) -> make.Stage:
    stages = make.stages_of(function)
    if GATHER not in stages[0].block.annotations or len(stages) != 1:
        raise NotWritten("a gather of channels is needed")
    return stages[0]


def write_gather(function: Any, processor: Processor, how: GatherLoop | None = None) -> Any:
    """Loops for a function that gathers channels; how: None for the likelier way.

    Raises NotWritten for other functions.
    """
    stage = _stage(function)
    how = how or candidates(gather_of(function), processor)[0]
    stride, *channels = (int(number) for number in stage.block.annotations[GATHER])
    images, blocks, height, width, lanes = stage.shape
    sources = function.params[: len(function.params) - 2]
    result = stage.buffer
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
                        make.shuffled([vector(*place) for place in dict.fromkeys(places)],
                                  _lanes(places, wanted, lanes)),
                        [image, make.integer(block), y, x, at],
                    )
                )  # fmt: skip
            return make.sequence(stores)

        return make.loop("x", width, pixel)

    kind = Kind.PARALLEL if how.parallel else Kind.SERIAL
    return make.written(function, make.loop("row", images * height, row, kind))


def _lanes(places: Sequence[Any], wanted: Sequence[int], lanes: int) -> list[int]:
    """Positions of the lanes in the vectors of ``places``, each vector there once, end to end."""
    order = {place: index for index, place in enumerate(dict.fromkeys(places))}
    return [
        order[place] * lanes + number % lanes for place, number in zip(places, wanted, strict=True)
    ]
