"""Operators that TVM imports wrongly: right against onnxruntime, or refused by name."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from support.conformance.conformance_worker import executor
from support.onnx_models import assert_equals_onnxruntime, image, make_model, run_on_cpu
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.node_names import node_name
from tvm_vision.frontend.onnx import simplify
from tvm_vision.frontend.onnx.fold import folded
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.onnx.tools import ToolError

SEED = 5


@pytest.mark.parametrize("operator", ["Less", "Greater"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("source", ["bool", "same"])
def test_unsigned_numbers_are_compared(operator, swapped, kind, source):
    """Also those whose bounds are known, where TVM's simplifier goes below zero."""
    largest = np.iinfo(kind).max
    data = np.array([0, 1, 2, 31, 32, 33, largest], kind)
    data = data > 1 if source == "bool" else data
    for bound in (1, 32, largest):
        nodes = [
            helper.make_node(
                "Cast", ["x"], ["c"], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            ),
            helper.make_node(operator, ["k", "c"] if swapped else ["c", "k"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes, "test",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(data.dtype), [7])],
            [helper.make_tensor_value_info("y", TensorProto.BOOL, [7])],
            [numpy_helper.from_array(np.array(bound, kind), "k")],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        pair = (bound, data.astype(kind)) if swapped else (data.astype(kind), bound)
        order = np.less if operator == "Less" else np.greater
        found = executor(import_onnx(model), "llvm")(data)[0]
        np.testing.assert_array_equal(found, order(*(np.asarray(a, kind) for a in pair)))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [
        ((4, 5), (4, 3), 0),
        ((3, 4, 5), (3, 2, 3), 0),
        ((3, 4, 5), (2, 3, 5), 1),
        ((3, 4, 5), (2, 4, 2), 1),
        ((3, 4, 5), (3, 2, 4), 2),
        ((2, 3, 4, 5), (1, 2, 3, 2), 1),
        ((2, 3, 4, 5), (2, 2, 2, 5), -1),
    ],
)
def test_fewer_places_than_data_to_scatter_into(shape, count, axis, reduction):
    random = np.random.default_rng(SEED)
    size = shape[axis]
    drawn = random.random([size if n == axis % len(shape) else c for n, c in enumerate(count)])
    places = np.take(np.argsort(drawn, axis), range(count[axis]), axis)
    if reduction != "none":  # some of them twice
        places = random.integers(-size, size, count)
    node = helper.make_node(
        "ScatterElements", ["x", "places", "updates"], ["y"], axis=axis, reduction=reduction
    )
    weights = [("places", places), ("updates", random.random(count, np.float32))]
    model = make_model([node], [("x", shape)], [("y", shape)], weights, opset=18)
    assert_equals_onnxruntime(model, image(*shape))


@pytest.mark.parametrize(("size", "auto_pad"), [(10, "NOTSET"), (9, "NOTSET"), (8, "SAME_UPPER")])
def test_conv_transpose_of_a_given_size(size, auto_pad):
    weight = image(1, 2, 3, 3)
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w"],
        ["y"],
        strides=[2, 2],
        output_shape=[size, size],
        auto_pad=auto_pad,
    )
    model = make_model([node], [("x", (1, 1, 4, 4))], [("y", (1, 2, size, size))], [("w", weight)])
    assert_equals_onnxruntime(model, image(1, 1, 4, 4))


