"""Layers and products over rows that data counts, against onnxruntime: one real, some, all."""

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper

from support.bounded_models import (
    ROWS,
    assert_rules_right,
    assert_same,
    by_numpy,
    by_onnxruntime,
    feeds_of_rows,
    fixed,
    taken,
)
from support.compiled import executor_of, outputs_for
from tvm_vision.compiler import compile_model
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

F = "f4"
node = helper.make_node
rng = np.random.default_rng(5)
# Images (count, 1, 2, 2) of the rows.
IMAGES = node("Reshape", ["r", "square"], ["v"])
# Rows that are no numbers where they are not real: of a logarithm of what is left of their number.
NO_NUMBERS = [
    node("Shape", ["r"], ["h"], end=1),
    node("Squeeze", ["h", "in_front"], ["number"]),
    node("Range", ["first", "number", "step"], ["before"]),
    node("Sub", ["number", "before"], ["left"]),
    node("Cast", ["left"], ["many"], to=TensorProto.FLOAT),
    node("Log", ["many"], ["logarithm"]),
    node("Unsqueeze", ["logarithm", "at1"], ["column"]),
    node("Mul", ["column", "r"], ["t"]),
]
WEIGHTS = {
    "square": np.array([-1, 1, 2, 2]),
    "two": np.array([2]),
    "pairs": np.array([-1, 2, 4]),
    "scales": np.array([1, 1, 2, 1.5], np.float32),
    "larger": np.array([3, 5]),
    "in_front": np.array([0]),
    "first": np.array(0),
    "step": np.array(1),
    "matrix": rng.standard_normal((4, 3)).astype(np.float32),
    "scale": np.float32(0.02),
    "zero8": np.uint8(120),
    "columns": np.array([0.02, 0.03, 0.01, 0.05], np.float32),
    "columns0": np.array([0, 3, -3, 7], np.int8),
    "bytes": rng.integers(0, 255, (4, 3), dtype=np.uint8),
    "kernel": rng.integers(0, 255, (3, 1, 2, 2), dtype=np.uint8),
    "least": np.float32(0.002),
}


def resized(name="y", **attributes):
    return node("Resize", ["v", "", "", "to"], [name], **attributes)


def sizes(*parts):
    return [node("Shape", ["v"], ["u"], end=2), node("Concat", list(parts), ["to"], axis=0)]


CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "sampled images": (
        [
            IMAGES,
            node("Reshape", ["r", "square"], ["grid"]),
            node("GridSample", ["v", "grid"], ["y"], align_corners=1),
            node("Concat", ["v", "v"], ["twice"], axis=0),
            node("Concat", ["grid", "grid"], ["grids"], axis=0),
            node("GridSample", ["twice", "grids"], ["z"], align_corners=0),
        ],
        {"y": (F, ("n", 1, 1, 2)), "z": (F, ("m", 1, 1, 2))},
    ),
    "powers": (
        [IMAGES, node("LpPool", ["v"], ["y"], kernel_shape=[2, 1]),
         node("Shrink", ["r"], ["w"], lambd=0.3, bias=0.1)],
        {"y": (F, ("n", 1, 1, 2)), "w": (F, ("n", 4))},
    ),
    "norms": (
        [IMAGES, node("MeanVarianceNormalization", ["v"], ["y"], axes=[2, 3]),
         node("LayerNormalization", ["r", "columns"], ["z"])],
        {"y": (F, ("n", 1, 2, 2)), "z": (F, ("n", 4))},
    ),
    "places": (
        [
            node("Transpose", ["r"], ["rt"], perm=[1, 0]),
            node("MatMul", ["r", "rt"], ["square_of_rows"]),
            node("Trilu", ["square_of_rows"], ["y"], upper=0),
            node("Trilu", ["r", "step"], ["z"]),
            node("Hardmax", ["rt"], ["w"]),
            node("Hardmax", ["r"], ["k"], axis=0),
        ],
        {"y": (F, ("n", "n")), "z": (F, ("n", 4)), "w": (F, (4, "n")), "k": (F, ("n", 4))},
    ),
    "halves": (
        [
            node("Shape", ["r"], ["h"], end=1),
            node("Div", ["h", "two"], ["half"]),
            node("Sub", ["h", "half"], ["other"]),
            node("Slice", ["r", "in_front", "half"], ["y"]),
            node("Slice", ["r", "half", "h"], ["z"]),
            node("Concat", ["half", "other"], ["both"], axis=0),
            node("Split", ["r", "both"], ["a", "b"]),
            node("Mod", ["h", "two"], ["odd"]),
            node("Sub", ["h", "odd"], ["even"]),
            node("Slice", ["r", "in_front", "even"], ["u"]),
            node("Reshape", ["u", "pairs"], ["w"]),
        ],
        {"y": (F, ("n", 4)), "z": (F, ("m", 4)), "a": (F, ("k", 4)), "b": (F, ("l", 4)),
         "w": (F, ("o", 2, 4)), "half": ("i8", (1,))},
    ),
    "equal parts": (
        [
            node("Concat", ["r", "r", "x"], ["t"], axis=0),
            node("Split", ["t"], ["y", "z", "w"], num_outputs=3),
            node("Concat", ["r", "x"], ["u"], axis=0),
            node("Transpose", ["u"], ["ut"], perm=[1, 0]),
            node("Split", ["ut"], ["k", "l"], axis=1, num_outputs=2),
        ],
        {**dict.fromkeys("yzw", (F, ("n", 4))), **dict.fromkeys("kl", (F, (4, "m")))},
    ),
    "resized by scales": (
        [IMAGES, node("Resize", ["v", "", "scales"], ["y"], mode="linear")],
        {"y": (F, ("n", 1, 4, 3))},
    ),
    "resized to sizes": (
        [IMAGES, *sizes("u", "larger"), resized(mode="cubic")],
        {"y": (F, ("n", 1, 3, 5))},
    ),
    "resized along axes": (
        [
            IMAGES,
            node("Resize", ["v", "", "", "larger"], ["y"], axes=[2, 3]),
            node("Resize", ["v", "", "", "larger"], ["z"], axes=[2, 3],
                 keep_aspect_ratio_policy="not_larger"),
        ],
        {"y": (F, ("n", 1, 3, 5)), "z": (F, ("m", 1, "k", "l"))},
    ),
    "sums over rows": (
        [
            *NO_NUMBERS,
            node("Einsum", ["t", "r"], ["y"], equation="ni,nj->ij"),
            node("Einsum", ["t"], ["z"], equation="ni->i"),
            node("Einsum", ["t", "r"], ["w"], equation="ni,ni"),
        ],
        {"y": (F, (4, 4)), "z": (F, (4,)), "w": (F, ())},
    ),
    "products of rows": (
        [
            *NO_NUMBERS,
            node("Einsum", ["t", "matrix"], ["y"], equation="...i,ij->...j"),
            node("Einsum", ["t", "r"], ["z"], equation="ni,mi->nm"),
            node("Einsum", ["z", "r"], ["w"], equation="nm,mi->in"),
            node("Einsum", ["matrix", "r"], ["k"], equation="ij,...i"),
        ],
        {"y": (F, ("n", 3)), "z": (F, ("n", "m")), "w": (F, (4, "n")), "k": (F, ("n", 3))},
    ),
    "quantized": (
        [
            node("QuantizeLinear", ["r", "scale", "zero8"], ["a"]),
            node("DequantizeLinear", ["a", "scale", "zero8"], ["y"]),
            node("QuantizeLinear", ["r", "columns", "columns0"], ["z"], axis=1),
            node("QLinearMatMul", ["a", "scale", "zero8", "bytes", "least", "zero8", "scale",
                                   "zero8"], ["w"]),
            node("MatMulInteger", ["a", "bytes", "zero8", "zero8"], ["k"]),
        ],
        {"a": ("u1", ("n", 4)), "y": (F, ("n", 4)), "z": ("i1", ("n", 4)), "w": ("u1", ("n", 3)),
         "k": ("i4", ("n", 3))},
    ),
    "quantized by scales of each row": (
        [
            node("Gather", ["s", "i"], ["of_row"], axis=0),
            node("QuantizeLinear", ["r", "of_row"], ["y"], axis=0),
            node("DequantizeLinear", ["y", "of_row"], ["z"], axis=0),
        ],
        {"y": ("u1", ("n", 4)), "z": (F, ("n", 4))},
    ),
    "sums of bytes over rows": (
        [
            node("QuantizeLinear", ["r", "scale", "zero8"], ["a"]),
            node("Transpose", ["a"], ["b"], perm=[1, 0]),
            node("MatMulInteger", ["b", "a", "zero8", "zero8"], ["y"]),
            node("MatMulInteger", ["b", "a"], ["z"]),
        ],
        {"y": ("i4", (4, 4)), "z": ("i4", (4, 4))},
    ),
    "convolved bytes": (
        [
            IMAGES,
            node("QuantizeLinear", ["v", "scale", "zero8"], ["a"]),
            node("ConvInteger", ["a", "kernel", "zero8", "zero8"], ["y"]),
            node("QLinearConv", ["a", "scale", "zero8", "kernel", "least", "zero8", "scale",
                                 "zero8"], ["z"]),
        ],
        {"y": ("i4", ("n", 3, 1, 1)), "z": ("u1", ("n", 3, 1, 1))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    nodes, outputs = CASES[case]
    opset = 19 if any(word in case for word in ("axes", "quantized", "parts")) else 17
    # Of no rows onnxruntime refuses most of these, and ends the process for an Einsum.
    assert_rules_right(taken(nodes, outputs, WEIGHTS, opset), feeds_of_rows(least=1), 1e-4)


def test_the_range_of_dynamic_quantization_is_of_the_real_rows():
    """Of rows that are not real it would have the largest numbers."""
    nodes = [
        node("Neg", ["r"], ["a"]),
        node("Exp", ["a"], ["b"]),
        node("Sub", ["b", "hundred"], ["c"]),
        node("DynamicQuantizeLinear", ["c"], ["y", "width", "place"]),
    ]
    outputs = {"y": ("u1", ("n", 4)), "width": (F, ()), "place": ("u1", ())}
    weights = {"hundred": np.float32(1)}
    assert_rules_right(taken(nodes, outputs, weights), feeds_of_rows(least=1))


def test_a_sum_of_no_rows_is_nothing():
    nodes, outputs = CASES["sums over rows"]
    (found, *_) = by_numpy(fixed(taken(nodes, outputs, WEIGHTS)), feeds_of_rows())
    assert all((found[name] == 0).all() for name in outputs)


def assert_reference_right(nodes, outputs, weights, opset):
    """Compiled, against what ONNX's reference gives of the rows that there are."""
    model, feeds = taken(nodes, outputs, {**WEIGHTS, **weights}, opset), feeds_of_rows(least=1)
    executor = executor_of(compile_model(*import_onnx(model), target="llvm"), tvm.cpu(0))
    assert_same(outputs_for(executor, feeds), by_numpy(model, feeds), 1e-4)


def test_bent_convolutions_of_a_batch():
    """With places and masks of as many images; onnxruntime has none."""
    nodes = [
        IMAGES,
        node("Concat", ["v", "v"], ["places"], axis=1),
        node("Sigmoid", ["v"], ["mask"]),
        node("DeformConv", ["v", "taps", "places", "", "mask"], ["y"]),
    ]
    weights = {"taps": rng.standard_normal((3, 1, 1, 1)).astype(np.float32)}
    assert_reference_right(nodes, {"y": (F, ("n", 3, 2, 2))}, weights, 19)


def test_norms_by_the_mean_square():
    nodes = [node("RMSNormalization", ["r", "columns"], ["y"])]
    assert_reference_right(nodes, {"y": (F, ("n", 4))}, {}, 23)


def test_what_onnxruntime_and_we_have_of_images():
    """Powers of whole images, and the largest of regions."""
    nodes = [
        IMAGES,
        node("GlobalLpPool", ["v"], ["y"], p=3),
        node("Abs", ["r"], ["a"]),
        node("Mul", ["a", "corner"], ["c"]),
        node("Unsqueeze", ["x", "in_planes"], ["plane"]),
        node("Pad", ["c", "front"], ["regions"]),
        node("MaxRoiPool", ["plane", "regions"], ["z"], pooled_shape=[2, 2]),
    ]
    weights = {
        "corner": np.array([0, 0, 1, 3], np.float32),
        "in_planes": np.array([0, 1]),
        "front": np.array([0, 1, 0, 0]),
    }
    outputs = {"y": (F, ("n", 1, 1, 1)), "z": (F, ("n", 1, 2, 2))}
    assert_compiled_right(taken(nodes, outputs, {**WEIGHTS, **weights}), feeds_of_rows(least=1))


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(operator, steps, inputs, size, ways, names, **attributes):
    """A layer, and its weights."""
    gates = GATES[operator]
    results = [f"y{name}" for name in ("", "h", "c")[: 3 if operator == "LSTM" else 2]]
    if ways == 2:
        attributes["direction"] = "bidirectional"
    layer = node(operator, [steps, "w", "k", *names], results, hidden_size=size, **attributes)
    made = np.random.default_rng(1)
    shapes = {"w": (ways, gates * size, inputs), "k": (ways, gates * size, size)}
    return layer, {
        name: made.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def assert_compiled_right(model, feeds):
    found = outputs_for(
        executor_of(compile_model(*import_onnx(model), target="llvm"), tvm.cpu(0)), feeds
    )
    assert_same(found, by_onnxruntime(model, feeds))


@pytest.mark.parametrize("operator", GATES)
def test_a_batch_of_sequences_that_data_counts(operator):
    """With first states of as many sequences, and the ends of these."""
    lstm = operator == "LSTM"
    layer, weights = recurrent(
        operator, "sequences", 2, 3, 2, ["", "ends", "state", *["state"] * lstm]
    )
    nodes = [
        node("Reshape", ["r", "pairs"], ["batch_first"]),
        node("Transpose", ["batch_first"], ["sequences"], perm=[1, 0, 2]),
        node("Shape", ["r"], ["rows"], end=1),
        node("Concat", ["two", "rows", "three"], ["of_state"], axis=0),
        node("Expand", ["half", "of_state"], ["state"]),
        node("Gather", ["s", "i"], ["score"], axis=0),
        node("Greater", ["score", "half"], ["long"]),
        node("Cast", ["long"], ["later"], to=TensorProto.INT32),
        node("Add", ["later", "one"], ["ends"]),
        layer,
    ]
    outputs = {"y": (F, (2, 2, "n", 3)), "yh": (F, (2, "n", 3))}
    outputs |= {"yc": (F, (2, "n", 3))} if lstm else {}
    weights |= {
        "pairs": np.array([-1, 2, 2]),
        "two": np.array([2]),
        "three": np.array([3]),
        "half": np.float32(0.5),
        "one": np.int32(1),
    }
    assert_compiled_right(taken(nodes, outputs, weights), feeds_of_rows(least=1))


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("operator", GATES)
def test_a_sequence_of_as_many_steps_as_data_counts(operator, ways):
    """Its last state is that of the last real step, and backwards it begins there."""
    layer, weights = recurrent(operator, "sequence", 4, 3, ways, [])
    nodes = [node("Unsqueeze", ["r", "at1"], ["sequence"]), layer]
    outputs = {"y": (F, ("n", ways, 1, 3)), "yh": (F, (ways, 1, 3))}
    assert_compiled_right(taken(nodes, outputs, weights), feeds_of_rows(least=1))


REFUSED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "resized rows": (
        [IMAGES, node("Resize", ["v", "", "doubled"], ["y"])],
        {"doubled": np.array([2, 1, 1, 1], np.float32)},
    ),
    "resized to a fixed number of rows": (
        [IMAGES, node("Resize", ["v", "", "", "fixed"], ["y"])],
        {"fixed": np.array([ROWS, 1, 4, 4])},
    ),
    "two numbers of rows": (
        [
            node("NonZero", ["r"], ["elements"]),
            node("Transpose", ["elements"], ["places"], perm=[1, 0]),
            node("GatherND", ["r", "places"], ["values"]),
            node("Einsum", ["values", "r"], ["y"], equation="n,ni->i"),
        ],
        {},
    ),
    "a diagonal": ([node("Einsum", ["t", "r"], ["y"], equation="nn,ni->i"),
                    node("MatMul", ["r", "columns_of"], ["t"]),
                    node("Transpose", ["r"], ["columns_of"])], {}),
    "images and points that are not as many": (
        [
            IMAGES,
            node("Concat", ["v", "v"], ["twice"], axis=0),
            node("GridSample", ["twice", "v"], ["y"]),
        ],
        {},
    ),
    "a norm over rows": ([IMAGES, node("MeanVarianceNormalization", ["v"], ["y"])], {}),
    "more scales than rows": (
        [node("QuantizeLinear", ["r", "many"], ["y"], axis=0)],
        {"many": np.ones(ROWS, np.float32)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    nodes, weights = REFUSED[case]
    model = taken(
        nodes[::-1] if case == "a diagonal" else nodes, {"y": (F, None)}, {**WEIGHTS, **weights}
    )
    with pytest.raises(UnsupportedModelError, match="depend|equal|twice") as caught:
        import_onnx(model)
    assert "\n" not in str(caught.value)
