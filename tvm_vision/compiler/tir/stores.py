"""What is written and read in a function of TensorIR."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

from .cast_buffers import choice_parts

Answer = TypeVar("Answer")
UNKNOWN = 5  # terms, of which a symbol says how many: more than coordinates in space have
_PAIRS = (
    prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod, prim.Max,
    prim.Min,
)  # fmt: skip


class Stores:
    """What is written and read in a function.

    Attributes:
        written: of each buffer the values that are written to it, but for what sums and maxima
            begin with, and over how many the block that does it reduces; in order. Who asks what
            each is made of in this order finds the answer for what it reads: Python ends a question
            that goes back through hundreds.
        names: what variables stand for.
        indices: of all that is read and written.
    """

    def __init__(self, func: tirx.PrimFunc) -> None:
        self.names: dict[Any, Any] = {}
        self.indices: list[Any] = []
        self.written: dict[Any, list[tuple[Any, int]]] = {}
        terms: dict[int, int] = {}
        starts: list[Any] = []

        def note_block(block: Any) -> None:
            starts.append(block.init)
            axes = [a for a in block.iter_vars if a.iter_type == tirx.IterVar.CommReduce]
            number = math.prod(int(getattr(a.dom.extent, "value", UNKNOWN)) for a in axes)
            for store in all_of(block.body, tirx.BufferStore):
                handle = store.__chandle__()
                terms[handle] = max(number, terms.get(handle, 1))

        tvm_ffi.structural_walk(
            func.body,
            [
                ((tirx.Bind, tirx.LetStmt), lambda let: self.names.update({let.var: let.value})),
                (s_tir.SBlock, note_block),
                (ir.TensorLoad, lambda load: self.indices.extend(load.indices)),
            ],
        )
        for store in all_of(func.body, tirx.BufferStore):
            self.indices.extend(store.indices)
            if not any(store.same_as(start) for start in starts if start is not None):
                value = store.value, terms.get(store.__chandle__(), 1)
                self.written.setdefault(store.buffer, []).append(value)

    def meant(self, value: Any) -> Any:
        """What a value is behind casts and names."""
        while True:
            if isinstance(value, prim.Cast):
                value = value.value
            elif isinstance(value, ir.Var) and value in self.names:
                value = self.names[value]
            else:
                return value

    def loaded(self, value: Any) -> Iterator[Any]:
        """The buffers whose numbers ``value`` is made of, but for what chooses among them."""
        seen: set[int] = set()
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if part.__chandle__() in seen:
                continue
            seen.add(part.__chandle__())
            if isinstance(part, ir.TensorLoad):
                yield part.source
            elif isinstance(part, _PAIRS):
                waiting += [part.a, part.b]
            elif isinstance(part, prim.Cast):
                waiting.append(part.value)
            elif branches := choice_parts(part):
                waiting.extend(branches[1:])
            elif isinstance(part, ir.Call):
                waiting.extend(part.args)
            elif isinstance(part, ir.Var) and part in self.names:
                waiting.append(self.names[part])


def once_each(asked: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """A question of values that are alive as long as it is, asked once for each: what several are
    made of would be looked through for each way to it."""
    answers: dict[int, Answer] = {}

    def answer(value: Any) -> Answer:
        handle = value.__chandle__()
        if handle not in answers:
            answers[handle] = asked(value)
        return answers[handle]

    return answer


def all_of(node: Any, kinds: Any) -> list[Any]:
    """All parts of these kinds."""
    parts: list[Any] = []
    tvm_ffi.structural_walk(node, (kinds, parts.append))
    return parts