def test_quantized_convolution_equals_onnxruntime():
    random = np.random.default_rng(SEED)
    weights = [
        ("w", random.integers(-128, 127, (4, 3, 3, 3), np.int8)),
        ("ws", random.uniform(0.01, 0.02, 4).astype(np.float32)),
        ("wz", np.zeros(4, np.int8)),
        ("b", random.integers(-500, 500, 4).astype(np.int32)),
        ("xs", np.float32(0.02)),
        ("xz", np.uint8(120)),
        ("ys", np.float32(0.1)),
        ("yz", np.uint8(128)),
    ]
    node = helper.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        pads=[1, 1, 1, 1],
    )
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 3, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (1, 4, 6, 6))],
        [numpy_helper.from_array(np.array(value), name) for name, value in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = random.integers(0, 255, (1, 3, 6, 6), np.uint8)
    # Another order of the multiplications may round a half the other way.
    assert_equals_onnxruntime(model, data, rtol=0, atol=1)


def test_zeros_of_a_second_reshape_are_sizes_of_the_first():
    """onnxsim leaves out the first of two."""
    nodes = [
        helper.make_node("Reshape", ["x", "groups"], ["g"]),
        helper.make_node("Reshape", ["g", "rows"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0),
    ]
    weights = [("groups", np.array([3, 2, 2, 2, 2])), ("rows", np.array([0, 0, -1]))]
    model = make_model(nodes, [("x", (3, 4, 2, 2))], [("y", (3, 2))], weights)
    assert_equals_onnxruntime(model, image(3, 4, 2, 2))


@pytest.mark.parametrize("hidden", [False, True], ids=["constant", "behind a Cast"])
def test_zeros_of_a_reshape_behind_a_product_are_sizes_of_the_product(hidden: bool) -> None:
    """onnxsim makes matrices of what a product with bias reads and writes, and leaves out the
    Reshape that gives the rows their first axes back."""
    random = np.random.default_rng(1)
    heads = "shape" if hidden else "heads"
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Cast", ["shape"], ["heads"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["s", "heads"], ["h"]),
        helper.make_node("Transpose", ["h"], ["y"], perm=[2, 0, 3, 1, 4]),
    ]
    weights = [
        ("w", random.standard_normal((6, 24), np.float32)),
        ("b", random.standard_normal(24, np.float32)),
        (heads, np.array([0, -1, 3, 4, 2], np.int32 if hidden else np.int64)),
    ]
    if not hidden:
        del nodes[2]
    model = make_model(nodes, [("x", (1, 5, 6))], [("y", (3, 1, 4, 5, 2))], weights)
    assert_equals_onnxruntime(model, random.standard_normal((1, 5, 6), np.float32))


def test_what_the_simplifier_makes_another_network_of_is_not_believed() -> None:
    """It says sizes that do not follow from the nodes that it leaves."""
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("Reshape", ["r", "heads"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    weights = [("rows", np.array([-1, 6])), ("heads", np.array([0, -1, 3]))]
    model = make_model(nodes, [("x", (1, 5, 6))], [("y", (5, 2, 3))], weights)
    assert simplify._changed_values(model) == []
    said = helper.make_tensor_value_info("h", TensorProto.FLOAT, (1, 10, 3))
    model.graph.value_info.append(said)
    assert simplify._changed_values(model) == ["h"]


def test_every_refused_node_is_named_in_one_line(capfd):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("RandomNormalLike", ["r"], ["b"], name="second"),
        helper.make_node("RandomUniformLike", ["r"], ["g"], name="back"),
        helper.make_node("Relu", ["g"], ["c"]),
    ]
    outputs = [(name, (2, 3, 3)) for name in "abc"]
    model = make_model(nodes, [("x", (2, 3, 3))], outputs)
    with pytest.raises(UnsupportedModelError) as caught:
        import_onnx(model)
    assert str(caught.value) == (
        "3 nodes cannot be imported: RandomNormalLike (its numbers are drawn at random) at "
        "'first', 'second', RandomUniformLike (its numbers are drawn at random) at 'back': make "
        "them an input of the model, or use onnxruntime for this model"
    )
    assert capfd.readouterr() == ("", "")


def shape_arithmetic_model():
    """Flattens by a shape that is computed: TVM needs it folded."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["flat"], name="flatten"),
        helper.make_node("Relu", ["flat"], ["y"], name="/last relu"),
    ]
    weights = [("zero", np.array([0])), ("rest", np.array([-1]))]
    return make_model(nodes, [("x", ("N", 3, 4))], [("y", ("N", 12))], weights)


def test_where_onnxsim_fails_the_model_is_folded_here(monkeypatch):
    def fail(*arguments, **options):
        raise ToolError("no")

    monkeypatch.setattr(simplify, "run", fail)
    module, signature = import_onnx(shape_arithmetic_model(), input_shapes={"x": (2, 3, 4)})
    assert signature.outputs[0].shape == (2, 12)
    data = image(2, 3, 4) - 0.5
    np.testing.assert_array_equal(run_on_cpu(module, data)[0], np.maximum(data, 0).reshape(2, 12))


@pytest.mark.parametrize("opset", [23, onnx.defs.onnx_opset_version()])
def test_shapes_follow_in_operator_sets_that_onnxsim_does_not_know(opset):
    """It hands a model of the newest set back as it was; the body of Attention computes shapes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Attention", ["a", "x", "x"], ["y"], is_causal=1),
    ]
    shape = (1, 2, 5, 8)
    model = make_model(nodes, [("x", shape)], [("y", shape)], opset=opset)
    x = image(*shape)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(executor(import_onnx(model), "llvm")(x)[0], expected, atol=1e-5)


def test_a_model_that_onnxsim_dies_of_is_refused_in_a_line():
    """A slice that ends before it starts: it takes the whole process along."""
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends"], ["nothing"]),
        helper.make_node("Shape", ["nothing"], ["y"]),
    ]
    weights = [("starts", np.array([2])), ("ends", np.array([1]))]
    model = make_model(nodes, [("x", (4, 5))], [("nothing", (0, 5))], weights)
    with pytest.raises(UnsupportedModelError, match="no elements"):
        import_onnx(model)


