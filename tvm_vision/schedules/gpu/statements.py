"""Kernels that are written statement by statement in place of a function's blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def dtype_of(parameter: Any) -> str:
    """The type of a parameter, or of its buffer."""
    return str(parameter.ty.dtype)


def put(buffer: Any, place: Any, value: Any) -> None:
    """Writes an element of a buffer of one axis."""
    T.buffer_store(buffer, value, [place])


def kernel_of(
    schedule: Schedule,
    launch: Mapping[str, int],
    write: Callable[..., None],
    marks: Mapping[str, int] | None = None,
) -> Schedule:
    """A schedule of a function with the parameters of the given one, as one kernel.

    Args:
        launch: extents of the axes of threads, by their tags.
        write: writes the statements of a thread, of the buffers and the threads' variables.
        marks: those of kernel_marks.py that the kernel has.
    """
    function = schedule.mod["main"]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        buffers = [
            T.arg(str(p.name), T.buffer(tuple(map(int, p.ty.shape)), dtype_of(p)))
            for p in function.params
        ]
        with T.sblock("root"):
            axes = [tvm.te.thread_axis(tag) for tag in launch]
            sizes = zip(axes, launch.values(), strict=True)
            frames = [T.attr(axis, "thread_extent", size) for axis, size in sizes]
            frames += [T.attr(axes[-1], mark, value) for mark, value in (marks or {}).items()]
            # Memory of a block around the threads would be the host's.
            with T.frame_scope(frames), T.sblock("statements"):
                T.reads(*(_whole(b) for b in buffers[:-1]))
                T.writes(_whole(buffers[-1]))
                write(buffers, *(axis.var for axis in axes))
    made = builder.get().with_attrs(dict(function.attrs))
    return Schedule(tvm.IRModule({"main": made}))


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, int(n)) for n in buffer.shape)]
