"""What cannot be imported is refused by the user's own names, with a remedy that works."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.onnx_models import assert_equals_onnxruntime, make_model, run_on_cpu
from tvm_vision.errors import TvmVisionError, UnsupportedModelError
from tvm_vision.evaluate.reference import Reference
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.refusals import NodesRefused

WIDTH = 4
STRING = TensorProto.STRING
FOREIGN = helper.make_node("Own", ["a"], ["y"], name="mine", domain="my.own")
PRODUCT = helper.make_node("MatMul", ["x", "w"], ["a"], name="product")
WEIGHT = [("w", np.eye(WIDTH, dtype=np.float32))]
ENDS = [("x", (2, WIDTH))], [("y", (2, WIDTH))]


@pytest.mark.parametrize("operator", ["Bernoulli", "RandomNormalLike", "RandomUniformLike"])
def test_random_numbers_are_refused_by_the_name_of_the_node(operator):
    node = helper.make_node(operator, ["x"], ["y"], name="dice")
    with pytest.raises(NodesRefused, match=f"{operator} .* at random.* at 'dice': make them an"):
        import_onnx(make_model([node], *ENDS))


def test_a_cut_is_offered_behind_what_is_worth_it():
    with pytest.raises(NodesRefused, match="end the model before it, as 'compile --cut' does"):
        import_onnx(make_model([PRODUCT, FOREIGN], *ENDS, WEIGHT, domain="my.own"))


@pytest.mark.parametrize("before", ["Relu", "Bernoulli"])
def test_no_cut_is_offered_where_nothing_is_left(before):
    nodes = [helper.make_node(before, ["x"], ["a"], name="first"), FOREIGN]
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, *ENDS, domain="my.own"))
    assert "--cut" not in str(error.value)
    assert "use onnxruntime for this model" in str(error.value)


def test_no_cut_is_offered_where_data_decides_all():
    steps = helper.make_node("Range", ["x", "x", "x"], ["y"])
    model = make_model([steps], [("x", ())], [("y", ("n",))])
    with pytest.raises(NodesRefused, match="Range .*depends on the data. at '.*': use onnxruntime"):
        import_onnx(model)


def test_what_opens_a_shape_is_named():
    """The node itself, not an output far behind it, nor the type that TVM has of that."""
    nodes = [
        PRODUCT,
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("Range", ["s", "s", "s"], ["u"], name="few"),
        helper.make_node("Neg", ["u"], ["y"]),
    ]
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, ENDS[0], [("y", ("n",))], WEIGHT))
    assert str(error.value) == (
        "1 node cannot be imported: Range (the size of its result depends on the data) at 'few': "
        "end the model before it, as 'compile --cut' does, or express it by other operators"
    )


def test_a_function_may_be_of_another_operator_set():
    """Split has another form in each of them; onnxruntime takes it in the model's form."""
    axes = numpy_helper.from_array(np.array([1]), "axes")
    body = [
        helper.make_node("Constant", [], ["axes"], value=axes),
        helper.make_node("ReduceSum", ["v", "axes"], ["s"]),
        helper.make_node("Split", ["v"], ["l", "r"], axis=1),
        helper.make_node("Concat", ["r", "s", "l"], ["u"], axis=1),
    ]
    imports = [helper.make_opsetid("", 13)]
    function = helper.make_function("my", "Turned", ["v"], ["u"], body, imports)
    node = helper.make_node("Turned", ["x"], ["y"], domain="my")
    ends = ENDS[0], [("y", (2, WIDTH + 1))]
    model = make_model([node], *ends, opset=18, domain="my")
    model.functions.append(function)
    x = np.arange(2 * WIDTH, dtype=np.float32).reshape(2, WIDTH)
    expected = np.hstack([x[:, 2:], x.sum(1, keepdims=True), x[:, :2]])
    module, _ = import_onnx(model)
    np.testing.assert_array_equal(run_on_cpu(module, x)[0], expected)