def test_folding_leaves_only_what_depends_on_the_input():
    model = shape_arithmetic_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert [node.op_type for node in folded(model).graph.node] == ["Reshape", "Relu"]


def test_variables_are_named_after_the_nodes():
    module, _ = import_onnx(shape_arithmetic_model(), input_shapes={"x": (2, 3, 4)})
    bindings = module["main"].body.blocks[0].bindings
    assert {node_name(b.var.name) for b in bindings} - {None} >= {"flatten"}


@pytest.mark.parametrize(
    ("operator", "attributes", "shape"),
    [
        ("Slice", {"starts": [1], "ends": [3], "axes": [1]}, (2, 2, 4)),
        ("Slice", {"starts": [0, -3], "ends": [2, 1000]}, (2, 3, 4)),
        ("Clip", {"max": 0.5}, (2, 4, 4)),
        ("Pad", {"pads": [0, 1, 1, 0, 0, 2], "value": 1.5}, (2, 5, 7)),
        ("Unsqueeze", {"axes": [0, 2]}, (1, 2, 1, 4, 4)),
        ("ReduceSum", {"axes": [1]}, (2, 1, 4)),
        ("Split", {"axis": 1, "split": [4]}, (2, 4, 4)),
        ("Softmax", {"axis": 1}, (2, 4, 4)),
        ("Upsample", {"mode": "nearest", "scales": [1.0, 2.0, 2.0]}, (2, 8, 8)),
    ],
)
def test_the_forms_of_old_operator_sets(operator, attributes, shape):
    """What is an input today was an attribute."""
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    model = make_model([node], [("x", (2, 4, 4))], [("y", shape)], opset=8)
    assert_equals_onnxruntime(model, image(2, 4, 4))


@pytest.mark.parametrize("axes", [None, [0, 1], [2, 3]])
@pytest.mark.parametrize("opset", [9, 13])
def test_numbers_far_from_0_are_standardized(opset, axes):
    """The mean of their squares less the square of their mean is mostly rounding."""
    attributes = {} if axes is None else {"axes": axes}
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)
    shape = (2, 3, 6, 5)
    model = make_model([node], [("x", shape)], [("y", shape)], opset=opset)
    x = 100 + image(*shape) / 10
    along = tuple(axes or (0, 2, 3))
    exact = x.astype(np.float64) - x.mean(along, np.float64, keepdims=True)
    exact /= exact.std(along, keepdims=True)
    found = executor(import_onnx(model), "llvm")(x)[0]
    np.testing.assert_allclose(found, exact, atol=1e-3)


@pytest.mark.parametrize("axes", [None, [0, 2, 3], [0, -1, 2, 2]], ids=str)
@pytest.mark.parametrize("shape", [(3,), (2, 5), (2, 3, 5), (2, 3, 4, 2, 2)], ids=str)
def test_axes_of_an_image_are_those_that_a_tensor_has(shape, axes):
    """They are the default, which onnxruntime takes for tensors of any number of axes."""
    attributes = {} if axes is None else {"axes": axes}
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)
    model = make_model([node], [("x", shape)], [("y", shape)], opset=13)
    assert_equals_onnxruntime(model, image(*shape))


REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("operator", [*(f"Reduce{kind}" for kind in REDUCTIONS), "Squeeze"])
def test_an_axis_that_is_named_twice_counts_once(operator, opset):
    """As onnxruntime takes it: a program that collects axes may count from both ends."""
    shape, left = ((2, 3, 4, 5), (2, 1, 1, 1)) if operator != "Squeeze" else ((2, 1, 1, 5), (2, 5))
    axes = [1, 3, 2, -2] if operator != "Squeeze" else [1, 2, -2]
    as_input = opset >= (13 if operator in ("ReduceSum", "Squeeze") else 18)
    named = {} if as_input else {"axes": axes}
    node = helper.make_node(operator, ["x", "axes"][: 1 + as_input], ["y"], **named)
    weights = [("axes", np.array(axes))] if as_input else []
    model = make_model([node], [("x", shape)], [("y", left)], weights, opset=opset)
    assert_equals_onnxruntime(model, 1 + image(*shape))


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_a_range_of_no_elements_has_a_step(step):
    """5 to 0 in steps of 1 is nothing; in steps of 0 it is wrong, and was nothing, too."""
    nodes = [
        helper.make_node("Range", ["start", "end", "step"], ["r"], name="count"),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["f", "x"], ["y"], axis=0),
    ]
    weights = [(n, np.array(v)) for n, v in (("start", 5), ("end", 0), ("step", step))]
    model = make_model(nodes, [("x", (3,))], [("y", (8 if step < 0 else 3,))], weights, opset=13)
    if step:
        assert_equals_onnxruntime(model, image(3))
        return
    with pytest.raises(UnsupportedModelError, match="a step of 0.* at 'count': correct the step"):
        import_onnx(model)


