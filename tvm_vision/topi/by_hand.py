"""Kernels that are written statement by statement: their launch, what they keep, and where the
threads of a workgroup wait for each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

GROUP = 16
# Shapes and types of tensors.
Results = Sequence[tuple[tuple[int, ...], str]]


def kernel(
    name: str,
    results: Results,
    given: Sequence[te.Tensor],
    launch: dict[str, int],
    statements: Callable[[list[Any], list[Any], dict[str, Any]], None],
) -> list[te.Tensor]:
    """The results of a kernel of its own.

    launch: the extents of its axes, by their names.
    statements: emits what a thread does, of the buffers read and written and the axes' variables.
    """

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        read, written = ([T.buffer_proxy(buffer) for buffer in those] for those in (ins, outs))
        with IRBuilder() as builder:
            with launched(launch) as at:
                statements(read, written, at)
            return builder.get()

    shapes, dtypes = [shape for shape, _ in results], [dtype for _, dtype in results]
    made = te.extern(shapes, list(given), body, dtype=dtypes, name=name)
    return made if isinstance(made, list) else [made]


@contextlib.contextmanager
def launched(launch: dict[str, int]) -> Iterator[dict[str, Any]]:
    """The statements of a launch with these extents of its axes; the axes' variables."""
    axes = {axis: te.thread_axis(axis) for axis in launch}
    attributes = [T.attr(axes[axis], "thread_extent", n) for axis, n in launch.items()]
    with T.frame_scope(attributes):
        yield {name: axis.var for name, axis in axes.items()}


def local(dtype: str, size: int = 1, scope: str = "local") -> Any:
    """A buffer of a kernel's own, of one value or more."""
    return T.buffer_proxy(T.decl_buffer([size], dtype, scope=scope))


def barrier() -> None:
    """A statement behind which all see what each has put into shared memory."""
    shared = [tvm.ir.StringImm("shared")]
    T.evaluate(tvm.ir.Call("tirx.tvm_storage_sync", shared, ret_ty="void"))


def before_thread(
    own: Any, thread: Any, threads: int, combine: Callable[[Any, Any], Any], start: Any
) -> Any:
    """A buffer of one value: those of all threads before ``thread``, combined in order.

    own: the thread's value. start: the value that changes none.
    """
    dtype = str(start.ty.dtype)
    before = local(dtype)
    each, groups = (local(dtype, n, "shared") for n in (threads, threads // GROUP))

    def add(buffer: Any, first: Any, most: int, end: Any) -> None:
        with T.serial(0, most) as i:
            with T.If(first + i < end), T.Then():
                before[0] = combine(before[0], buffer[first + i])

    each[thread] = own
    barrier()
    before[0] = start
    with T.If(thread < threads // GROUP), T.Then():
        add(each, thread * GROUP, GROUP, T.int32(threads))
        groups[thread] = before[0]
    barrier()
    before[0] = start
    add(groups, T.int32(0), threads // GROUP, thread // GROUP)
    add(each, thread // GROUP * GROUP, GROUP, thread)
    return before
