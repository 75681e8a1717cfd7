"""Ends of detectors and keypoint networks, written as their exporters write them, whole."""

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper

from support.bounded_models import assert_rules_right, assert_same, by_onnxruntime, model_of
from support.compiled import executor_of, outputs_for
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

node = helper.make_node
ALL = np.iinfo(np.int64).max
AT = {f"at{n}": np.array([n]) for n in range(6)} | {f"no{n}": np.array(n) for n in range(4)}


def feeds_of(shape, seed=0):
    """Boxes, and scores of none, one, some and all of them above 0.4."""
    rng = np.random.default_rng(seed)
    count = shape[1]
    center, sides = rng.uniform(0, 100, (count, 2)), rng.uniform(5, 40, (count, 2))
    boxes = np.concatenate([center - sides / 2, center + sides / 2], 1).astype(np.float32)
    scores = rng.uniform(0, 0.39, shape).astype(np.float32)
    one = scores.copy()
    one[0, 3] = 0.9
    some = rng.uniform(0, 1, shape).astype(np.float32)
    return [{"boxes": boxes, "scores": s} for s in (scores, one, some, scores / 2 + 0.5)]


def end_to_end():
    """Ultralytics' nms=True: the best class of a box, offsets by class, padded to max_det."""
    count, classes, most = 40, 3, 8
    nodes = [
        node("ReduceMax", ["scores"], ["best"], axes=[0], keepdims=0),
        node("ArgMax", ["scores"], ["class"], axis=0, keepdims=0),
        node("Greater", ["best", "conf"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        node("GatherND", ["boxes", "rows"], ["b"]),
        node("GatherND", ["best", "rows"], ["s"]),
        node("GatherND", ["class", "rows"], ["c"]),
        node("Cast", ["c"], ["cf"], to=1),
        node("Unsqueeze", ["cf", "at1"], ["c1"]),
        node("Mul", ["c1", "far"], ["offset"]),
        node("Add", ["b", "offset"], ["moved"]),
        node("Unsqueeze", ["moved", "at0"], ["moved1"]),
        node("Unsqueeze", ["s", "at01"], ["s11"]),
        node("NonMaxSuppression", ["moved1", "s11", "all", "iou"], ["selected"]),
        node("Slice", ["selected", "at2", "at3", "at1"], ["third"]),
        node("Squeeze", ["third", "at1"], ["keep0"]),
        node("Slice", ["keep0", "at0", "most", "at0"], ["keep"]),
        node("Gather", ["b", "keep"], ["kb"], axis=0),
        node("Gather", ["s", "keep"], ["ks0"], axis=0),
        node("Reshape", ["ks0", "column"], ["ks"]),
        node("Gather", ["c1", "keep"], ["kc"], axis=0),
        node("Concat", ["kb", "ks", "kc"], ["found"], axis=1),
        # Padding, as torch's exporter turns its order of axes into ONNX's.
        node("Shape", ["found"], ["size"]),
        node("Gather", ["size", "no0"], ["n"], axis=0),
        node("Sub", ["most0", "n"], ["missing"]),
        node("Unsqueeze", ["missing", "at0"], ["missing1"]),
        node("Concat", ["at0", "at0", "at0", "missing1"], ["pads0"], axis=0),
        node("Reshape", ["pads0", "pairs"], ["pads1"]),
        node("Slice", ["pads1", "minus", "least", "at0", "minus"], ["pads2"]),
        node("Transpose", ["pads2"], ["pads3"], perm=[1, 0]),
        node("Reshape", ["pads3", "minus"], ["pads"]),
        node("Pad", ["found", "pads"], ["padded"]),
        node("Unsqueeze", ["padded", "at0"], ["y"]),
    ]
    weights = AT | {
        "conf": np.float32(0.4),
        "far": np.float32(200),
        "at01": np.array([0, 1]),
        "all": np.array([ALL]),
        "iou": np.array([0.5], np.float32),
        "most": np.array([most]),
        "most0": np.array(most),
        "column": np.array([-1, 1]),
        "pairs": np.array([-1, 2]),
        "minus": np.array([-1]),
        "least": np.array([-ALL]),
    }
    inputs = [("boxes", "f4", (count, 4)), ("scores", "f4", (classes, count))]
    model = model_of(nodes, inputs, [("y", "f4", (1, most, 6))], weights)
    return model, feeds_of((classes, count))


def by_class():
    """torchvision's SSD: for each class the best few, joined, and suppressed by offsets in an If
    that knows the case of no boxes."""
    count, classes, few, most = 30, 3, 6, 5
    nodes = []
    for group in range(classes):
        nodes += [
            node("Gather", ["scores", f"no{group}"], [f"s{group}"], axis=0),
            node("Greater", [f"s{group}", "conf"], [f"m{group}"]),
            node("NonZero", [f"m{group}"], [f"p{group}"]),
            node("Transpose", [f"p{group}"], [f"t{group}"], perm=[1, 0]),
            node("GatherND", [f"s{group}", f"t{group}"], [f"k{group}"]),
            node("GatherND", ["boxes", f"t{group}"], [f"b{group}"]),
            node("Shape", [f"k{group}"], [f"n{group}"]),
            node("Concat", ["few", f"n{group}"], [f"l{group}"], axis=0),
            node("ReduceMin", [f"l{group}"], [f"f{group}"], keepdims=0),
            node("Reshape", [f"f{group}", "minus"], [f"g{group}"]),
            node("TopK", [f"k{group}", f"g{group}"], [f"v{group}", f"i{group}"]),
            node("Gather", [f"b{group}", f"i{group}"], [f"x{group}"], axis=0),
            node("Shape", [f"v{group}"], [f"h{group}"]),
            node(
                "ConstantOfShape",
                [f"h{group}"],
                [f"c{group}"],
                value=numpy_helper.from_array(np.array([group])),
            ),
        ]
    kept = helper.make_graph(
        [
            node("ReduceMax", ["all_boxes"], ["largest"], keepdims=0),
            node("Add", ["largest", "one"], ["far"]),
            node("Cast", ["all_classes"], ["as_float"], to=1),
            node("Mul", ["as_float", "far"], ["offset"]),
            node("Unsqueeze", ["offset", "at1"], ["offset1"]),
            node("Add", ["all_boxes", "offset1"], ["moved"]),
            node("Unsqueeze", ["moved", "at0"], ["moved1"]),
            node("Unsqueeze", ["all_scores", "at01"], ["scores11"]),
            node("NonMaxSuppression", ["moved1", "scores11", "all", "iou"], ["selected"]),
            node("Gather", ["selected", "no2"], ["kept"], axis=1),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("kept", 7, ("k",))],
    )
    nothing = helper.make_graph(
        [node("ConstantOfShape", ["at0"], ["none"], value=numpy_helper.from_array(np.array([0])))],
        "then",
        [],
        [helper.make_tensor_value_info("none", 7, (0,))],
    )
    nodes += [
        node("Concat", [f"x{g}" for g in range(classes)], ["all_boxes"], axis=0),
        node("Concat", [f"v{g}" for g in range(classes)], ["all_scores"], axis=0),
        node("Concat", [f"c{g}" for g in range(classes)], ["all_classes"], axis=0),
        node("Size", ["all_boxes"], ["elements"]),
        node("Equal", ["elements", "no0"], ["empty"]),
        node("If", ["empty"], ["keep0"], then_branch=nothing, else_branch=kept),
        node("Slice", ["keep0", "at0", "most", "at0"], ["keep"]),
        node("Gather", ["all_boxes", "keep"], ["y"], axis=0),
        node("Gather", ["all_scores", "keep"], ["z"], axis=0),
        node("Gather", ["all_classes", "keep"], ["labels"], axis=0),
    ]
    weights = AT | {
        "conf": np.float32(0.4),
        "one": np.float32(1),
        "few": np.array([few]),
        "most": np.array([most]),
        "minus": np.array([-1]),
        "at01": np.array([0, 1]),
        "all": np.array([ALL]),
        "iou": np.array([0.5], np.float32),
    }
    inputs = [("boxes", "f4", (count, 4)), ("scores", "f4", (classes, count))]
    outputs = [("y", "f4", ("n", 4)), ("z", "f4", ("n",)), ("labels", "i8", ("n",))]
    return model_of(nodes, inputs, outputs, weights), feeds_of((classes, count))


def of_tensorflow():
    """tf2onnx: what is kept of each class, padded to a fixed number, and the best of all."""
    count, classes, most = 25, 2, 10
    nodes = [
        node("Unsqueeze", ["boxes", "at0"], ["b"]),
        node("Unsqueeze", ["scores", "at0"], ["s"]),
        node("NonMaxSuppression", ["b", "s", "few", "iou", "conf"], ["selected"]),
        node("Slice", ["selected", "at1", "at3", "at1"], ["places"]),
        node("GatherND", ["scores", "places"], ["found"]),
        node("Slice", ["selected", "at2", "at3", "at1"], ["box0"]),
        node("Squeeze", ["box0", "at1"], ["box"]),
        node("Gather", ["boxes", "box"], ["rows"], axis=0),
        node("Shape", ["found"], ["n"]),
        node("Min", ["n", "most"], ["k"]),
        node("TopK", ["found", "k"], ["z0", "order"]),
        node("Gather", ["rows", "order"], ["y0"], axis=0),
        node("Sub", ["most", "k"], ["missing"]),
        node("Concat", ["at0", "missing"], ["pads1"], axis=0),
        node("Concat", ["at0", "at0", "missing", "at0"], ["pads2"], axis=0),
        node("Pad", ["z0", "pads1"], ["z"]),
        node("Pad", ["y0", "pads2"], ["y"]),
        node("Squeeze", ["k", "at0"], ["count"]),
    ]
    weights = AT | {
        "few": np.array([6]),
        "iou": np.array([0.5], np.float32),
        "conf": np.array([0.4], np.float32),
        "most": np.array([most]),
    }
    inputs = [("boxes", "f4", (count, 4)), ("scores", "f4", (classes, count))]
    outputs = [("y", "f4", (most, 4)), ("z", "f4", (most,)), ("count", "i8", ())]
    return model_of(nodes, inputs, outputs, weights), feeds_of((classes, count))


def keypoints():
    """SuperPoint's: places above a threshold, their scores, and descriptors of unit length."""
    height, width, depth = 6, 7, 5
    nodes = [
        node("Greater", ["heat", "least"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Transpose", ["places"], ["points"], perm=[1, 0]),
        node("GatherND", ["heat", "points"], ["scores"]),
        node("Slice", ["points", "minus", "far", "at1", "minus"], ["xy"]),
        node("Cast", ["xy"], ["y"], to=1),
        node("Transpose", ["features"], ["last"], perm=[1, 2, 0]),
        node("GatherND", ["last", "points"], ["descriptors0"]),
        node("ReduceL2", ["descriptors0"], ["length"], axes=[1]),
        node("Div", ["descriptors0", "length"], ["descriptors"]),
    ]
    weights = AT | {
        "least": np.float32(0.4),
        "minus": np.array([-1]),
        "far": np.array([-ALL]),
    }
    inputs = [("heat", "f4", (height, width)), ("features", "f4", (depth, height, width))]
    outputs = [("y", "f4", ("n", 2)), ("scores", "f4", ("n",)), ("descriptors", "f4", ("n", depth))]
    rng = np.random.default_rng(4)
    features = rng.standard_normal((depth, height, width)).astype(np.float32)
    heat = rng.uniform(0, 1, (height, width)).astype(np.float32)
    one = np.where(heat == heat.max(), 1, 0).astype(np.float32)
    heats = (heat * 0.4, one, heat, heat + 0.5)
    return model_of(nodes, inputs, outputs, weights), [
        {"heat": h, "features": features} for h in heats
    ]


TAILS = {f.__name__: f for f in (end_to_end, by_class, of_tensorflow, keypoints)}


@pytest.mark.parametrize("tail", TAILS)
def test_tail(tail):
    assert_rules_right(*TAILS[tail]())


@pytest.mark.slow
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_tail_on_a_device(tail, target):
    model, feeds = TAILS[tail]()
    made = compile_model(*import_onnx(model), target=target)
    execute = executor_of(made, tvm.cpu(0) if target == "llvm" else tvm.vulkan(0))
    found = outputs_for(execute, feeds)
    assert_same(found, by_onnxruntime(model, feeds))
