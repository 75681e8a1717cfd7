"""Running sums and products of rows, by one workgroup each.

TVM's kernels for GPUs go over a row block by block, and once more for what was before each: an
H200 took 13 to 16 us for some thousand numbers, which are a thread's few here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from .by_hand import before_thread, kernel, local

THREADS = 256
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
