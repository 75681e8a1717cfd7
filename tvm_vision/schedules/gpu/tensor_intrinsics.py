"""Tensor intrinsics: what a subgroup's cooperative matrices compute, and how it is written; also
what a dot product of bytes does.

Each is a pair of functions: a description by loops, which TVM looks for in a kernel, and the
implementation that takes its place. TVM has some under the name of CUDA's "wmma"; importing those
takes it more than ten seconds, and their shapes are NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ..factors import FP16, INT8, TYPES, Types

A, B, SUMS = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"
SHARED, GLOBAL, LOCAL = "shared", "global", "local"
ALIGNMENT = 64  # bytes, that TVM assumes of a matrix
FACTOR = 8  # what the first element of a matrix in memory is a multiple of


@dataclass(frozen=True)
class _Matrix:
    rows: int
    columns: int
    dtype: str
    scope: str

    def argument(self, name: str, strides: list[Any] | None = None) -> Any:
        """The matrix as an argument of the function that is being built."""
        return T.match_buffer(
            T.arg(name, T.handle()),
            (self.rows, self.columns),
            self.dtype,
            strides=strides,
            scope=self.scope,
            align=ALIGNMENT,
            offset_factor=FACTOR if self.scope in (SHARED, GLOBAL) else self.columns,
        )

    def whole(self, buffer: Any) -> Any:
        """All of it as a region."""
        return buffer[0 : self.rows, 0 : self.columns]


@dataclass(frozen=True)
class _Kind:
    """An intrinsic.

    Attributes:
        matrices: its arguments; the last one is written.
        reads: which of them are read, in the order in which TVM finds them in a kernel.
        loops: their kinds (S, R) and extents.
        element: of the buffers and loop variables the indices and the value that a step writes.
        call: of the buffers and the elements of a row of each the operator that does it all.
        gives: whether that gives the only element of the last buffer, and does not store it.
    """

    matrices: tuple[_Matrix, ...]
    reads: tuple[int, ...]
    loops: tuple[str, tuple[int, ...]]
    element: Callable[[list[Any], list[Any]], tuple[list[Any], Any]]
    call: Callable[[list[Any], list[Any]], Any]
    gives: bool = False


def intrinsic(kind: str, shape: tuple[int, int, int], step: int = 1, factors: str = FP16) -> str:
    """The name of an intrinsic, registered at its first use.

    Args:
        kind: "fill", "load_a", "load_b", "multiply_ab", "multiply_ba" or "store"; "load_b_global"
            loads from a tensor in device memory, the others move from and to shared memory. A
            kernel that multiplies values of B by those of A is one of "multiply_ba", which does the
            same: TVM compares the order of factors, too.
        shape: (m, n, k) of a product.
        step: for "load_a": every how manieth row in memory is one of the matrix.
        factors: a key of TYPES.
    """
    m, n, k = shape
    name = f"tvm_vision_matrix_{kind}_{m}x{n}x{k}" + (f"_{step}" if step > 1 else "")
    name += f"_{factors}" if factors != FP16 else ""
    if TensorIntrin.get(name, allow_missing=True) is None:
        types = TYPES[factors]
        of = _load_a(types, m, n, k, step) if kind == "load_a" else _KINDS[kind](types, m, n, k)
        TensorIntrin.register(name, _description(of), _implementation(of))
    return name


def dot_product(terms: int) -> str:
    """The name of the intrinsic that adds products of bytes in registers to an int32."""
    name = f"tvm_vision_dot_product_{terms}"
    if TensorIntrin.get(name, allow_missing=True) is None:
        of = _dot(terms)
        TensorIntrin.register(name, _description(of), _implementation(of))
    return name


def _description(kind: _Kind) -> tirx.PrimFunc:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("description")
        buffers = [m.argument(f"x{i}") for i, m in enumerate(kind.matrices)]
        with T.sblock("root"):
            _touches(kind, buffers)
            letters, extents = kind.loops
            with T.grid(*extents) as loops, T.sblock("step"):
                one = len(extents) == 1  # of a single loop TVM gives the variable itself
                found = T.axis.remap(letters, [loops] if one else list(loops))
                axes = [found] if one else list(found)
                indices, value = kind.element(buffers, axes)
                T.buffer_store(buffers[-1], value, indices)
    return builder.get()


def _implementation(kind: _Kind) -> tirx.PrimFunc:
    rows = [tirx.Var(f"row{i}", "int32") for i in range(len(kind.matrices))]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("implementation")
        buffers = [
            m.argument(f"x{i}", [rows[i], tirx.Var(f"one{i}", "int32")])
            for i, m in enumerate(kind.matrices)
        ]
        with T.sblock("root"):
            _touches(kind, buffers)
            done = kind.call(buffers, rows)
            if kind.gives:
                T.buffer_store(buffers[-1], done, [0, 0])
            else:
                T.evaluate(done)
    return builder.get()


def _touches(kind: _Kind, buffers: list[Any]) -> None:
    """What the block around an intrinsic reads and writes."""
    T.reads(*(kind.matrices[i].whole(buffers[i]) for i in kind.reads))
    T.writes(kind.matrices[-1].whole(buffers[-1]))


def _number(buffer: Any, stride: Any) -> Any:
    """Which matrix of an array of them a buffer begins at; ``stride``: elements of a row of all."""
    rows, columns = (int(extent) for extent in buffer.shape)
    offset = buffer.elem_offset
    return offset // stride // rows * (stride // columns) + offset % stride // columns


def _copy(
    m: int,
    n: int,
    k: int,
    source: _Matrix,
    target: _Matrix,
    step: int = 1,
    transposed: bool = False,
) -> _Kind:
    """From memory or into it.

    Args:
        step: rows of the source from one that is taken to the next.
        turned: whether rows in memory are columns of the matrix.
    """

    def call(buffers: list[Any], rows: list[Any]) -> Any:
        loads = source.scope in (SHARED, GLOBAL)
        shared, own = (0, 1) if loads else (1, 0)
        operator = T.tvm_load_matrix_sync if loads else T.tvm_store_matrix_sync
        place = buffers[shared].access_ptr("r" if loads else "w", ptr_type=source.dtype)
        number = _number(buffers[own], rows[own])
        matrix, stride = buffers[own].data, rows[shared] * step
        order = "col_major" if transposed else "row_major"
        return operator(matrix, m, n, k, number, place, stride, order, dtype="void")

    return _Kind(
        matrices=(source, target),
        reads=(0,),
        loops=("SS", (target.rows, target.columns)),
        element=lambda buffers, axes: (axes, buffers[0][axes[0] * step, axes[1]]),
        call=call,
    )


def _load_a(of: Types, m: int, n: int, k: int, step: int) -> _Kind:
    source = _Matrix((m - 1) * step + 1, k, of.factor, SHARED)
    return _copy(m, n, k, source, _Matrix(m, k, of.factor, A), step)


def _load_b(of: Types, m: int, n: int, k: int, scope: str) -> _Kind:
    size = of.b(n, k)
    source, target = (_Matrix(*size, of.factor, place) for place in (scope, B))
    return _copy(m, n, k, source, target, transposed=of.transposed)


def _fill(of: Types, m: int, n: int, k: int) -> _Kind:
    zero = tirx.const(0, of.sum)
    return _Kind(
        matrices=(_Matrix(m, n, of.sum, SUMS),),
        reads=(),
        loops=("SS", (m, n)),
        element=lambda buffers, axes: (axes, zero),
        call=lambda buffers, rows: T.tvm_fill_fragment(
            buffers[0].data, m, n, k, _number(buffers[0], rows[0]), zero, dtype="void"
        ),
    )


def _multiply(of: Types, m: int, n: int, k: int, b_first: bool) -> _Kind:
    def element(buffers: list[Any], axes: list[Any]) -> tuple[list[Any], Any]:
        x, y, z = buffers
        i, j, r = axes
        other = y[j, r] if of.transposed else y[r, j]
        factors = [T.Cast(of.sum, x[i, r]), T.Cast(of.sum, other)]
        one, two = reversed(factors) if b_first else factors
        return [i, j], z[i, j] + one * two

    def call(buffers: list[Any], rows: list[Any]) -> Any:
        places = [
            part
            for i in (2, 0, 1, 2)  # the result, both factors, what is added to
            for part in (buffers[i].data, _number(buffers[i], rows[i]))
        ]
        return T.tvm_mma_sync(*places, dtype="void")

    return _Kind(
        matrices=(
            _Matrix(m, k, of.factor, A),
            _Matrix(*of.b(n, k), of.factor, B),
            _Matrix(m, n, of.sum, SUMS),
        ),
        reads=(2, 1, 0) if b_first else (2, 0, 1),
        loops=("SSR", (m, n, k)),
        element=element,
        call=call,
    )


def _dot(terms: int) -> _Kind:
    of = TYPES[INT8]

    def element(buffers: list[Any], axes: list[Any]) -> tuple[list[Any], Any]:
        x, y, z = buffers
        return [0, 0], z[0, 0] + T.Cast(of.sum, x[0, axes[0]]) * T.Cast(of.sum, y[0, axes[0]])

    def call(buffers: list[Any], rows: list[Any]) -> Any:
        x, y, z = buffers
        factors = [buffer.vload([0, 0], f"{of.factor}x{terms}") for buffer in (x, y)]
        return T.call_pure_extern(of.sum, "__dp4a", *factors, z[0, 0])

    factor = _Matrix(1, terms, of.factor, LOCAL)
    return _Kind(
        matrices=(factor, factor, _Matrix(1, 1, of.sum, LOCAL)),
        reads=(2, 0, 1),
        loops=("R", (terms,)),
        element=element,
        call=call,
        gives=True,
    )


_KINDS: dict[str, Callable[[Types, int, int, int], _Kind]] = {
    "fill": _fill,
    "load_b": lambda of, m, n, k: _load_b(of, m, n, k, SHARED),
    "load_b_global": lambda of, m, n, k: _load_b(of, m, n, k, GLOBAL),
    "multiply_ab": lambda of, m, n, k: _multiply(of, m, n, k, b_first=False),
    "multiply_ba": lambda of, m, n, k: _multiply(of, m, n, k, b_first=True),
    "store": lambda of, m, n, k: _copy(
        m, n, k, _Matrix(m, n, of.sum, SUMS), _Matrix(m, n, of.sum, SHARED)
    ),
}
