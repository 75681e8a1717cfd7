"""What a window's tile takes is in registers: LLVM puts no sums into memory in the innermost loop,
and no task asks TVM's pool of memory for their place.

A convolution of 3×3 with stride 2 that did took 2.3 times as long; with the pool whole networks
took up to 1.5 times as long (Zen 3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.target import Target

from support import window_kernels
from support.covering import covering
from tvm_vision.schedules import cpu_schedules

# Lanes of a processor that has not more registers than it needs, and of one that has twice as many.
PROCESSORS = {"haswell": 8, "skylake-avx512": 16}
# Stores to the stack for each product.
MOST = 0.1
STACK = re.compile(r"vmov\w+\s+%[xyz]mm\d+,.*\(%r[sb]p\)")
JUMP = re.compile(r"\tj\w+\s+(\.L\w+)")
LABEL = re.compile(r"^(\.L\w+):")


def convolution(lanes: int, channels: int, size: int, kernel: tuple[int, int], stride: int) -> Any:
    pads = (kernel[0] // 2, kernel[1] // 2)
    return window_kernels.convolution(
        (size, size), (channels, channels), kernel, stride, pads, lanes=lanes
    )


def depthwise(lanes: int, channels: int, size: int, kernel: tuple[int, int], stride: int) -> Any:
    return window_kernels.depthwise((size, size), channels, kernel, stride, lanes=lanes)


def innermost_loops(code: str) -> Iterator[list[str]]:
    """The lines of each loop that holds no other one."""
    lines = code.splitlines()
    labels = {found[1]: i for i, line in enumerate(lines) if (found := LABEL.match(line))}
    loops = [
        (labels[found[1]], i)
        for i, line in enumerate(lines)
        if (found := JUMP.search(line)) and labels.get(found[1], i) < i
    ]
    for begin, end in loops:
        inside = (other for other in loops if begin <= other[0] and other[1] <= end)
        if all(other == (begin, end) for other in inside):
            yield lines[begin:end]


def dense(channels: int, rows: int) -> Any:
    x = te.placeholder((rows, channels), "float32", "x")
    w = te.placeholder((channels, channels), "float32", "w")
    k = te.reduce_axis((0, channels), "k")
    y = te.compute((rows, channels), lambda i, j: te.sum(x[i, k] * w[k, j], k), "y")
    return te.create_prim_func([x, w, y])


def softmax(rows: int, columns: int) -> Any:
    x = te.placeholder((rows, columns), "float32", "x")
    return te.create_prim_func([x, tvm.topi.nn.softmax(x)])


def assembly(function: Any, processor: str) -> str:
    """Of a function by this project's schedules."""
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": processor})
    module = tvm.IRModule({"f": function.with_attr("global_symbol", "f")})
    with target, tvm.transform.PassContext(opt_level=3):
        library = tvm.tirx.build(cpu_schedules(module, target), target=target)
    return str(library.inspect_source("asm"))


def stores_a_product(function: Any, processor: str) -> float:
    """Vectors that are put on the stack for each product, in the innermost loop that does most."""
    found = []
    for loop in innermost_loops(assembly(function, processor)):
        products = sum("vfmadd" in line or "vmulps" in line for line in loop)
        if products >= 4:
            found.append(sum(bool(STACK.search(line)) for line in loop) / products)
    return max(found)


@pytest.mark.parametrize(
    ("make", "kernel", "stride", "processor"),
    covering([convolution, depthwise], [(3, 3), (5, 5), (1, 7)], [1, 2], list(PROCESSORS)),
)
def test_sums_stay_in_registers(
    make: Any, kernel: tuple[int, int], stride: int, processor: str
) -> None:
    function = make(PROCESSORS[processor], 128, 40, kernel, stride)
    assert stores_a_product(function, processor) <= MOST


@pytest.mark.parametrize(
    ("make", "kernel", "processor"),
    covering([convolution, depthwise], [(1, 1), (3, 3), (1, 7)], list(PROCESSORS)),
)
def test_windows_ask_for_no_memory(make: Any, kernel: tuple[int, int], processor: str) -> None:
    lanes = PROCESSORS[processor]
    for size in (7, 56):  # few pixels, and the widest tiles
        function = make(lanes, 2 * lanes, size, kernel, 1)
        assert "AllocWorkspace" not in assembly(function, processor)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_products_and_short_rows_ask_for_no_memory(processor: str) -> None:
    """Long rows do, once for many numbers, as do products whose columns are packed first."""
    assert "AllocWorkspace" not in assembly(dense(128, 4), processor)
    assert "AllocWorkspace" not in assembly(softmax(64, 197), processor)
    assert "AllocWorkspace" in assembly(softmax(64, 1024), processor)
