"""Tensor intrinsics: what a subgroup's cooperative matrices compute, and how it is written.

Each is a pair of functions: a description by loops, which TVM looks for in a kernel, and the
implementation that takes its place. TVM has some under the name of CUDA's "wmma"; importing those
takes it more than ten seconds, and their shapes are NVIDIA's.
"""

# No "from __future__ import annotations" here: TVMScript evaluates the annotations.

from collections.abc import Callable
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

A, B, SUMS, SHARED = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "shared"
HALF, SINGLE = "float16", "float32"
BYTES = 64  # alignment that TVM assumes of a matrix


def intrinsic(kind: str, shape: tuple[int, int, int]) -> str:
    """The name of an intrinsic, registered at its first use.

    Args:
        kind: "fill", "load_a", "load_b", "multiply" or "store".
        shape: (m, n, k) of a product.
    """
    m, n, k = shape
    name = f"tvm_vision_matrix_{kind}_{m}x{n}x{k}"
    if TensorIntrin.get(name, allow_missing=True) is None:
        TensorIntrin.register(name, *_PAIRS[kind](m, n, k))
    return name


def _number(buffer: Any, stride: Any, rows: int, columns: int) -> Any:
    """Which matrix of an array of them a buffer begins at; ``stride``: elements of a row of all."""
    offset = buffer.elem_offset
    return offset // stride // rows * (stride // columns) + offset % stride // columns


def _load(m: int, n: int, k: int, scope: str) -> tuple[Any, Any]:
    rows, columns = (m, k) if scope == A else (k, n)

    @T.prim_func(s_tir=True)
    def description(source: T.handle, target: T.handle) -> None:
        x = T.match_buffer(
            source, (rows, columns), HALF, align=BYTES, offset_factor=columns, scope=SHARED
        )
        y = T.match_buffer(
            target, (rows, columns), HALF, align=BYTES, offset_factor=columns, scope=scope
        )
        with T.sblock("root"):
            T.reads(x[0:rows, 0:columns])
            T.writes(y[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.sblock("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(source: T.handle, target: T.handle) -> None:
        x_row = T.int32()
        x_one = T.int32()
        y_row = T.int32()
        y_one = T.int32()
        x = T.match_buffer(
            source,
            (rows, columns),
            HALF,
            align=BYTES,
            offset_factor=columns,
            scope=SHARED,
            strides=[x_row, x_one],
        )
        y = T.match_buffer(
            target,
            (rows, columns),
            HALF,
            align=BYTES,
            offset_factor=columns,
            scope=scope,
            strides=[y_row, y_one],
        )
        with T.sblock("root"):
            T.reads(x[0:rows, 0:columns])
            T.writes(y[0:rows, 0:columns])
            T.evaluate(
                T.tvm_load_matrix_sync(
                    y.data,
                    m,
                    n,
                    k,
                    _number(y, y_row, rows, columns),
                    x.access_ptr("r", ptr_type=HALF),
                    x_row,
                    "row_major",
                    dtype="void",
                )
            )

    return description, implementation


def _fill(m: int, n: int, k: int) -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(target: T.handle) -> None:
        y = T.match_buffer(target, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS)
        with T.sblock("root"):
            T.reads()
            T.writes(y[0:m, 0:n])
            for i, j in T.grid(m, n):
                with T.sblock("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = T.float32(0)

    @T.prim_func(s_tir=True)
    def implementation(target: T.handle) -> None:
        y_row = T.int32()
        y_one = T.int32()
        y = T.match_buffer(
            target, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS, strides=[y_row, y_one]
        )
        with T.sblock("root"):
            T.reads()
            T.writes(y[0:m, 0:n])
            T.evaluate(
                T.tvm_fill_fragment(
                    y.data, m, n, k, _number(y, y_row, m, n), T.float32(0), dtype="void"
                )
            )

    return description, implementation


def _store(m: int, n: int, k: int) -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(source: T.handle, target: T.handle) -> None:
        x = T.match_buffer(source, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS)
        y = T.match_buffer(target, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SHARED)
        with T.sblock("root"):
            T.reads(x[0:m, 0:n])
            T.writes(y[0:m, 0:n])
            for i, j in T.grid(m, n):
                with T.sblock("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(source: T.handle, target: T.handle) -> None:
        x_row = T.int32()
        x_one = T.int32()
        y_row = T.int32()
        y_one = T.int32()
        x = T.match_buffer(
            source, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS, strides=[x_row, x_one]
        )
        y = T.match_buffer(
            target,
            (m, n),
            SINGLE,
            align=BYTES,
            offset_factor=n,
            scope=SHARED,
            strides=[y_row, y_one],
        )
        with T.sblock("root"):
            T.reads(x[0:m, 0:n])
            T.writes(y[0:m, 0:n])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    x.data,
                    m,
                    n,
                    k,
                    _number(x, x_row, m, n),
                    y.access_ptr("w", ptr_type=SINGLE),
                    y_row,
                    "row_major",
                    dtype="void",
                )
            )

    return description, implementation


def _multiply(m: int, n: int, k: int) -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(left: T.handle, right: T.handle, total: T.handle) -> None:
        x = T.match_buffer(left, (m, k), HALF, align=BYTES, offset_factor=k, scope=A)
        y = T.match_buffer(right, (k, n), HALF, align=BYTES, offset_factor=n, scope=B)
        z = T.match_buffer(total, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS)
        with T.sblock("root"):
            T.reads(z[0:m, 0:n], x[0:m, 0:k], y[0:k, 0:n])
            T.writes(z[0:m, 0:n])
            for i, j, r in T.grid(m, n, k):
                with T.sblock(""):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    z[vi, vj] = z[vi, vj] + T.Cast(SINGLE, x[vi, vr]) * T.Cast(SINGLE, y[vr, vj])

    @T.prim_func(s_tir=True)
    def implementation(left: T.handle, right: T.handle, total: T.handle) -> None:
        x_row = T.int32()
        x_one = T.int32()
        y_row = T.int32()
        y_one = T.int32()
        z_row = T.int32()
        z_one = T.int32()
        x = T.match_buffer(
            left, (m, k), HALF, align=BYTES, offset_factor=k, scope=A, strides=[x_row, x_one]
        )
        y = T.match_buffer(
            right, (k, n), HALF, align=BYTES, offset_factor=n, scope=B, strides=[y_row, y_one]
        )
        z = T.match_buffer(
            total, (m, n), SINGLE, align=BYTES, offset_factor=n, scope=SUMS, strides=[z_row, z_one]
        )
        with T.sblock("root"):
            T.reads(z[0:m, 0:n], x[0:m, 0:k], y[0:k, 0:n])
            T.writes(z[0:m, 0:n])
            T.evaluate(
                T.tvm_mma_sync(
                    z.data,
                    _number(z, z_row, m, n),
                    x.data,
                    _number(x, x_row, m, k),
                    y.data,
                    _number(y, y_row, k, n),
                    z.data,
                    _number(z, z_row, m, n),
                    dtype="void",
                )
            )

    return description, implementation


_PAIRS: dict[str, Callable[[int, int, int], tuple[Any, Any]]] = {
    "fill": _fill,
    "load_a": lambda m, n, k: _load(m, n, k, A),
    "load_b": lambda m, n, k: _load(m, n, k, B),
    "multiply": _multiply,
    "store": _store,
}
