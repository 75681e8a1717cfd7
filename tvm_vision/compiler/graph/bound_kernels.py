"""Kernels that would compute the same values too often, cut in two or more.

Fusion joins whatever follows element by element, and schedules compute what is inside a kernel
where it is read. A value that is read twice is computed twice, those before it four times: twenty
of ``t = t + t`` would be a million additions for each element, in one expression. So with the place
that a value is read at: a reshape names it in each of its indices, and the next one names all of
these in each of its own. Here a function is looked at before it has a schedule; what would be
computed too often, or read at too long a place, gets memory and a kernel of its own. What a kernel
then reads of others counts against the tensors that a device lets it see, so that more may get
memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

from ..tir.cast_buffers import block_with
from ..tir.dead_block_elimination import only_stores
from ..tir.prescheduled import launches, parts_of
from ..tir.stores import all_of
from .lower import unused_name
from .static_graph import KernelCall, StaticGraph

# Loads of an expression beyond those that it needs. Networks have few: an activation such as mish,
# or a box that is decoded, four.
MOST_REPEATED = 16
# Axes that the places of a buffer name, and divisions within divisions. TVM simplifies none before
# all is in one expression, in a time that doubles with each division that is around the others.
MOST_NAMED, MOST_NESTED = 512, 12
_DIVISIONS = (prim.FloorDiv, prim.FloorMod, prim.Div, prim.Mod)


def bound_kernels(graph: StaticGraph, most: int) -> StaticGraph:
    """The same graph, its functions cut where they would load more than MOST_REPEATED values again
    for one result, or from places that name more than MOST_NAMED axes or nest more than MOST_NESTED
    divisions.

    most: tensors that a kernel may read and write. Parts that do not fit by any cut stay larger.
    """
    parts = {
        name: _cut(name, func, graph.functions, most) for name, func in graph.functions.items()
    }
    if not any(parts.values()):
        return graph
    kernels: list[KernelCall] = []
    for kernel in graph.kernels:
        pieces = parts[kernel.function]
        if not pieces:
            kernels.append(kernel)
            continue
        whole = graph.functions[kernel.function]
        values = dict(zip(whole.params, kernel.tensors, strict=True))
        for piece in pieces:
            for buffer in piece.outputs:
                if buffer not in values:
                    shape = [int(size) for size in buffer.ty.shape]
                    values[buffer] = graph.add_tensor(shape, str(buffer.ty.dtype))
            graph.functions[piece.name] = piece.function
            inputs, outputs = (
                [values[b] for b in group] for group in (piece.inputs, piece.outputs)
            )
            kernels.append(KernelCall(piece.name, inputs, outputs, kernel.nodes))
    used = {kernel.function for kernel in kernels}
    graph.kernels = kernels
    graph.functions = {name: func for name, func in graph.functions.items() if name in used}
    return graph


@dataclass(frozen=True)
class _Piece:
    """A part of a function: what it takes and makes, as buffers of the whole."""

    name: str
    function: tirx.PrimFunc
    inputs: list[Any]
    outputs: list[Any]


@dataclass
class _Stage:
    """The statements that store to a buffer, the buffers they load, how often, and whether
    schedules compute it where it is read; ``stores`` has what they store."""

    buffer: Any
    statements: list[int] = field(default_factory=list)
    loads: Counter[Any] = field(default_factory=Counter)
    inlined: bool = True
    stores: list[Any] = field(default_factory=list)


def _cut(name: str, func: Any, taken: Any, most: int) -> list[_Piece]:
    """The parts of a function, in order; none where it stays whole."""
    stages = _stages(func)
    kept = _to_keep(stages)
    if not kept:
        return []
    kept = _with_few_tensors(stages, kept | set(func.params), most)
    names = dict.fromkeys(taken)
    pieces: list[_Piece] = []
    for buffer in stages:
        if buffer in kept:
            part = unused_name(f"{name}_part{len(pieces)}", names)
            pieces.append(_piece(part, func, stages, buffer, kept))
    return pieces


def _stages(func: Any) -> dict[Any, _Stage]:
    """The stages of a function in order, by the buffer that each makes; none of a function that is
    no row of blocks, or whose threads are launched by hand."""
    stages: dict[Any, _Stage] = {}
    for number, part in enumerate(parts_of(func)):
        stored = None if launches(part) else only_stores(part)
        if stored is None or len(stored) != 1:
            return {}
        (buffer,) = stored
        stage = stages.setdefault(buffer, _Stage(buffer))
        stage.statements.append(number)
        stage.loads.update(load.source for load in all_of(part, ir.TensorLoad))
        stage.stores += all_of(part, tirx.BufferStore)
        stage.inlined &= len(stage.statements) == 1 and not _stays(part)
    return stages


def _stays(statement: Any) -> bool:
    """Whether no schedule computes a statement where its result is read: sums, and what is marked
    for a schedule of its own."""
    found: list[Any] = []

    def look(block: Any) -> None:
        if block.init is not None or len(block.annotations):
            found.append(block)

    tvm_ffi.structural_walk(statement, (s_tir.SBlock, look))
    return bool(found)


def _to_keep(stages: dict[Any, _Stage]) -> set[Any]:
    """The buffers that need memory, so that no stage loads too much again, or from too far."""
    kept: set[Any] = set()
    for stage in stages.values():
        while True:
            times = _times(stage, stages, kept)
            inside = {b: stages[b] for b in times}
            done = sum(times[b] * _fixed(s, times, kept) for b, s in inside.items())
            once = sum(_fixed(s, times, kept) for s in inside.values())
            # Of values that are needed as often, the last: those before it are within the bound.
            size = _sizes(inside, kept)
            worst = max(
                (b for b in reversed(inside) if times[b] > 1 and size[b] > 1),
                key=lambda b: times[b] * size[b],
                default=None,
            )
            if done - once <= MOST_REPEATED or worst is None:
                break
            kept.add(worst)
    kept |= _read_from_far(stages, kept)
    return kept and _with_shared_sums(stages, kept)


def _read_from_far(stages: dict[Any, _Stage], kept: set[Any]) -> set[Any]:
    """What needs memory beside what is kept, so that no value is read from too long a place."""
    more: set[Any] = set()
    ahead: dict[Any, _Axes] = {}
    for buffer, stage in reversed(stages.items()):
        begins = buffer in kept or not stage.inlined
        axes = {} if begins else ahead.get(buffer, {})
        reads = _reads(stage, axes)
        if axes and any(_is_long(place) for place in reads.values()):
            more.add(buffer)
            reads = _reads(stage, {})
        for read, place in reads.items():
            known = ahead.setdefault(read, {})
            for axis, index in place.items():
                known[axis] = known.get(axis, _Index()) + index
    return more


@dataclass(frozen=True)
class _Index:
    """What the places that are read have for an axis: how often they name axes of the kernel's
    result, and how many divisions are one within the other."""

    named: int = 0
    nested: int = 0

    def __add__(self, other: _Index) -> _Index:
        return _Index(self.named + other.named, max(self.nested, other.nested))


# The index of each axis of a buffer.
_Axes = dict[int, _Index]


def _is_long(place: _Axes) -> bool:
    named = sum(index.named for index in place.values())
    return named > MOST_NAMED or any(index.nested > MOST_NESTED for index in place.values())


def _reads(stage: _Stage, ahead: _Axes) -> dict[Any, _Axes]:
    """Where a stage loads from, in axes of the kernel's result.

    ahead: what the stage's own axes are in these; nothing where it makes the result.
    """
    reads: dict[Any, _Axes] = {}
    for store in stage.stores:
        own = {v: ahead[d] for d, at in enumerate(store.indices) if d in ahead
               for v in all_of(at, ir.Var)}  # fmt: skip
        for load in all_of(store.value, ir.TensorLoad):
            place = reads.setdefault(load.source, {})
            for axis, at in enumerate(load.indices):
                place[axis] = place.get(axis, _Index()) + _index(at, own)
    return reads


def _index(expression: Any, own: dict[Any, _Index]) -> _Index:
    """An index with the places of a stage's own axes in it, as one expression."""
    if isinstance(expression, ir.Var):
        return own.get(expression, _Index(1))
    parts = [part for name in ("a", "b") if (part := getattr(expression, name, None)) is not None]
    if not parts:  # constants, and what is computed of loads
        return _Index(len(all_of(expression, ir.Var)))
    found = sum((_index(part, own) for part in parts), _Index())
    divides = isinstance(expression, _DIVISIONS)
    return replace(found, nested=found.nested + divides)