@pytest.mark.parametrize("bounds", ["", "min", "max", "min max"])
@pytest.mark.parametrize(("opset", "dtype"), [(8, np.float32), (13, np.float32), (13, np.float16)])
def test_bounds_that_are_left_out_are_the_ends_of_the_type(opset, dtype, bounds):
    numbers = {name: {"min": -0.5, "max": 2.0}[name] for name in bounds.split()}
    attributes = numbers if opset < 11 else {}
    names = [] if opset < 11 else [name * (name in numbers) for name in ("min", "max")]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", *names], ["y"], **attributes)],
        "test",
        [helper.make_tensor_value_info("x", kind, (5,))],
        [helper.make_tensor_value_info("y", kind, (5,))],
        [numpy_helper.from_array(np.array(numbers[name], dtype), name) for name in names if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    assert_equals_onnxruntime(model, np.array([-np.inf, -3, 1, 7, np.inf], dtype))


def gather_model(indices, *, fixed=True):
    weights = [("i", np.array(indices))]
    shape = (2, *np.shape(indices), 4)
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    model = make_model([node], [("x", (2, 5, 4))], [("y", shape)], weights if fixed else ())
    if not fixed:
        kind = helper.make_tensor_value_info("i", TensorProto.INT64, np.shape(indices))
        model.graph.input.append(kind)
    return model


@pytest.mark.parametrize("indices", [3, -1, [0, -5, 4], [[1], [-2]]])
def test_gather_of_fixed_places(indices):
    model = gather_model(indices)
    assert_equals_onnxruntime(model, image(2, 5, 4))
    # Negative ones are counted here and not in the network.
    assert "where" not in import_onnx(model)[0].script()


@pytest.mark.parametrize("indices", [5, [0, -6]])
def test_gather_of_places_that_are_not_there(indices):
    with pytest.raises(UnsupportedModelError, match="of 5 places. at .Gather_0.: correct the"):
        import_onnx(gather_model(indices))


@pytest.mark.parametrize("fixed", [True, False])
def test_compiling_a_gather_prints_nothing(fixed, capfd):
    execute = executor(import_onnx(gather_model([0, 4], fixed=fixed)), "llvm")
    data = image(2, 5, 4)
    (result,) = execute(data, *([] if fixed else [np.array([0, 4])]))
    np.testing.assert_array_equal(result, data[:, [0, 4]])
    assert capfd.readouterr() == ("", "")


def test_one_hot_of_constants_is_of_their_type():
    weights = [("depth", np.array(4)), ("values", np.array([2, 5], np.float32))]
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=0),
    ]
    model = make_model(nodes, [("x", (3,))], [("y", (4, 3))], weights)
    x = np.array([1, -1, 9], np.float32)
    (result,) = run_on_cpu(import_onnx(model)[0], x)
    assert result.dtype == np.float32
    assert_equals_onnxruntime(model, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 14])
def test_responses_of_any_number_of_channels(size, dtype):
    """onnxruntime has odd sizes alone; ONNX's words have a channel more behind where it is even."""
    x = np.random.default_rng(size).normal(size=(2, 6, 3, 4)).astype(dtype)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=1.5)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    values = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    exact = x.astype(np.float64)
    sums = np.zeros_like(exact)
    for channel in range(6):
        first, last = channel - (size - 1) // 2, channel + size // 2
        sums[:, channel] = (exact[:, max(0, first) : last + 1] ** 2).sum(axis=1)
    expected = exact / (1.5 + 0.5 / size * sums) ** 0.6
    (found,) = run_on_cpu(import_onnx(model)[0], x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)], ids=str)
@pytest.mark.parametrize(
    ("opset", "outputs"), [(9, "yklno"), (13, "yklno"), (14, "ykl"), (18, "ykl")]
)
def test_batch_normalization_by_its_own_statistics(opset, outputs, shape):
    """As layers have it that standardize their weights, which nobody folds where they are int8."""
    mode = {"training_mode": 1} if opset >= 14 else {}
    node = helper.make_node(
        "BatchNormalization", [*"xsbmv"], [*outputs], epsilon=1e-3, momentum=0.8, **mode
    )
    weights = [(name, image(3) + number) for number, name in enumerate("sbmv")]
    ends = [(name, None) for name in outputs[: 3 if opset >= 14 else 1]]
    model = make_model([node], [("x", shape)], ends, weights, opset=opset)
    assert_equals_onnxruntime(model, 3 * image(*shape))
