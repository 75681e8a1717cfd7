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
THREADS = 64  # of a workgroup whose threads have nothing in common
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


def for_each(count: int, body: Callable[[Any], None]) -> tirx.Stmt:
    """A launch with a thread for each of ``count``, whose number the body takes."""
    with IRBuilder() as builder:
        with launched({"blockIdx.x": -(-count // THREADS), "threadIdx.x": THREADS}) as at:
            own = at["blockIdx.x"] * THREADS + at["threadIdx.x"]
            with T.If(own < count), T.Then():
                body(own)
        return builder.get()


def for_each_place(
    planes: int, places: int, body: Callable[[Any, Any], None], on_gpu: bool
) -> tirx.Stmt:
    """The body for each place of each plane: of a GPU's thread, or in turn on a processor, whose
    threads share the planes."""
    if on_gpu:
        return for_each(planes * places, lambda own: body(own // places, own % places))
    with IRBuilder() as builder:
        with T.parallel(0, planes) as plane, T.serial(0, places) as place:
            body(plane, place)
        return builder.get()


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

    def combine_all(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        return [combine(one[0], other[0])]

    return all_before_thread([own], thread, threads, combine_all, [start])[0]


def all_before_thread(
    own: Sequence[Any],
    thread: Any,
    threads: int,
    combine: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    start: Sequence[Any],
) -> list[Any]:
    """As ``before_thread``, of several values that are combined together; a buffer for each."""
    dtypes = [str(value.ty.dtype) for value in start]
    before, other, both = ([local(dtype) for dtype in dtypes] for _ in range(3))
    each, groups = (
        [local(dtype, n, "shared") for dtype in dtypes] for n in (threads, threads // GROUP)
    )

    def store(buffers: Sequence[Any], place: Any, values: Sequence[Any]) -> None:
        for buffer, value in zip(buffers, values, strict=True):
            buffer[place] = value

    def add(buffers: Sequence[Any], first: Any, most: int, end: Any) -> None:
        with T.serial(0, most) as i:
            # A condition around a load would hold up the next.
            store(other, 0, [buffer[first + i] for buffer in buffers])
            store(both, 0, combine([b[0] for b in before], [o[0] for o in other]))
            for old, new in zip(before, both, strict=True):
                old[0] = tirx.Select(first + i < end, new[0], old[0])

    store(each, thread, own)
    barrier()
    store(before, 0, start)
    with T.If(thread < threads // GROUP), T.Then():
        add(each, thread * GROUP, GROUP, T.int32(threads))
        store(groups, thread, [b[0] for b in before])
    barrier()
    store(before, 0, start)
    add(groups, T.int32(0), threads // GROUP, thread // GROUP)
    add(each, thread // GROUP * GROUP, GROUP, thread)
    return before
