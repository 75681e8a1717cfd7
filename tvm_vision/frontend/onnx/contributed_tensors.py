"""Operators of onnxruntime's own on images, rows and matrices, put as ONNX's.

What each computes is said by onnxruntime's documentation of its contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from .graph import (
    GraphEditor,
    NodeBuilder,
    Unsupported,
    attribute,
    attributes,
    constant_input,
    given,
)

Nodes = list[onnx.NodeProto]
# The operator sets that brought ONNX's own, and other names for how it samples.
TRIANGLES, SAMPLES, SAMPLING_NAMES = 14, 16, 20
MOST_ROWS = 4  # of matrices to invert: cofactors of more are too many


def _range(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Range, whose step may be left out, and whose inputs may be vectors of one number."""
    build = NodeBuilder(graph, node)
    step = given(node, 2) or graph.make_constant(np.ones((), graph.dtype(node.input[0])))
    ends = (build("Reshape", name, np.zeros(0, np.int64)) for name in (*node.input[:2], step))
    return build.finish(build("Range", *ends))


def _triangle(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Trilu: ONNX's own, or a choice by a constant in files that are older than that."""
    build, x, upper = NodeBuilder(graph, node), node.input[0], attribute(node, "upper", 1)
    if graph.opset >= TRIANGLES:
        return build.finish(build("Trilu", *node.input, upper=upper))
    diagonal = _number(node, graph, 1) if given(node, 1) else 0
    ones = np.ones(graph.shape(x)[-2:], bool)
    kept = np.triu(ones, diagonal) if upper else np.tril(ones, diagonal)
    return build.finish(build("Where", kept, x, np.zeros((), graph.dtype(x))))


def _distances(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """CDist: the distances of each row of a matrix to each of another, or their squares."""
    build = NodeBuilder(graph, node)
    one, other = (build.axes("Unsqueeze", node.input[i], [1 - i]) for i in (0, 1))
    gap = build("Sub", one, other)
    squares = build.axes("ReduceSum", build("Mul", gap, gap), [2], keepdims=0)
    root = attribute(node, "metric", "sqeuclidean") == "euclidean"
    return build.finish(build("Sqrt", squares) if root else squares)


def _inverse(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """Inverse of small matrices: their cofactors, turned, over the determinant."""
    build, x = NodeBuilder(graph, node), node.input[0]
    size = graph.shape(x)[-1]
    if size == 1:
        return build.finish(build("Reciprocal", x))
    if size > MOST_ROWS:
        raise Unsupported(f"it inverts {size} rows", f"invert matrices of at most {MOST_ROWS} rows")
    places = tuple(range(size))
    rows = [build("Gather", x, np.array(place), axis=-2) for place in places]
    numbers = [[build("Gather", row, np.array(place), axis=-1) for place in places] for row in rows]
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}

    def determinant(of_rows: tuple[int, ...], columns: tuple[int, ...]) -> str:
        if (of_rows, columns) not in known:
            total = ""
            for place, column in enumerate(columns):
                part = numbers[of_rows[0]][column]
                if others := _without(columns, column):
                    part = build("Mul", part, determinant(of_rows[1:], others))
                total = build("Sub" if place % 2 else "Add", total, part) if total else part
            known[of_rows, columns] = total
        return known[of_rows, columns]

    whole = determinant(places, places)
    made = []
    for row in places:
        for column in places:
            part = determinant(_without(places, column), _without(places, row))
            part = build("Neg", part) if (row + column) % 2 else part
            made.append(build.axes("Unsqueeze", build("Div", part, whole), [-1]))
    shape = (*graph.shape(x)[:-2], size, size)
    return build.finish(build.reshape(build("Concat", *made, axis=-1), shape))


def _cropped(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """CropAndResize: of each box, in parts of an image, a grid of samples from edge to edge, and a
    number where they are beyond the image."""
    if graph.opset < SAMPLES:
        raise Unsupported(f"opset {graph.opset} samples no grids", f"export with opset {SAMPLES}")
    if attribute(node, "mode", "bilinear") != "bilinear":
        raise Unsupported("it takes the nearest pixels", "let it be bilinear")
    build, (x, boxes, images) = NodeBuilder(graph, node), node.input[:3]
    sizes = constant_input(node, graph, 3)
    assert sizes is not None
    number, kind = graph.shape(boxes)[0], graph.dtype(x)
    lines, inside = [], []
    for axis, size in enumerate(int(size) for size in sizes):
        first, last = (build.part(boxes, i, i + 1, 1) for i in (axis, axis + 2))
        share = np.linspace(0, 1, size) if size > 1 else np.array([0.5])
        shares = share.astype(kind)[None]
        ends = build("Mul", first, 1 - shares), build("Mul", last, shares)
        line = build("Add", *ends)  # (boxes, size), where 0 is the first pixel and 1 the last
        shape = (number, size, 1) if axis == 0 else (number, 1, size)
        line = build.reshape(line, shape)
        within = build("Equal", build("Clip", line, np.array(0, kind), np.array(1, kind)), line)
        lines.append(build("Sub", build("Mul", line, np.array(2, kind)), np.array(1, kind)))
        inside.append(within)
    whole = np.zeros((number, *(int(size) for size in sizes)), kind)
    grid = [build.axes("Unsqueeze", build("Add", line, whole), [3]) for line in lines[::-1]]
    bilinear = "linear" if graph.opset >= SAMPLING_NAMES else "bilinear"
    sampled = build(
        "GridSample", build("Gather", x, images), build("Concat", *grid, axis=3),
        mode=bilinear, padding_mode="border", align_corners=1,
    )  # fmt: skip
    seen = build.axes("Unsqueeze", build("And", *inside), [1])
    beyond = np.array(attribute(node, "extrapolation_value", 0.0), kind)
    return build.finish(build("Where", seen, sampled, beyond))


def _unfolded(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """UnfoldTensor: windows along an axis, which become the last one."""
    build, shape = NodeBuilder(graph, node), graph.shape(node.input[0])
    axis, size = attribute(node, "dim", -1) % len(shape), attribute(node, "size")
    starts = np.arange(0, shape[axis] - size + 1, attribute(node, "step", 1))
    windows = build("Gather", node.input[0], starts[:, None] + np.arange(size), axis=axis)
    order = [*_without(tuple(range(len(shape) + 1)), axis + 1), axis + 1]
    return build.finish(build("Transpose", windows, perm=order))


def _spread(node: onnx.NodeProto, graph: GraphEditor) -> Nodes:
    """ConvTransposeWithDynamicPads, of pads that are known."""
    build, pads = NodeBuilder(graph, node), constant_input(node, graph, 2)
    options = attributes(node, "auto_pad dilations group kernel_shape output_padding strides")
    if pads is not None:
        options["pads"] = [int(pad) for pad in pads]
    inputs = [name for name in (*node.input[:2], given(node, 3)) if name]
    return build.finish(build("ConvTranspose", *inputs, **options))


def _number(node: onnx.NodeProto, graph: GraphEditor, index: int) -> int:
    value = constant_input(node, graph, index)
    assert value is not None
    return int(value.item())


def _without(places: tuple[int, ...], place: int) -> tuple[int, ...]:
    return tuple(each for each in places if each != place)


TENSORS: dict[str, Callable[[onnx.NodeProto, GraphEditor], Nodes]] = {
    "CDist": _distances,
    "ConvTransposeWithDynamicPads": _spread,
    "CropAndResize": _cropped,
    "Inverse": _inverse,
    "Range": _range,
    "Trilu": _triangle,
    "UnfoldTensor": _unfolded,
}