def test_text_is_refused():
    text = helper.make_tensor_value_info("x", TensorProto.STRING, (2,))
    same = helper.make_tensor_value_info("y", TensorProto.STRING, (2,))
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [text], [same])
    with pytest.raises(UnsupportedModelError, match="'x' is one of strings: export the model"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


# operator, operator set, type, what its line says of it
UNLISTED = [
    ("Relu", 13, "int32", "export the model in operator set 14, or cast its inputs to float32"),
    ("MaxPool", 11, "uint8", "export the model in operator set 12, or cast its inputs to float32"),
    ("Sqrt", 13, "int64", "cast its inputs to float32, and its results back"),
    ("Neg", 13, "uint8", "cast its inputs to float32, and its results back"),
    ("Not", 13, "int32", "cast its inputs to bool, or"),
]


@pytest.mark.parametrize(("operator", "opset", "dtype", "told"), UNLISTED)
def test_types_that_an_operator_has_not_are_refused(operator, opset, dtype, told):
    """As onnxruntime does: some were computed, others told of in TVM's words."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    options = {"kernel_shape": [2, 2]} if operator == "MaxPool" else {}
    node = helper.make_node(operator, ["x"], ["y"], name="it", **options)
    x = helper.make_tensor_value_info("x", kind, (1, 2, 4, 4))
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset)]
    with pytest.raises(NodesRefused) as error:
        import_onnx(helper.make_model(graph, opset_imports=imports, ir_version=8))
    reason = f"operator set {opset} has it not of {dtype}, as its input 0 is"
    assert f"{operator} ({reason}) at 'it': {told}" in str(error.value)


LABELS = helper.make_tensor("labels", TensorProto.STRING, [WIDTH], [b"ball", b"post", b"", b"x"])
PLACES = helper.make_node("ArgMax", ["a"], ["i"], axis=1, keepdims=0)
LOOKED_UP = [PLACES, helper.make_node("Gather", ["labels", "i"], ["g"], name="look")]
TEXTS = {
    "a weight": LOOKED_UP,
    "a constant": [helper.make_node("Constant", [], ["labels"], value=LABELS), *LOOKED_UP],
    "a cast": [helper.make_node("Cast", ["a"], ["g"], name="look", to=TensorProto.STRING)],
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_refused_by_the_node_that_reads_or_makes_it(name):
    """Not by TVM's word for what it has no tensors of; what comes before can be compiled."""
    nodes = [PRODUCT, *TEXTS[name], helper.make_node("Identity", ["g"], ["y"])]
    shape = (2, WIDTH) if name == "a cast" else (2,)
    model = make_model(nodes, ENDS[0], [("y", shape)], WEIGHT)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    if name == "a weight":
        model.graph.initializer.append(LABELS)
    with pytest.raises(NodesRefused) as error:
        import_onnx(model)
    operator = "Cast" if name == "a cast" else "Gather"
    assert str(error.value) == (
        f"1 node cannot be imported: {operator} (its values are text, and tensors here are "
        "numbers) at 'look': end the model before it, as 'compile --cut' does, or express it by "
        "other operators"
    )


# operator: what it is given beside x of (2, 4, 8), and how both are told
UNFIT: dict[str, tuple[list[Any], str]] = {
    "Gemm": ([np.ones((7, 3))], "float32 (8, 8) and float32 (7, 3)"),
    "Conv": ([np.ones((4, 3, 3))], "float32 (2, 4, 8) and float32 (4, 3, 3)"),
    "ConvTranspose": ([np.ones((3, 4, 3))], "float32 (2, 4, 8) and float32 (3, 4, 3)"),
    "InstanceNormalization": ([np.ones(3), np.ones(3)], "float32 (2, 4, 8) and float32 (3)"),
    "LayerNormalization": ([np.ones(3)], "float32 (2, 4, 8) and float32 (3)"),
    "Reshape": ([np.array([3, 7])], r"float32 (2, 4, 8) and [3, 7]"),
    "Add": ([np.arange(9)[:8] * 10**10], "float32 (2, 4, 8) and ["),
    "ScatterND": (
        [np.array([[1], [0]]), np.ones((2, 4, 7))],
        "float32 (2, 4, 8) and int64 (2, 1) and float32 (2, 4, 7)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", UNFIT)
def test_inputs_that_do_not_go_together_are_told_by_their_types(operator):
    """Not as TVM writes types and operators."""
    others, told = UNFIT[operator]
    x = "flat" if operator == "Gemm" else "x"
    names = [f"w{place}" for place in range(len(others))]
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node(operator, [x, *names], ["y"], name="k"),
    ]
    weights = [
        (name, value if value.dtype == np.int64 else value.astype(np.float32))
        for name, value in zip(names, others, strict=True)
    ]
    weights.append(("shape", np.array([8, 8])))
    with pytest.raises(NodesRefused) as error:
        import_onnx(make_model(nodes, [("x", (2, 4, 8))], [("y", None)], weights))
    assert f"{operator} (inputs of {told}" in str(error.value)
    assert "do not go together) at 'k': export the model again" in str(error.value)


def _node(operator: str, inputs: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(" "), ["y"], name="k", **attributes)


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _places(*shape: int, of: int) -> np.ndarray:
    return np.full(shape, of, np.int64)


SPLIT = helper.make_node("Split", ["x", "a"], ["y", "z"], axis=1, name="k")
TOP = helper.make_node("TopK", ["x", "a"], ["y", "z"], name="k")
NARROW = helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64)
# Inputs that contradict each other: nodes, the shape of x, constants, and what the line says.
CONTRADICTIONS: dict[str, tuple[Any, Any, dict[str, np.ndarray], str]] = {
    "parts that are no sum": (SPLIT, (1, 4), {"a": np.array([3, 7])}, "sum of 'split'"),
    "more parts than results": (SPLIT, (1, 4), {"a": np.array([1, 1, 2])}, "number of splits"),
    "repeats": (_node("Tile", "x a"), (1, 4), {"a": np.array([3, 7, 1])}, "incorrect number"),
    "too few to choose from": (TOP, (1, 4), {"a": np.array([9])}, "k elements"),
    "grids of other images": (
        _node("GridSample", "x a"), (1, 3, 8, 8), {"a": _ones(2, 3, 3, 2)}, "dimension mismatch",
    ),
    "grids of points in space": (
        _node("GridSample", "x a"), (1, 3, 8, 8), {"a": _ones(1, 3, 3, 3)}, "grid",
    ),
    "boxes of other images": (
        _node("RoiAlign", "x a b"), (1, 3, 8, 8), {"a": _ones(2, 4), "b": _places(1, of=0)},
        "dimension mismatch",
    ),
    "boxes of three numbers": (
        _node("RoiAlign", "x a b"), (1, 3, 8, 8), {"a": _ones(2, 3), "b": _places(2, of=0)},
        "four numbers",
    ),
    "one stride for two axes": (
        _node("Conv", "x a", strides=[1]), (1, 4, 8, 8), {"a": _ones(3, 4, 3, 3)}, "strides",
    ),
    "a kernel of another size": (
        _node("Conv", "x a", kernel_shape=[5, 5]), (1, 4, 8, 8), {"a": _ones(3, 4, 3, 3)},
        r"kernel_shape of \(5, 5\)",
    ),
    "a transposed kernel of another size": (
        _node("ConvTranspose", "x a", kernel_shape=[5, 5]), (1, 4, 8, 8),
        {"a": _ones(4, 3, 3, 3)}, r"kernel_shape of \(5, 5\)",
    ),
    "windows of pads alone": (
        _node("MaxPool", "x", kernel_shape=[2, 2], pads=[2, 2, 2, 2]), (1, 4, 8, 8), {},
        r"pads of \[2, 2, 2, 2\]",
    ),
    "means of pads alone": (
        _node("AveragePool", "x", kernel_shape=[3, 3], pads=[0, 3, 0, 0]), (1, 4, 8, 8), {},
        "pads of .* smaller than the window",
    ),
    "slopes of channels as of columns": (
        _node("PRelu", "x a"), (1, 4, 8, 8), {"a": _ones(4)}, r"give it the shape \(4, 1, 1\)",
    ),
    "slopes of nothing": (_node("PRelu", "x a"), (1, 4, 8), {"a": _ones(3)}, r"slopes of \(3,\)"),
    "bounds of each number": (_node("Clip", "x a"), (1, 3), {"a": _ones(3)}, "use Max and Min"),
    "an axis that is not there": (
        _node("CumSum", "x a"), (1, 3, 8), {"a": np.array(3)}, "the axis 3",
    ),
    "a bias of matrices": (
        _node("Gemm", "x a b"), (2, 4), {"a": _ones(4, 3), "b": _ones(1, 2, 3)}, "bias",
    ),
    "three values for on and off": (
        [NARROW, _node("OneHot", "n a b")], (1, 3), {"a": np.array(4), "b": _ones(3)},
        "exactly two",
    ),
    "more indices than there are rows": (
        _node("GatherElements", "x a", axis=1), (1, 4), {"a": _places(2, 4, of=0)}, "indices of",
    ),
    "elements beyond the last": (
        _node("GatherElements", "x a", axis=1), (1, 4), {"a": _places(1, 4, of=9)},
        "indices from 9 to 9 of 4",
    ),
    "points beyond the last": (
        _node("GatherND", "x a"), (1, 4), {"a": np.array([[0, -5]])}, "indices from -5 to -5 of 4",
    ),
    "updates beyond the last": (
        _node("ScatterND", "x a b"), (4, 8), {"a": np.array([[9]]), "b": _ones(1, 8)},
        "indices from 9 to 9 of 4",
    ),
    "scattered beyond the last": (
        _node("ScatterElements", "x a b"), (4, 8), {"a": _places(4, 8, of=9), "b": _ones(4, 8)},
        "indices from 9 to 9 of 4",
    ),
    "means of rows": (_node("GlobalAveragePool", "x"), (2, 4), {}, "an Unsqueeze"),
    "the largest of rows": (_node("GlobalMaxPool", "x"), (2, 4), {}, "an Unsqueeze"),
    "norms of rows": (_node("GlobalLpPool", "x"), (2, 4), {}, "an Unsqueeze"),
    "standardized numbers": (
        _node("InstanceNormalization", "x a b"), (2, 4), {"a": _ones(4), "b": _ones(4)},
        "an Unsqueeze",
    ),
    "one zero point for many scales": (
        _node("QuantizeLinear", "x a b"), (2, 4), {"a": _ones(4), "b": np.zeros(1, np.uint8)},
        r"scales of \(4,\) and zero points of \(1,\)",
    ),
    "many zero points for one scale": (
        _node("QuantizeLinear", "x a b"), (2, 4), {"a": _ones(), "b": np.zeros(4, np.uint8)},
        r"scales of \(\) and zero points of \(4,\)",
    ),
    "an axis of no input": (_node("Einsum", "x", equation="ij->ik"), (2, 5), {}, "no input has k"),
    "an axis of the result twice": (
        _node("Einsum", "x", equation="ij->ii"), (2, 5), {}, "i more than once",
    ),
    "an ellipsis that is lost": (
        _node("Einsum", "x", equation="i...->i"), (2, 5), {}, "lacks the axes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_inputs_that_contradict_each_other_are_refused(name: str) -> None:
    """As onnxruntime refuses them; TVM made something of all, and ended the process for one."""
    nodes, shape, weights, said = CONTRADICTIONS[name]
    nodes = nodes if isinstance(nodes, list) else [nodes]
    results = [(result, None) for result in nodes[-1].output]
    model = make_model(nodes, [("x", shape)], results, list(weights.items()), opset=17)
    with pytest.raises(TvmVisionError):
        Reference(model).run({"x": np.ones(shape, np.float32)})
    with pytest.raises(NodesRefused, match=said) as error:
        import_onnx(model)
    line = str(error.value)
    assert " at 'k'" in line
    assert "\n" not in line


# What onnxruntime runs, to numbers of another version or of nobody: attributes, and what is said.
UNCERTAIN: dict[str, tuple[Any, dict[str, Any], str]] = {
    "padding of a stride": ("ConvTranspose", {"output_padding": [1, 0]}, "put a Pad behind it"),
    "padding of less than windows": (
        "ConvTranspose", {"output_padding": [0, 2], "strides": [2, 2], "dilations": [3, 3]},
        r"an output_padding of \(0, 2\) and strides of \(2, 2\)",
    ),
    **{
        f"pads of less than nothing around {operator}": (
            operator, {"pads": [0, -1, 0, 1]}, "numbers of at least 0",
        )
        for operator in ("ConvTranspose", "MaxPool", "AveragePool", "LpPool")
    },
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(1, 3, 1, 5), (1, 3, 4, 1), (1, 1, 2, 1, 3)])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_grid_between_corners_that_are_one(
    sizes: tuple[int, ...], aligned: int, fixed: bool
) -> None:
    axes = len(sizes) - 2
    shape = (1, axes, axes + 1)
    weights = [("a", np.array(sizes)), ("b", _ones(*shape))]
    made = helper.make_node(
        "AffineGrid", ["b" if fixed else "x", "a"], ["g"], align_corners=aligned
    )
    total = helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    add = helper.make_node("Add", ["g", "s"], ["y"])
    model = make_model([made, total, add], [("x", shape)], [("y", None)], weights, opset=20)
    if aligned:
        with pytest.raises(NodesRefused, match="AffineGrid .*corner to corner.*: leave align"):
            import_onnx(model)
    else:
        assert_equals_onnxruntime(model, np.ones(shape, np.float32))


@pytest.mark.parametrize("name", UNCERTAIN)
def test_attributes_that_engines_do_not_agree_on_are_refused(name: str) -> None:
    operator, attributes, said = UNCERTAIN[name]
    inputs = "x" if operator.endswith("Pool") else "x a"
    node = _node(operator, inputs, kernel_shape=[3, 3], **attributes)
    weights = [("a", _ones(4, 2, 3, 3))]
    with pytest.raises(NodesRefused, match=f"{said}.*$"):
        import_onnx(make_model([node], [("x", (1, 4, 8, 8))], [("y", None)], weights))


FITTING: dict[str, tuple[Any, Any, dict[str, np.ndarray]]] = {
    "a slope for each channel": (_node("PRelu", "x a"), (1, 4, 8, 8), {"a": _ones(4, 1, 1)}),
    "one slope": (_node("PRelu", "x a"), (1, 4, 8, 8), {"a": _ones(1)}),
    "a bound in a list": (_node("Clip", "x a"), (1, 3), {"a": _ones(1)}),
    "indices from the end": (_node("GatherND", "x a"), (1, 4), {"a": np.array([[0, -4]])}),
    "fewer indices than rows": (
        _node("GatherElements", "x a", axis=1), (3, 4), {"a": _places(2, 9, of=-4)},
    ),
    "as much padding as a stride leaves out": (
        _node("ConvTranspose", "x a", strides=[2, 3], output_padding=[1, 2]), (1, 4, 8, 8),
        {"a": _ones(4, 3, 3, 3)},
    ),
    "one zero point in a list": (
        [
            helper.make_node("QuantizeLinear", ["x", "a", "b"], ["q"]),
            _node("DequantizeLinear", "q a b"),
        ],
        (2, 4), {"a": _ones(), "b": np.zeros(1, np.uint8)},
    ),
    "pads of one less": (
        _node("MaxPool", "x", kernel_shape=[2, 2], pads=[1, 1, 1, 1]), (1, 4, 8, 8), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTING)
def test_inputs_that_fit_by_little_are_taken(name: str) -> None:
    nodes, shape, weights = FITTING[name]
    nodes = nodes if isinstance(nodes, list) else [nodes]
    model = make_model(nodes, [("x", shape)], [("y", None)], list(weights.items()), opset=17)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    assert_equals_onnxruntime(model, x)


@pytest.mark.parametrize(
    "label",
    [
        helper.make_node("Constant", [], ["s"], value_strings=["cat", "dog"]),
        helper.make_node("Constant", [], ["s"], value=helper.make_tensor("s", STRING, [1], ["a"])),
        helper.make_node("Identity", ["w"], ["s"]),
    ],
)
def test_an_output_of_text_is_to_be_taken_out(label: Any) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"]), label], *ENDS)
    model.graph.output.append(helper.make_tensor_value_info("s", STRING, None))
    model.graph.initializer.append(helper.make_tensor("w", STRING, [1], ["a"]))
    with pytest.raises(UnsupportedModelError, match="output 's' is one of strings: export the"):
        import_onnx(model)


@pytest.mark.parametrize("dtype", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "COMPLEX64"])
def test_an_input_of_a_type_that_packages_lack_is_to_be_cast(dtype: str) -> None:
    model = make_model([helper.make_node("Identity", ["x"], ["y"])], *ENDS, opset=21)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = getattr(TensorProto, dtype)
    with pytest.raises(UnsupportedModelError, match="the input 'x' is of .*: cast it within"):
        import_onnx(model)


def test_an_output_of_a_type_that_packages_lack_is_to_be_cast() -> None:
    kind = TensorProto.FLOAT8E4M3FN
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    model = make_model([node], *ENDS, opset=21)
    model.graph.output[0].type.tensor_type.elem_type = kind
    with pytest.raises(UnsupportedModelError, match="'y' is of float8_e4m3fn: cast it within"):
        import_onnx(model)