def _times(stage: _Stage, stages: dict[Any, _Stage], kept: set[Any]) -> dict[Any, int]:
    """How often each stage is computed for one value of the last, in order."""
    times: Counter[Any] = Counter({stage.buffer: 1})
    for buffer in reversed(stages):
        again = times[buffer]
        if again:
            for read, count in stages[buffer].loads.items():
                if read in stages and stages[read].inlined and read not in kept:
                    times[read] += again * count
    return {buffer: times[buffer] for buffer in stages if times[buffer]}


def _fixed(stage: _Stage, times: dict[Any, int], kept: set[Any]) -> int:
    """Loads of a stage from memory."""
    return sum(count for b, count in stage.loads.items() if b in kept or b not in times)


def _sizes(inside: dict[Any, _Stage], kept: set[Any]) -> dict[Any, int]:
    """Loads of each stage with what is before it computed in place."""
    size: dict[Any, int] = {}
    for buffer, stage in inside.items():
        loads = (n * (1 if b in kept else size.get(b, 1)) for b, n in stage.loads.items())
        size[buffer] = sum(loads)
    return size


def _with_shared_sums(stages: dict[Any, _Stage], kept: set[Any]) -> set[Any]:
    """What is kept, and the sums that more than one kernel would compute."""
    kept = set(kept)
    while True:
        ends = [b for b in stages if b in kept or not _is_read(b, stages)]
        users = Counter(b for end in ends for b in _needed(end, stages, kept))
        shared = {b for b, n in users.items() if n > 1 and not stages[b].inlined} - kept
        if not shared:
            return kept
        kept |= shared


