"""Models whose rows data counts: by onnxruntime, and as graphs of fixed shape by numpy."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tvm_vision.evaluate import compare_outputs
from tvm_vision.frontend.onnx.fixed_shape import of_fixed_shape
from tvm_vision.frontend.onnx.fold import folded
from tvm_vision.frontend.onnx.graph import with_input_shapes
from tvm_vision.frontend.onnx.load import checked_onnx

from .nms_reference import reference_iou


class SearchSorted(OpRun):
    op_domain = "tvm_vision"

    def _run(self, rising, numbers):
        return (np.searchsorted(rising, numbers).astype(np.int32),)


class Suppression(OpRun):
    """Greedy suppression, one box after the other."""

    op_domain = "tvm_vision"

    def _run(self, boxes, scores, limits, thresholds, most=None):
        images, classes, _ = scores.shape
        kept = np.zeros((images * classes, most), np.int32)
        counts = np.zeros(images * classes, np.int32)
        for row in range(images * classes):
            chosen = suppressed(
                boxes[row // classes][: limits[0]],
                scores[row // classes, row % classes][: limits[0]],
                *thresholds,
            )[: min(limits[1], most)]
            kept[row, : len(chosen)], counts[row] = chosen, len(chosen)
        return kept, counts


class Gather(OpRun):
    """ONNX's own fails for indices that are not contiguous in memory."""

    def _run(self, data, indices, axis=None):
        return (np.take(data, indices, axis or 0),)


def suppressed(boxes, scores, iou, least):
    """The numbers of the boxes that are kept, by falling score, ties by rising number."""
    corners = np.concatenate(
        [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1
    )
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if scores[index] > least and all(
            reference_iou(corners[index], corners[other]) <= iou for other in kept
        ):
            kept.append(int(index))
    return kept


def model_of(nodes, inputs, outputs, weights, opset=17):
    """inputs and outputs: (name, type, shape); weights: name -> value."""

    def described(name, dtype, shape):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "test",
        [described(*value) for value in inputs],
        [described(*value) for value in outputs],
        [numpy_helper.from_array(np.array(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# Of a matrix, whose first rows are taken for rows that data counts.
ROWS, COLUMNS = 12, 4


def taken(nodes, outputs, weights=(), opset=17):
    """r are the rows of x (12, 4) for which s (12,) is above 0, i (count,) their places.

    outputs: name -> (type, shape).
    """
    squeeze = helper.make_node("Squeeze", ["p", "at1"], ["i"])
    if opset < 13:
        squeeze = helper.make_node("Squeeze", ["p"], ["i"], axes=[1])
    before = [
        helper.make_node("Greater", ["s", "zero"], ["m"]),
        helper.make_node("NonZero", ["m"], ["q"]),
        helper.make_node("Transpose", ["q"], ["p"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "p"], ["r"]),
        squeeze,
    ]
    inputs = [("x", "f4", (ROWS, COLUMNS)), ("s", "f4", (ROWS,))]
    described = [(name, *kind) for name, kind in outputs.items()]
    constants = {"zero": np.float32(0), "at1": np.array([1]), **dict(weights)}
    return model_of([*before, *nodes], inputs, described, constants, opset)


def feeds_of_rows(least=0):
    """For ``taken``: none of the rows, one, some, all; those with at least so many."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    scores = (-np.ones(ROWS), np.eye(ROWS)[5], rng.standard_normal(ROWS), np.ones(ROWS))
    return [{"x": x, "s": s.astype(np.float32)} for s in scores if (s > 0).sum() >= least]


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as it goes into the importer, but for rewrites of its operators."""
    prepared, shapes = checked_onnx(model, {})
    return of_fixed_shape(folded(with_input_shapes(prepared, shapes)))


def by_onnxruntime(model, feeds):
    """The outputs for each feed, by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


def by_numpy(model, feeds):
    """The outputs of a model of fixed shape, by ONNX's reference."""
    evaluator = ReferenceEvaluator(model, new_ops=[Gather, SearchSorted, Suppression])
    names = [value.name for value in model.graph.output]
    with np.errstate(all="ignore"):
        return [dict(zip(names, evaluator.run(None, feed), strict=True)) for feed in feeds]


def assert_same(found, wanted, tolerance=1e-5):
    """Outputs, real rows alone, and their numbers; padding is checked as well."""
    for ours, reference in zip(found, wanted, strict=True):
        for error in compare_outputs(ours, reference):
            assert error.within(tolerance), error
        for name, value in reference.items():
            assert ours[name].dtype == value.dtype
            _assert_padded(name, ours, value)


def _assert_padded(name, ours, value):
    padded = ours[name]
    padding = -1 if padded.dtype.kind == "i" else 0
    for axis, size in enumerate(value.shape):
        behind = padded.take(range(size, padded.shape[axis]), axis)
        assert (behind == padding).all(), name


def assert_rules_right(model, feeds, tolerance=1e-5):
    """What the rules make of a model, which has the same results."""
    assert_same(by_numpy(fixed(model), feeds), by_onnxruntime(model, feeds), tolerance)
