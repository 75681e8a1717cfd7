"""Each rule for rows that data counts, against onnxruntime: none of them real, one, some, all."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.bounded_models import ROWS, assert_rules_right, model_of
from support.bounded_models import feeds_of_rows as feeds
from support.bounded_models import taken as rows_taken
from support.onnx_models import make_model
from tvm_vision.frontend.onnx.bounded.rewrite import undecided
from tvm_vision.frontend.onnx.tools import without_large_values

WEIGHTS = {
    "minus": np.array([-1]),
    "at0": np.array([0]),
    "at2": np.array([2]),
    "at3": np.array([3]),
    "at5": np.array([5]),
    "first": np.array(0),
    "second": np.array(1),
    "vector": np.arange(4, dtype=np.float32),
    "matrix": np.arange(12, dtype=np.float32).reshape(4, 3) - 5,
    "in_front": np.array([0, 1]),
    "planes": np.arange(60, dtype=np.float32).reshape(1, 2, 5, 6) / 7,
    "most": np.array([np.iinfo(np.int64).max]),
    "least": np.array([np.iinfo(np.int64).min + 1]),
}
node = helper.make_node


def taken(nodes, outputs, weights=(), opset=17):
    return rows_taken(nodes, outputs, {**WEIGHTS, **dict(weights)}, opset)


F, I = "f4", "i8"  # noqa: E741

CASES = {
    "elements": (
        [
            node("Sigmoid", ["r"], ["a"]),
            node("Mul", ["a", "vector"], ["b"]),
            node("Gather", ["x", "i"], ["c"], axis=0),
            node("Sub", ["c", "b"], ["d"]),
            node("Less", ["d", "zero"], ["e"]),
            node("Where", ["e", "d", "vector"], ["y"]),
            node("Cast", ["c"], ["z"], to=7),
        ],
        {"y": (F, ("n", 4)), "z": (I, ("n", 4)), "e": ("?", ("n", 4))},
    ),
    "points": (
        [
            node("Slice", ["r", "at0", "at2", "at1"], ["a"]),
            node("Sigmoid", ["a"], ["b"]),
            node("Unsqueeze", ["b", "in_front"], ["c"]),
            node("GridSample", ["planes", "c"], ["y"], align_corners=1),
        ],
        {"y": (F, (1, 2, 1, "n"))},
    ),
    "axes": (
        [
            node("MatMul", ["r", "matrix"], ["a"]),
            node("Unsqueeze", ["a", "at1"], ["b"]),
            node("Transpose", ["b"], ["c"], perm=[1, 2, 0]),
            node("Softmax", ["c"], ["d"], axis=1),
            node("Concat", ["c", "d"], ["e"], axis=1),
            node("Slice", ["e", "at1", "at5", "at1"], ["y"]),
            node("Split", ["r"], ["u", "v"], axis=1, num_outputs=2),
            node("Gemm", ["r", "matrix"], ["z"]),
            node("GatherElements", ["r", "z7"], ["w"], axis=1),
            node("Abs", ["r"], ["ra"]),
            node("Cast", ["ra"], ["rc"], to=7),
            node("Min", ["rc", "three"], ["z7"]),
        ],
        {"y": (F, (1, 4, "n")), "u": (F, ("n", 2)), "z": (F, ("n", 3)), "w": (F, ("n", 4))},
        {"three": np.array(3)},
    ),
    "sums": (
        [
            node("ReduceSum", ["r", "at0"], ["a"], keepdims=0),
            node("ReduceMean", ["r"], ["b"], axes=[1], keepdims=0),
            node("ReduceL2", ["r"], ["c"], axes=[0, 1]),
            node("CumSum", ["r", "first"], ["d"]),
            node("CumSum", ["r", "first"], ["e"], reverse=1),
            node("ReduceProd", ["r"], ["f"], axes=[0]),
            node("MatMul", ["rt", "r"], ["g"]),
            node("Transpose", ["r"], ["rt"]),
        ],
        {
            "a": (F, (4,)),
            "b": (F, ("n",)),
            "c": (F, (1, 1)),
            "d": (F, ("n", 4)),
            "e": (F, ("n", 4)),
            "f": (F, (1, 4)),
            "g": (F, (4, 4)),
        },
    ),
    "slices": (
        [
            node("Slice", ["r", "at0", "at3", "at0"], ["a"]),
            node("Slice", ["r", "at2", "most", "at0"], ["b"]),
            node("Slice", ["r", "m2", "most", "at0"], ["c"]),
            node("Slice", ["r", "at0", "minus", "at0"], ["d"]),
            node("Slice", ["r", "minus", "least", "at0", "minus"], ["e"]),
        ],
        dict.fromkeys("abcde", (F, ("n", 4))),
        {"m2": np.array([-2])},
    ),
    # Sums of cells by what is summed so far, as of a frustum's points.
    "neighbours": (
        [
            node("Slice", ["r", "at1", "most", "at0"], ["b"]),
            node("Slice", ["r", "at0", "minus", "at0"], ["c"]),
            node("Sub", ["b", "c"], ["d"]),
            node("Slice", ["r", "at2", "most", "at0"], ["e"]),
            node("Slice", ["r", "at0", "m2", "at0"], ["f"]),
            node("Slice", ["r", "at1", "minus", "at0"], ["g"]),
            node("Sum", ["e", "f", "g"], ["h"]),
            node("Slice", ["r", "at0", "at1", "at0"], ["a"]),
            node("Concat", ["a", "d"], ["j"], axis=0),
            node("Mul", ["j", "r"], ["y"]),
        ],
        {"d": (F, ("m", 4)), "y": (F, ("n", 4)), "h": (F, ("k", 4))},
        {"m2": np.array([-2])},
    ),
    "sorted": (
        [
            node("Gather", ["r", "first"], ["a"], axis=1),
            node("Shape", ["a"], ["n"]),
            node("Concat", ["n", "at5"], ["k0"], axis=0),
            node("ReduceMin", ["k0"], ["k"]),
            node("TopK", ["a", "k"], ["y", "z"]),
            node("Gather", ["r", "z"], ["u"], axis=0),
            node("TopK", ["a", "n"], ["v", "w"], largest=0),
        ],
        {"y": (F, ("k",)), "z": (I, ("k",)), "u": (F, ("k", 4)), "v": (F, ("n",))},
    ),
    "joined": (
        [
            node("Slice", ["r", "at0", "at3", "at0"], ["a"]),
            node("Concat", ["r", "a", "x", "r"], ["y"], axis=0),
            node("Concat", ["x", "r"], ["z"], axis=0),
            node("Concat", ["r", "r2"], ["w"], axis=1),
            node("Neg", ["r"], ["r2"]),
        ],
        {"y": (F, ("n", 4)), "z": (F, ("m", 4)), "w": (F, ("k", 8))},
    ),
    "shapes": (
        [
            node("Shape", ["r"], ["h"]),
            node("Gather", ["h", "first"], ["n"], axis=0),
            node("Unsqueeze", ["n", "at0"], ["n1"]),
            node("ConstantOfShape", ["h"], ["a0"]),
            node("Add", ["a0", "r"], ["a"]),
            node("Range", ["first", "n", "second"], ["b0"]),
            node("Add", ["b0", "i"], ["b"]),
            node("Sub", ["n", "b0"], ["l"]),
            node("Less", ["b0", "n"], ["o"]),
            node("Reshape", ["r", "minus"], ["c"]),
            node("Reshape", ["c", "pairs"], ["d"]),
            node("Concat", ["n1", "at2", "at2"], ["e0"], axis=0),
            node("Reshape", ["r", "e0"], ["e"]),
            node("Concat", ["n1", "at3"], ["f0"], axis=0),
            node("Expand", ["three", "f0"], ["f"]),
            node("Concat", ["n1", "at1"], ["g0"], axis=0),
            node("Tile", ["one_row", "g0"], ["g"]),
            node("Size", ["r"], ["s0"]),
            node("Flatten", ["d"], ["k"]),
        ],
        {
            "a": (F, ("n", 4)),
            "b": (I, ("n",)),
            "c": (F, ("n",)),
            "d": (F, ("n", 2, 2)),
            "e": (F, ("n", 2, 2)),
            "f": (F, ("n", 3)),
            "g": (F, ("n", 3)),
            "h": (I, (2,)),
            "s0": (I, ()),
            "k": (F, ("n", 4)),
            "l": (I, ("n",)),
            "o": ("?", ("n",)),
        },
        {
            "pairs": np.array([-1, 2, 2]),
            "three": np.array([1, 2, 3], np.float32),
            "one_row": np.array([[1, 2, 3]], np.float32),
        },
    ),
    "padded to a fixed number": (
        [
            node("Shape", ["r"], ["h"], end=1),
            node("Sub", ["forty", "h"], ["n"]),
            node("Concat", ["at0", "at0", "n", "at0"], ["e"], axis=0),
            node("Pad", ["r", "e", "seven"], ["y"]),
            node("Pad", ["r", "two"], ["z"]),
            # Fewer rows than there can be: the last are cut off.
            node("Sub", ["at5", "h"], ["n2"]),
            node("Concat", ["at0", "at0", "n2", "at0"], ["e2"], axis=0),
            node("Pad", ["r", "e2"], ["w"]),
        ],
        {"y": (F, (40, 4)), "z": (F, ("m", 4)), "w": (F, (5, 4))},
        {
            "forty": np.array([40]),
            "seven": np.float32(-7),
            "two": np.array([2, 0, 0, 0]),
        },
    ),
    "written": (
        [
            node("Neg", ["r"], ["t"]),
            node("ScatterND", ["x", "p", "t"], ["y"]),
            node("Gather", ["s", "i"], ["u0"]),
            node("Neg", ["u0"], ["u"]),
            node("ScatterElements", ["s", "i", "u"], ["z"], axis=0),
        ],
        {"y": (F, (ROWS, 4)), "z": (F, (ROWS,))},
    ),
    "taken again": (
        [
            node("Gather", ["r", "first"], ["a"], axis=1),
            node("Greater", ["a", "zero"], ["b"]),
            node("NonZero", ["b"], ["c"]),
            node("Squeeze", ["c", "at0"], ["d"]),
            node("Gather", ["r", "d"], ["y"], axis=0),
            node("Less", ["r", "zero"], ["e"]),
            node("NonZero", ["e"], ["z"]),
            node("Compress", ["r", "b"], ["w"], axis=0),
            node("Compress", ["s", "m"], ["v"]),
        ],
        {"y": (F, ("k", 4)), "z": (I, (2, "m")), "w": (F, ("k", 4)), "v": (F, ("n",))},
    ),
    "suppressed": (
        [
            node("Unsqueeze", ["r", "at0"], ["a"]),
            node("ReduceSum", ["r", "at1"], ["b"], keepdims=0),
            node("Unsqueeze", ["b", "two"], ["c"]),
            node("NonMaxSuppression", ["a", "c", "most", "iou"], ["y"]),
            node("Gather", ["y", "last"], ["d"], axis=1),
            node("Gather", ["r", "d"], ["e"], axis=0),
            node("Slice", ["e", "at0", "at3", "at0"], ["z"]),
        ],
        {"y": (I, ("k", 3)), "z": (F, ("j", 4))},
        {"two": np.array([0, 1]), "iou": np.array([0.1], np.float32), "last": np.array(2)},
    ),
}

# Of other types than int64: exporters compare sizes as float32 where integers have no minimum.
CASES["types"] = (
    [
        node("Shape", ["r"], ["sizes"]),
        node("Cast", ["sizes"], ["a"], to=TensorProto.INT32),
        node("Cast", ["sizes"], ["b"], to=TensorProto.DOUBLE),
        node("Cast", ["sizes"], ["c"], to=TensorProto.FLOAT),
        node("Slice", ["c", "at0", "at1"], ["count"]),
        node("Concat", ["count", "five"], ["both"], axis=0),
        node("ReduceMin", ["both"], ["few"], axes=[0]),
        node("Ceil", ["few"], ["whole"]),
        node("Cast", ["whole"], ["k"], to=TensorProto.INT64),
        node("Slice", ["r", "at0", "k"], ["y"]),
        node("Div", ["c", "two"], ["halves"]),
        node("Floor", ["halves"], ["d"]),
        node("Mul", ["c", "half"], ["e"]),
        node("Squeeze", ["count", "at0"], ["limit"]),
        node("Range", ["zero", "limit", "one"], ["f"]),
        node("Slice", ["a", "at0", "at1"], ["count32"]),
        node("Add", ["count32", "five32"], ["g"]),
        node("Cast", ["c"], ["h"], to=TensorProto.FLOAT16),
    ],
    {
        "a": ("i4", (2,)),
        "b": ("f8", (2,)),
        "c": (F, (2,)),
        "y": (F, ("k", 4)),
        "halves": (F, (2,)),
        "d": (F, (2,)),
        "e": (F, (2,)),
        "f": (F, ("n",)),
        "g": ("i4", (1,)),
        "h": ("f2", (2,)),
    },
    {
        "five": np.array([5], np.float32),
        "two": np.float32(2),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "five32": np.array([5], np.int32),
    },
)


def in_order(nodes):
    """The nodes, each behind what it takes, as ONNX wants them."""
    made = {"r", "i", "p", "m", "q", "x", "s"}
    ours = {name for one in nodes for name in one.output}
    left, ordered = list(nodes), []
    while left:
        ready = next(n for n in left if all(i in made or i not in ours for i in n.input))
        made.update(ready.output)
        ordered.append(ready)
        left.remove(ready)
    return ordered


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    nodes, outputs, *rest = CASES[case]
    weights = rest[0] if rest else {}
    opset = 18 if case == "axes" else 17
    assert_rules_right(taken(in_order(nodes), outputs, weights, opset), feeds())


def test_what_needs_a_row_to_be_there():
    """Of no rows onnxruntime gives an error."""
    nodes = [
        node("ReduceMax", ["r"], ["a"], axes=[0]),
        node("ReduceMin", ["r"], ["b"]),
        node("ReduceMean", ["r"], ["c"], axes=[0]),
        node("ArgMax", ["r"], ["d"], axis=0, keepdims=0),
        node("ArgMin", ["r"], ["e"], axis=0),
        node("ArgMax", ["r"], ["f"], axis=1, keepdims=0),
        node("Gather", ["r", "minus"], ["g"], axis=0),
        node("Softmax", ["r"], ["h"], axis=0),
    ]
    outputs = {
        "a": (F, (1, 4)),
        "b": (F, (1, 1)),
        "c": (F, (1, 4)),
        "d": (I, (4,)),
        "e": (I, (1, 4)),
        "f": (I, ("n",)),
        "g": (F, (1, 4)),
        "h": (F, ("n", 4)),
    }
    assert_rules_right(taken(nodes, outputs), feeds(least=1))


@pytest.mark.parametrize("in_order", [0, 1])
def test_what_there_is_of_each_kind(in_order):
    """Of numbers, of rows of them, of columns, of rows that data counts, and of one alone."""
    kinds = {"x": ["wy", "wi", "wk", "wc"], "a": ["ay", "ai", "ak", "ac"], "b": ["by", "", "bk"],
             "c": ["cy", "ci", "ck", "cc"], "one": ["oy", "oi", "ok", "oc"]}  # fmt: skip
    along = {"b": {"axis": 0}, "c": {"axis": 1}}
    nodes = [
        node("Cast", ["r"], ["whole"], to=TensorProto.INT64),
        node("Gather", ["whole", "first"], ["a"], axis=1),
        node("Gather", ["whole", "in_front"], ["b"], axis=1),
        node("Sign", ["x"], ["signs"]),
        node("Slice", ["signs", "at0", "at3", "at0"], ["c"]),
        node("Slice", ["s", "at0", "at1", "at0"], ["one"]),
        *(
            node("Unique", ["signs" if name == "x" else name], made, sorted=in_order,
                 **along.get(name, {}))
            for name, made in kinds.items()
        ),
    ]  # fmt: skip
    outputs: dict[str, tuple[str, tuple[Any, ...]]]
    outputs = {name: (I, ("n",)) for made in kinds.values() for name in made if name}
    outputs |= {"wy": (F, ("n",)), "oy": (F, ("n",)), "by": (I, ("n", 2)), "cy": (F, (3, "n"))}
    assert_rules_right(taken(nodes, outputs), feeds(least=1))


def test_places_found_twice_are_as_many():
    """Though of some a row alone is read: what is read behind suppression counts for that alone."""
    nodes = [
        node("NonZero", ["m"], ["a"], "first"),
        node("NonZero", ["m"], ["b"], "again"),
        node("Slice", ["a", "zero", "one", "zero"], ["rows"], "rows"),
        node("Slice", ["b", "one", "two", "zero"], ["columns"], "columns"),
        node("Add", ["rows", "columns"], ["y"], "sum"),
    ]
    weights = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    model = model_of(nodes, [("m", "f4", (3, 4))], [("y", "i8", (1, "n"))], weights)
    image = np.array([[0, 1, 0, 0], [2, 0, 0, 3], [0, 0, 0, 0]], np.float32)
    assert_rules_right(model, [{"m": image}, {"m": 0 * image}])


def test_an_older_operator_set_has_axes_as_attributes():
    nodes = [
        node("Unsqueeze", ["r"], ["a"], axes=[1]),
        node("ReduceSum", ["a"], ["b"], axes=[0]),
        node("Concat", ["r", "r"], ["y"], axis=0),
        node("Softmax", ["r"], ["z"], axis=1),
    ]
    outputs = {"b": (F, (1, 1, 4)), "y": (F, ("n", 4)), "z": (F, ("m", 4))}
    assert_rules_right(taken(nodes, outputs, opset=11), feeds())


def test_large_weights_need_no_values_to_say_what_is_undecided():
    """Beside an operator whose result nobody knows the size of."""
    weight = np.zeros((64, 64), np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["m"], name="product"),
        node("MadeUp", ["m"], ["u"], name="unknown", domain="com.example"),
        node("Relu", ["u"], ["y"], name="relu"),
    ]
    model = make_model(
        nodes, [("x", [2, 64])], [("y", None)], [("w", weight)], domain="com.example"
    )
    del model.graph.value_info[:]
    refused = undecided(without_large_values(model))
    assert [refusal.node for refusal in refused] == ["unknown"]
