"""Images whose pixels are moved alike in all channels: what lies at an image's border reflected,
repeated or continued from its other end."""

from __future__ import annotations

from typing import Any

from tvm import ir, sym, te, tirx

from ....schedules.cpu.loops import NotWritten, Stage, loads_in, mentions, stages_of, substituted
from ..kernel_calls import OPAQUE
from .rewriter import NchwcRewriter
from .values import NchwcTensor


def moved_pixels(blocks: NchwcRewriter, call: Any) -> Any:
    """A function of one image in blocks that reads each channel for itself and knows none by its
    number."""
    if len(call.args) != 2 or len(call.args[1].fields) != 1:
        return None
    value, result = blocks.blocked(call.args[1].fields[0], pack=False), blocks.shape(call)
    if value is None or result is None or result[:2] != value.shape[:2]:
        return None
    function = blocks.builder_.get()[call.args[0]]
    stage = _moves(function)
    if stage is None or len(stage.axes) != len(value.shape) or len(result) != 4:
        return None
    # By itself: each place of a window reads it, and would look for it anew.
    moved = blocks.compute(
        lambda x: _in_blocks(x, stage, result), [value.var], str(call.args[0].name_hint), OPAQUE
    )
    return NchwcTensor(blocks.emit(moved), result)


def _moves(function: Any) -> Stage | None:
    """The block of such a function; None for others."""
    try:
        (stage,) = stages_of(function)
    except (AttributeError, NotWritten, ValueError):
        return None
    image, channel = stage.axes[:2]
    if any(axis.iter_type != tirx.IterVar.DataPar for axis in stage.block.iter_vars):
        return None
    analyzer = sym.Analyzer()
    for axis in stage.block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    for load in loads_in(stage.value):
        own = load.source.same_as(function.params[0]) and len(load.indices) == len(stage.axes)
        if not own or any(
            not isinstance(off := analyzer.simplify(index - axis), tirx.IntImm) or int(off.value)
            for index, axis in zip(load.indices, (image, channel), strict=False)
        ):
            return None
        if any(mentions(index, axis) for index in load.indices[2:] for axis in (image, channel)):
            return None
    around = substituted(stage.value, {}, lambda load: tirx.const(0, str(load.ty.dtype)))
    return None if any(mentions(around, axis) for axis in (image, channel)) else stage


def _in_blocks(x: te.Tensor, stage: Stage, result: tuple[int, ...]) -> te.Tensor:
    n, outer, _, _, block = (int(size) for size in x.shape)
    kind = str(stage.axes[0].ty.dtype)
    shape = [tirx.IntImm(kind, size) for size in (n, outer, *result[2:], block)]

    def compute(i: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        def load(node: ir.TensorLoad) -> Any:
            return x(i, o, *node.indices[2:], lane)

        places = dict(zip(stage.axes, (i, o, y, z), strict=True))
        return substituted(stage.value, places, load)

    return te.compute(shape, compute, name="moved")
