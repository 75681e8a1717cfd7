"""Loops for processors written out: what the files beside this one share.

TVM's schedule primitives ask for tiles that divide the image, or put conditions into innermost
loops. Here the loops are built instead: a last tile begins earlier and computes some outputs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import prim

Kind = tirx.ForKind
INDEX = "int64"


class NotWritten(ValueError):
    """A function is of another kind than asked for; its message says why."""


@dataclass(frozen=True)
class Stage:
    """A block of a function: the buffer it writes, its axes, the value for a point of them."""

    buffer: Any
    axes: list[Any]
    value: Any
    block: Any

    @property
    def shape(self) -> list[int]:
        """Of the buffer."""
        return [int(size) for size in self.buffer.ty.shape]


def stages_of(function: Any) -> list[Stage]:
    """The blocks of a function without a schedule, in order. Raises NotWritten for others."""
    if not isinstance(function.body, s_tir.SBlockRealize):
        raise NotWritten("a root block is needed")
    body = function.body.block.body
    return [_stage(part) for part in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]


def _stage(statement: Any) -> Stage:
    loops = []
    while isinstance(statement, tirx.For):
        loops.append(statement.loop_var)
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize):
        raise NotWritten("one block in each loop nest is needed")
    block = statement.block
    straight = len(loops) == len(statement.iter_values) and all(
        value.same_as(loop) for value, loop in zip(statement.iter_values, loops, strict=True)
    )
    if not straight or not isinstance(block.body, tirx.BufferStore):
        raise NotWritten("blocks that store one value for each point of their loops are needed")
    store = block.body
    axes = [axis.var for axis in block.iter_vars]
    if not _is_point(store.indices, axes, store.buffer):
        raise NotWritten("blocks that store in the order of their axes are needed")
    return Stage(store.buffer, axes, store.value, block)


def _is_point(indices: Sequence[Any], axes: Sequence[Any], buffer: Any) -> bool:
    """True where ``indices`` are the first of ``axes``; 0 stands for an axis of one."""
    sizes = [int(size) for size in buffer.ty.shape]
    return all(
        index.same_as(axis) or (size == 1 and _is_zero(index))
        for index, axis, size in zip(indices, axes, sizes, strict=False)
    )


def _is_zero(index: Any) -> bool:
    return isinstance(index, tirx.IntImm) and int(index.value) == 0


def check_pointwise(stages: Sequence[Stage]) -> None:
    """Raises NotWritten unless each stage after the first is elementwise over the first's points,
    and reads what stages before it wrote at that point alone."""
    written = [stages[0].buffer]
    for stage in stages[1:]:
        if stage.shape != stages[0].shape or len(stage.axes) != len(stage.shape):
            raise NotWritten("elementwise blocks of the same shape are needed after a window")
        for load in loads_in(stage.value):
            inside = any(load.source.same_as(buffer) for buffer in written)
            if inside and not _is_point(load.indices, stage.axes, load.source):
                raise NotWritten("a block reads its neighbours")
        written.append(stage.buffer)


def loads_in(value: Any) -> list[Any]:
    """All loads in an expression."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, lambda load: found.append(load)))
    return found


def mentions(value: Any, variable: Any) -> bool:
    """True where an expression depends on a variable."""
    found: list[Any] = []
    tvm_ffi.structural_walk(
        value, (ir.Var, lambda other: found.append(other) if other.same_as(variable) else None)
    )
    return bool(found)


def substituted(value: Any, axes: dict[Any, Any], load: Callable[[Any], Any] | None = None) -> Any:
    """An expression with other values for its variables; ``load`` may replace loads."""
    loads = [] if load is None else [(ir.TensorLoad, load)]
    return tvm_ffi.structural_map(
        value, [(ir.Var, lambda var: axes.get(var, var)), *loads], order="post"
    )


def shuffled(vectors: Sequence[Any], lanes: Sequence[int]) -> Any:
    """A vector of some lanes of vectors end to end."""
    if len(vectors) == 1 and list(lanes) == list(range(len(lanes))):
        return vectors[0]
    return prim.Shuffle(vectors, [tirx.IntImm("int32", lane) for lane in lanes])


def integer(value: int) -> Any:
    """A constant index."""
    return tirx.IntImm(INDEX, value)


def real(value: float, dtype: str = "float32") -> Any:
    """A constant number."""
    return prim.FloatImm(dtype, value)


def single(value: Any) -> Any:
    """A value as float32."""
    return value if str(value.ty.dtype) == "float32" else prim.Cast("float32", value)


def loop(
    name: str, extent: Any, body: Callable[[Any], Any], kind: Any = Kind.SERIAL, low: Any = 0
) -> Any:
    """A loop over ``extent`` values from ``low`` on; none where there is one value."""
    low = integer(low) if isinstance(low, int) else low
    if extent == 1 and kind != Kind.VECTORIZED:
        return body(low)
    extent = integer(extent) if isinstance(extent, int) else extent
    variable = tirx.Var(name, INDEX)
    return tirx.For(variable, low, extent, kind, body(variable))


def in_steps(name: str, count: int, unroll: int, body: Callable[[Any], Any]) -> Any:
    """A loop over ``count`` values, ``unroll`` of them written out in each step where they divide
    it."""
    if unroll == 1 or count % unroll:
        return loop(name, count, body)
    return loop(
        f"{name}s", count // unroll,
        lambda step: loop(name, unroll, lambda i: body(step * unroll + i), Kind.UNROLLED),
    )  # fmt: skip


def place(index: Any, sizes: Sequence[int]) -> list[Any]:
    """Where number ``index`` of all places lies along axes of ``sizes``."""
    places = []
    for size in reversed(sizes):
        places.append(index % size if size > 1 else integer(0))
        index = index // size
    return places[::-1]


def sequence(statements: Sequence[Any]) -> Any:
    """Statements one after another; none is nothing to do."""
    if not statements:
        return tirx.Evaluate(integer(0))
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def local(name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
    """A buffer that ends up in registers, or on the stack where it has less than 1 KiB.

    Of scope "global": only such ones TVM leaves on the stack. Each other one is a call into its
    pool of memory and one back for every task, which took as long as a small task itself.
    """
    return tirx.decl_buffer(list(shape), dtype, name=name, scope="global")


def written(function: Any, body: Any) -> Any:
    """``function`` with other loops."""
    made = tirx.PrimFunc(function.params, body, function.ret_type, function.attrs, function.span)
    return made.with_attr("tirx.is_scheduled", True)