def _with_few_tensors(stages: dict[Any, _Stage], kept: set[Any], most: int) -> set[Any]:
    """What is kept, and what more has to be so that no kernel has more tensors than ``most``."""
    while True:
        large = (b for b in stages if b in kept and len(_read(b, stages, kept)) + 1 > most)
        more = next((m for end in large if (m := _cut_off(end, stages, kept, most))), None)
        if more is None:
            return kept
        kept = _with_shared_sums(stages, kept | more)


def _cut_off(end: Any, stages: dict[Any, _Stage], kept: set[Any], most: int) -> set[Any]:
    """A buffer to keep so that a kernel reads the least, and the one that makes it is small enough;
    none where no such buffer helps."""
    inside = _needed(end, stages, kept) - {end}
    fitting = (b for b in stages if b in inside and len(_read(b, stages, kept)) + 1 <= most)
    left = {b: len(_read(end, stages, kept | {b})) for b in fitting}
    best = min(left, key=lambda b: left[b], default=None)
    # Where the last step alone fits, what is as many tensors now is fewer with the next.
    fits = len(stages[end].loads) + 1 <= most
    enough = len(_read(end, stages, kept)) - (not fits)
    return {best} if best is not None and left[best] <= enough else set()


def _read(end: Any, stages: dict[Any, _Stage], kept: set[Any]) -> set[Any]:
    """What a kernel reads for a result: what is kept, and inputs of the whole."""
    inside = _needed(end, stages, kept)
    return {b for stage in inside for b in stages[stage].loads} - inside


def _is_read(buffer: Any, stages: dict[Any, _Stage]) -> bool:
    return any(buffer in s.loads for s in stages.values() if not s.buffer.same_as(buffer))


def _needed(end: Any, stages: dict[Any, _Stage], kept: set[Any]) -> set[Any]:
    """The stages that a kernel has for a result, from what is kept on."""
    found, todo = {end}, [end]
    while todo:
        for buffer in stages[todo.pop()].loads:
            if buffer in stages and buffer not in kept and buffer not in found:
                found.add(buffer)
                todo.append(buffer)
    return found


def _piece(name: str, func: Any, stages: dict[Any, _Stage], result: Any, kept: set[Any]) -> _Piece:
    """The function that makes one buffer from what is kept and from the whole's inputs."""
    inside = [b for b in stages if b in _needed(result, stages, kept)]
    read = _read(result, stages, kept)
    inputs = [b for b in [*func.params, *stages] if b in read]
    numbers = sorted(n for b in inside for n in stages[b].statements)
    statements = [parts_of(func)[n] for n in numbers]
    root = block_with(
        func.body.block,
        body=tirx.SeqStmt(statements) if len(statements) > 1 else statements[0],
        alloc_buffers=[
            b for b in func.body.block.alloc_buffers if b in inside and not b.same_as(result)
        ],
    )
    body = s_tir.SBlockRealize(func.body.iter_values, func.body.predicate, root)
    made = tirx.PrimFunc([*inputs, result], body, func.ret_type, func.attrs, func.span)
    return _Piece(name, s_tir.renew_defs(made), inputs, [result])
