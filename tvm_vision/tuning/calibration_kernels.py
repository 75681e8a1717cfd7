"""Kernels that measure a device: each does one thing, and little else."""

# TVMScript is no Python that types can be checked of.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from ..schedules.factors import TYPES

SUMS = 8  # of a thread or a subgroup, so that none waits for the one before
LANES = 4  # of a vector
SUBGROUPS = 4  # of a workgroup that multiplies matrices


def copy(count: int, threads: int) -> Any:
    """y = x, of ``count`` float32, vectors of four."""
    groups = count // (threads * LANES)

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((count,), "float32"), y: T.Buffer((count,), "float32")) -> None:
        for g in T.thread_binding(groups, thread="blockIdx.x"):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                for v in T.vectorized(LANES):
                    with T.sblock("copy"):
                        i = T.axis.spatial(count, (g * threads + t) * LANES + v)
                        y[i] = x[i]

    return main


def multiply_add(dtype: str, groups: int, threads: int, rounds: int) -> Any:
    """Each thread: SUMS numbers, ``rounds`` times multiplied and added to; as vectors of LANES,
    whose float16 a device multiplies together if it can."""
    total = groups * threads

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((SUMS,), dtype), y: T.Buffer((total,), dtype)) -> None:
        for g in T.thread_binding(groups, thread="blockIdx.x"):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("work"):
                    b, own = T.axis.remap("SS", [g, t])
                    sums = T.sblock_alloc_buffer((SUMS,), dtype, scope="local")
                    # Of each thread its own: AMD's instruction takes one that all threads share.
                    factor = T.sblock_alloc_buffer((1,), dtype, scope="local")
                    factor[0] = x[1] + T.Cast(dtype, own)
                    for s in T.unroll(SUMS):
                        sums[s] = x[s] + T.Cast(dtype, own)
                    for _ in T.serial(rounds):
                        for s in T.unroll(SUMS // LANES):
                            for v in T.vectorized(LANES):
                                sums[s * LANES + v] = sums[s * LANES + v] * factor[0] + x[2]
                    y[b * threads + own] = (
                        sums[0] + sums[1] + sums[2] + sums[3]
                        + sums[4] + sums[5] + sums[6] + sums[7]
                    )  # fmt: skip

    return main


def dot_products(groups: int, threads: int, rounds: int) -> Any:
    """As ``multiply_add``, of four bytes a step."""
    total = groups * threads

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((SUMS,), "int32"), y: T.Buffer((total,), "int32")) -> None:
        for g in T.thread_binding(groups, thread="blockIdx.x"):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("work"):
                    b, own = T.axis.remap("SS", [g, t])
                    sums = T.sblock_alloc_buffer((SUMS,), "int32", scope="local")
                    for s in T.unroll(SUMS):
                        sums[s] = x[s] + own
                    for _ in T.serial(rounds):
                        for s in T.unroll(SUMS):
                            sums[s] = T.call_pure_extern(
                                "int32", "__dp4a",
                                T.reinterpret("int8x4", sums[s]), T.reinterpret("int8x4", x[1]),
                                sums[s],
                            )  # fmt: skip
                    y[b * threads + own] = (
                        sums[0] + sums[1] + sums[2] + sums[3]
                        + sums[4] + sums[5] + sums[6] + sums[7]
                    )  # fmt: skip

    return main


