"""Greedy suppression of boxes that overlap, as onnxruntime does it.

Processors take the candidates from a heap (suppression_heap.py), GPUs in three steps: which boxes
are candidates, their order, and then a block of them after another (suppression_blocks.py).
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .suppression_blocks import candidates_of, in_order, kept_in_blocks, threads_for
from .suppression_heap import VALUES, HeapKernel, store_corners


def suppression(builder: relax.BlockBuilder, inputs: list[Any], most: int) -> relax.Expr:
    """The boxes that are kept, for each image and class by falling score, ties by rising index.

    inputs:
        boxes: (images, boxes, 4) float32, two opposite corners.
        scores: (images, classes, boxes) float32, none of them infinite.
        limits: (2,) int32, how many of the boxes are real, and how many of a class may be kept.
        thresholds: (2,) float32, the IoU above which a box goes, and the score above which it is
            a candidate.
    most: columns of the result: no more boxes of a class are kept.

    For the current target: the boxes kept (images · classes, most) int32, 0 behind the last; how
    many they are (images · classes,) int32; and scratch.
    """
    target = tvm.target.Target.current(allow_none=True)
    if target is None or "gpu" not in target.keys:
        return builder.call_te(_by_heap, *inputs, most)
    boxes, scores, limits, thresholds = inputs
    threads = threads_for(target)
    classes = int(scores.ty.shape[1])

    def step(function: Any, *given: Any) -> list[Any]:
        hint = f"suppression_{function.__name__}"
        made = builder.emit_te(function, *given, threads, primfunc_name_hint=hint)
        fields = getattr(made.ty, "fields", None)
        return (
            [made]
            if fields is None
            else [builder.emit(relax.TupleGetItem(made, i)) for i in range(len(fields))]
        )

    listed, values, count = step(candidates_of, scores, limits, thresholds)
    (ordered,) = step(in_order, listed, values, count)
    return builder.call_te(
        kept_in_blocks, boxes, ordered, count, limits, thresholds, classes, most, threads,
        primfunc_name_hint="suppression",
    )  # fmt: skip


def _by_heap(
    boxes: te.Tensor, scores: te.Tensor, limits: te.Tensor, thresholds: te.Tensor, most: int
) -> list[te.Tensor]:
    images, classes, count = (int(size) for size in scores.shape)
    rows = images * classes
    shapes = [(rows, most), (rows,), (rows, count), (images, count, VALUES)]
    dtypes = ["int32"] * 3 + ["float32"]

    def body(ins: Any, outs: Any) -> tirx.Stmt:
        inputs, results = ([T.buffer_proxy(buffer) for buffer in those] for those in (ins, outs))
        with IRBuilder() as first:
            store_corners(inputs[0], results[3])
        with IRBuilder() as second, T.parallel(0, rows) as row:
            HeapKernel(inputs, results, classes, row).statements()
        return tirx.SeqStmt([first.get(), second.get()])

    result: list[te.Tensor] = te.extern(
        shapes, [boxes, scores, limits, thresholds], body, dtype=dtypes, name="suppression"
    )
    return result
