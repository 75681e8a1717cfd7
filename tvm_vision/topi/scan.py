"""Running sums and products: of rows by one workgroup each, on processors down columns.

TVM's kernels for GPUs go over a row block by block, and once more for what was before each: an
H200 took 13 to 16 us for some thousand numbers, which are a thread's few here. For processors it
goes down one column after the other, a number of each cache line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .by_hand import before_thread, kernel, local

THREADS = 256
# Of neighbouring columns: what vectors of registers hold.
STRIP_BITS = 2048
# Fewer numbers are done before other threads have woken up.
WORTH_THREADS = 1 << 14
COMBINE: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "cumsum": (lambda a, b: a + b, 0),
    "cumprod": (lambda a, b: a * b, 1),
}


def scan(x: te.Tensor, kind: str, dtype: str, exclusive: bool, threads: int) -> te.Tensor:
    """Of each element of a row all up to it together, without it where that is exclusive.

    x: (rows, n), of any type; the result is of ``dtype``.
    kind: of COMBINE.
    """
    rows, count = (int(size) for size in x.shape)
    combine, neutral = COMBINE[kind]
    share = -(-count // threads)

    def statements(ins: list[Any], outs: list[Any], at: dict[str, Any]) -> None:
        (given,), (result,) = ins, outs
        row, thread = at["blockIdx.x"], at["threadIdx.x"]
        own, value = local(dtype), local(dtype)

        def through(take: Callable[[Any, Any], None]) -> None:
            with T.serial(0, share) as i:
                place = thread * share + i
                with T.If(place < count), T.Then():
                    value[0] = given[row, place].astype(dtype)
                    take(place, value[0])

        def gathered(place: Any, number: Any) -> None:
            own[0] = combine(own[0], number)

        own[0] = tirx.const(neutral, dtype)
        through(gathered)
        start = tirx.const(neutral, dtype)
        before = before_thread(own[0], thread, threads, combine, start)

        def stored(place: Any, number: Any) -> None:
            if exclusive:
                result[row, place] = before[0]
            before[0] = combine(before[0], number)
            if not exclusive:
                result[row, place] = before[0]

        through(stored)

    launch = {"blockIdx.x": rows, "threadIdx.x": threads}
    return kernel(kind, [((rows, count), dtype)], [x], launch, statements)[0]


def scan_down(x: te.Tensor, kind: str, dtype: str, exclusive: bool) -> te.Tensor:
    """As ``scan``, down the columns of matrices, on processors: vectors of neighbouring columns,
    which threads share.

    x: (matrices, n, columns).
    """
    matrices, count, columns = (int(size) for size in x.shape)
    combine, neutral = COMBINE[kind]
    width = min(columns, STRIP_BITS // max(8, tvm_ffi.dtype(dtype).bits))
    strips = -(-columns // width)

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        given, result = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
        with IRBuilder() as builder:
            shared = matrices * count * columns >= WORTH_THREADS
            with (T.parallel if shared else T.serial)(0, matrices * strips) as strip:
                matrix = strip // strips
                # The last one begins earlier, and computes some columns again.
                first = tirx.min(strip % strips * width, columns - width)
                own = local(dtype, width)
                with T.vectorized(0, width) as lane:
                    own[lane] = tirx.const(neutral, dtype)
                with T.serial(0, count) as place:
                    with T.vectorized(0, width) as lane:
                        if exclusive:
                            result[matrix, place, first + lane] = own[lane]
                        new = given[matrix, place, first + lane].astype(dtype)
                        own[lane] = combine(own[lane], new)
                        if not exclusive:
                            result[matrix, place, first + lane] = own[lane]
            return builder.get()

    shape = (matrices, count, columns)
    return te.extern([shape], [x], body, dtype=[dtype], name=kind)