def matrix_products(
    factors: str, shape: tuple[int, int, int], groups: int, lanes: int, rounds: int
) -> Any:
    """As ``multiply_add``, of cooperative matrices: SUMS of a subgroup, which begin with different
    numbers, so that none is another's.

    factors: a key of TYPES. shape: (m, n, k). lanes: threads of a subgroup.
    """
    types = TYPES[factors]
    m, n, k = shape
    b_rows, b_columns = types.b(n, k)
    order = "col_major" if types.transposed else "row_major"
    most = max(m, n) * k
    each = m * n
    total = groups * SUBGROUPS * SUMS * each

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((most,), types.factor), y: T.Buffer((total,), types.sum)) -> None:
        for g in T.thread_binding(groups, thread="blockIdx.x"):
            for w in T.thread_binding(SUBGROUPS, thread="threadIdx.y"):
                for _t in T.thread_binding(lanes, thread="threadIdx.x"):
                    with T.sblock("work"):
                        b, own = T.axis.remap("SS", [g, w])
                        one = T.sblock_alloc_buffer((m, k), types.factor, scope="wmma.matrix_a")
                        other = T.sblock_alloc_buffer(
                            (b_rows, b_columns), types.factor, scope="wmma.matrix_b"
                        )
                        sums = T.sblock_alloc_buffer(
                            (SUMS * m, n), types.sum, scope="wmma.accumulator"
                        )
                        T.evaluate(T.tvm_load_matrix_sync(
                            one.data, m, n, k, 0, x.access_ptr("r"), k, "row_major", dtype="void"
                        ))  # fmt: skip
                        T.evaluate(T.tvm_load_matrix_sync(
                            other.data, m, n, k, 0, x.access_ptr("r"), b_columns, order,
                            dtype="void",
                        ))  # fmt: skip
                        for s in T.unroll(SUMS):
                            T.evaluate(T.tvm_fill_fragment(
                                sums.data, m, n, k, s, T.Cast(types.sum, s), dtype="void"
                            ))  # fmt: skip
                        for _ in T.serial(rounds):
                            for s in T.unroll(SUMS):
                                T.evaluate(T.tvm_mma_sync(
                                    sums.data, s, one.data, 0, other.data, 0, sums.data, s,
                                    dtype="void",
                                ))  # fmt: skip
                        for s in T.unroll(SUMS):
                            T.evaluate(T.tvm_store_matrix_sync(
                                sums.data, m, n, k, s,
                                y.access_ptr("w", offset=((b * SUBGROUPS + own) * SUMS + s) * each),
                                n, "row_major", dtype="void",
                            ))  # fmt: skip

    return main


def shared_loads(groups: int, threads: int, rounds: int, words: int) -> Any:
    """Each thread reads SUMS words of ``words`` in shared memory, ``rounds`` times."""
    total = groups * threads

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((words,), "float32"), y: T.Buffer((total,), "float32")) -> None:
        for g in T.thread_binding(groups, thread="blockIdx.x"):
            with T.sblock("group"):
                b = T.axis.spatial(groups, g)
                shared = T.sblock_alloc_buffer((words,), "float32", scope="shared")
                for t in T.thread_binding(threads, thread="threadIdx.x"):
                    for k in T.serial(words // threads):
                        with T.sblock("fill"):
                            i = T.axis.spatial(words, k * threads + t)
                            shared[i] = x[i]
                for t in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.sblock("read"):
                        own = T.axis.spatial(threads, t)
                        sums = T.sblock_alloc_buffer((SUMS,), "float32", scope="local")
                        for s in T.unroll(SUMS):
                            sums[s] = T.float32(0)
                        for r in T.serial(rounds):
                            for s in T.unroll(SUMS):
                                sums[s] = sums[s] + shared[(own + r * SUMS + s) % words]
                        y[b * threads + own] = (
                            sums[0] + sums[1] + sums[2] + sums[3]
                            + sums[4] + sums[5] + sums[6] + sums[7]
                        )  # fmt: skip

    return main


def launches(count: int, threads: int) -> Any:
    """``count`` kernels, each of which waits for the one before: y = y + 1."""

    @T.prim_func(s_tir=True)
    def main(y: T.Buffer((threads,), "float32")) -> None:
        for _ in T.serial(count):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("step"):
                    i = T.axis.spatial(threads, t)
                    y[i] = y[i] + T.float32(1)

    return main


def scheduled(function: Any) -> Any:
    """As ``tvm.tirx.build`` takes a function that is bound to threads already."""
    attributes = {"global_symbol": "main", "tirx.is_scheduled": True}
    assert isinstance(function, tirx.PrimFunc)
    return function.with_attrs(attributes)
