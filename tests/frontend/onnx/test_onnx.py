"""Importing ONNX: results against onnxruntime's, shapes, and one line for each refusal."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from support.onnx_models import OPSET, RNG_SEED, conv_model, make_model, relu_model, run_on_cpu
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.frontend.onnx.cut import cut_onnx
from tvm_vision.frontend.onnx.fold import folded
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.frontend.signature import Signature, TensorSpec


def test_conv_with_asymmetric_pads_and_clip_matches_onnxruntime():
    model = conv_model()
    module, signature = import_onnx(model)
    assert signature == Signature(
        (TensorSpec("x", (1, 3, 8, 8), "float32"),), (TensorSpec("y", (1, 4, 4, 4), "float32"),)
    )
    data = np.random.default_rng(RNG_SEED).standard_normal((1, 3, 8, 8)).astype(np.float32)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})[0]
    np.testing.assert_allclose(run_on_cpu(module, data)[0], expected, rtol=1e-5, atol=1e-5)


def test_import_from_a_file_and_the_model_stays_as_it_was(tmp_path):
    model = conv_model()
    before = model.SerializeToString()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    _, from_file = import_onnx(path)
    _, from_memory = import_onnx(model)
    assert from_file == from_memory
    assert model.SerializeToString() == before


def test_several_inputs_and_outputs_keep_their_order_and_names():
    nodes = [
        helper.make_node("Add", ["b.2", "a.1"], ["sum"]),
        helper.make_node("Sub", ["b.2", "a.1"], ["1difference"]),
    ]
    model = make_model(
        nodes, [("b.2", (2, 3)), ("a.1", (2, 3))], [("sum", (2, 3)), ("1difference", (2, 3))]
    )
    module, signature = import_onnx(model)
    assert [spec.name for spec in signature.inputs] == ["b.2", "a.1"]
    assert [spec.name for spec in signature.outputs] == ["sum", "1difference"]
    b, a = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
    total, difference = run_on_cpu(module, b, a)
    assert total.max() == 7
    assert difference.max() == 3


def test_weights_listed_among_the_inputs_are_not_inputs():
    model = conv_model()
    for tensor in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    _, signature = import_onnx(model)
    assert [spec.name for spec in signature.inputs] == ["x"]


def test_open_dimensions_take_the_given_shape():
    _, signature = import_onnx(conv_model(batch="N"), input_shapes={"x": (2, 3, 8, 8)})
    assert signature.inputs[0].shape == (2, 3, 8, 8)
    assert signature.outputs[0].shape == (2, 4, 4, 4)


@pytest.mark.parametrize("batch", ["N", "?", None, "unk__12"])
@pytest.mark.parametrize("sides", [(3, 8, 6), (8, 6, 3), (1, 8, 6), (8, 6, 1)])
def test_images_of_which_nothing_says_how_many_are_one(sides, batch):
    """As Keras' and most exporters' files have them, channels first or last."""
    _, signature = import_onnx(relu_model((batch, *sides)))
    assert signature.inputs[0].shape == (1, *sides)


def test_what_belongs_to_an_image_is_of_as_many():
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 4, 4]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, ["batch", 1, 1, 1]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])], "g", values[:2], values[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for given, batch in (({}, 1), ({"w": (2, 1, 1, 1)}, 2)):
        _, signature = import_onnx(model, input_shapes=given)
        assert [spec.shape[0] for spec in signature.inputs] == [batch, batch]


@pytest.mark.parametrize(
    ("model", "shapes", "error", "message"),
    [
        (
            relu_model(("N", 3)),
            None,
            UnsupportedModelError,
            r"fixed shapes .* input 'x' is \(N, 3\): pass input_shapes={'x': \(1, 3\)} or "
            "--input-shape x:1,3, in numbers",
        ),
        (
            relu_model(("N", 3, "height", "width")),
            None,
            UnsupportedModelError,
            "--input-shape x:1,3,height,width, in numbers",
        ),
        (relu_model(("N", 3)), {"x": (1, 4)}, InputError, r"\(N, 3\), and \(1, 4\) does not fit"),
        (relu_model(("N", 3)), {"x": (1, 3, 1)}, InputError, "does not fit"),
        (relu_model(("N", 3)), {"x": (0, 3)}, InputError, "does not fit"),
        (relu_model((1, 3)), {"z": (1, 3)}, InputError, "names 'z', and the model's inputs are: x"),
        (relu_model((1, 3), opset=999), None, UnsupportedModelError, "found opset 999: export"),
    ],
)
def test_shapes_and_opsets_that_do_not_fit(model, shapes, error, message):
    with pytest.raises(error, match=message) as caught:
        import_onnx(model, input_shapes=shapes)
    assert "\n" not in str(caught.value)


def test_a_model_of_an_older_operator_set_is_converted():
    node = helper.make_node("Add", ["x", "b"], ["y"], axis=0, broadcast=1)
    bias = np.arange(3, dtype=np.float32)
    model = make_model([node], [("x", (3, 2))], [("y", (3, 2))], [("b", bias)], opset=6)
    data = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(run_on_cpu(import_onnx(model)[0], data)[0], data + bias[:, None])


def test_what_cannot_be_converted_is_refused():
    node = helper.make_node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 1])
    model = make_model([node], [("x", (2, 2))], [("y", (3, 3))], opset=1)
    message = r"found opset 1, which cannot be converted \(No Adapter .* for Pad\): export the"
    with pytest.raises(UnsupportedModelError, match=message):
        import_onnx(model)


def test_an_output_that_is_listed_twice_is_one():
    model = relu_model((1, 3))
    model.graph.output.append(model.graph.output[0])
    module, signature = import_onnx(model)
    assert [output.name for output in signature.outputs] == ["y"]
    x = np.array([[-1, 0, 2]], np.float32)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})
    np.testing.assert_array_equal(run_on_cpu(module, x), expected)


def test_custom_operators_are_named():
    node = helper.make_node("Sparkle", ["x"], ["y"], domain="acme")
    model = make_model([node], [("x", (1,))], [("y", (1,))], domain="acme")
    with pytest.raises(UnsupportedModelError, match=r"acme\.Sparkle \(not a .*\) at 'Sparkle_0'"):
        import_onnx(model)


def test_functions_that_the_model_brings_along_are_inlined():
    node = helper.make_node("Twice", ["x"], ["y"], domain="acme")
    model = make_model([node], [("x", (3,))], [("y", (3,))], domain="acme")
    body = [helper.make_node("Add", ["value", "value"], ["double"])]
    opsets = [helper.make_opsetid("", OPSET)]
    model.functions.append(
        helper.make_function("acme", "Twice", ["value"], ["double"], body, opsets)
    )
    module, _ = import_onnx(model)
    data = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(run_on_cpu(module, data)[0], 2 * data)


def test_an_operator_that_tvm_lacks_is_named(capsys):
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], name="it")
    model = make_model([node], [("x", (2, 3))], [("y", (2, 3))])
    with pytest.raises(
        UnsupportedModelError, match=r"RandomNormalLike \(its numbers are drawn at random\) at 'it'"
    ) as caught:
        import_onnx(model)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_an_operator_that_tvm_has_only_in_part_is_named(capsys):
    weight = np.ones((1, 1, 1, 1, 1, 1), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    model = make_model(
        [node], [("x", (1, 1, 2, 2, 2, 2))], [("y", tuple("nchwde"))], [("w", weight)]
    )
    with pytest.raises(UnsupportedModelError, match="Conv .Ndim > 5 .* at 'Conv_0'"):
        import_onnx(model)
    assert capsys.readouterr().out == ""


def test_a_model_that_is_not_valid_is_refused():
    model = relu_model((1, 3))
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(UnsupportedModelError, match="the model is not valid ONNX: .*nowhere"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        (
            "Erfc",
            r"Erfc \(ONNX has no such operator, and the exporter .*\) at 'own': end the model",
        ),
        (
            "Gelu",
            r"Gelu \(ONNX has it from operator set 20 on, and .* 13\) at 'own': export .* 20,",
        ),
    ],
)
def test_operators_that_the_operator_set_has_not_are_named(operator, line):
    """As Keras's exporter writes what it cannot convert; what comes before them can be had."""
    weight = np.ones((2, 2, 1, 1), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node(operator, ["c"], ["d"], name="own"),
        helper.make_node("Relu", ["d"], ["y"], name="last"),
    ]
    shape = (1, 2, 3, 3)
    model = make_model(nodes, [("x", shape)], [("y", shape)], [("w", weight)])
    model.opset_import[0].version = 13
    with pytest.raises(UnsupportedModelError, match=line):
        import_onnx(model)
    made = cut_onnx(model)
    assert [spec.name for spec in made.imported[1].outputs] == ["c"]
    del model.graph.node[0]
    model.graph.node[0].input[0] = "x"
    with pytest.raises(UnsupportedModelError, match=r"express it by other operators$"):
        import_onnx(model)
    with pytest.raises(UnsupportedModelError, match=r"^((?!use onnxruntime).)*$"):
        import_onnx(model)


def test_a_sequence_input_is_refused():
    model = relu_model((1,))
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(UnsupportedModelError):
        import_onnx(model)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08\xff\xff"])
def test_a_damaged_file(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises((InputError, UnsupportedModelError)) as caught:
        import_onnx(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.onnx' is not there"):
        import_onnx(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("", (1,), "float32"), "expected a name"),
        (("x", (-1,), "float32"), "expected sizes of at least 0 for 'x', got -1"),
        (("x", (1.5,), "float32"), "got 1.5"),
        (("x", (1,), ""), "expected a dtype"),
    ],
)
def test_tensor_spec_checks_its_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        TensorSpec(*fields)


def test_tensor_spec_prints_as_one_would_say_it():
    assert str(TensorSpec("x", (1, 3), "float32")) == "x: float32[1, 3]"


def test_a_size_of_one_name_is_one_size_in_all_inputs():
    """Two inputs share their batch, and states have it as well: given for one, it is for all."""
    sizes = {"x": ["batch", 4], "state": [2, "batch", 4], "other": ["?", "rows"]}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in sizes.items()
    ]
    nodes = [
        helper.make_node("Add", ["x", "state"], ["a"]),
        helper.make_node("ReduceSum", ["other"], ["b"], keepdims=0),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "batch", 4])
    graph = helper.make_graph(nodes, "shared", inputs, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = {"x": (3, 4), "other": (5, 6)}
    _, signature = import_onnx(model, input_shapes=given)
    assert [spec.shape for spec in signature.inputs] == [(3, 4), (2, 3, 4), (5, 6)]
    with pytest.raises(UnsupportedModelError, match=r"input 'other' is \(\?, rows\)"):
        import_onnx(model, input_shapes={"x": (3, 4)})


@pytest.mark.parametrize("reduction", ["add", "max", "min"])
def test_reductions_of_a_later_opset_are_read(reduction):
    """As torch.scatter_reduce is exported for opset 17; places occur twice."""
    places = np.array([[0, 2, 0], [2, 2, 1]])
    node = helper.make_node("ScatterElements", ["x", "places", "y"], ["z"], reduction=reduction)
    model = make_model(
        [node], [("x", (3, 3)), ("y", (2, 3))], [("z", (3, 3))], [("places", places)], opset=17
    )
    rng = np.random.default_rng(RNG_SEED)
    x, y = (rng.standard_normal(shape, np.float32) for shape in ((3, 3), (2, 3)))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"x": x, "y": y})
    (found,) = run_on_cpu(import_onnx(model)[0], x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_sizes_of_what_became_a_constant_are_seen():
    """A weight padded by a computed number: its size is not known until it is folded, and those
    behind it follow then."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Concat", ["sizes", "sizes"], ["pads"], axis=0),
        helper.make_node("Pad", ["w", "pads"], ["wide"]),
        helper.make_node("MatMul", ["x", "part"], ["product"]),
        helper.make_node("Slice", ["wide", "start", "end"], ["part"]),
        helper.make_node("Shape", ["product"], ["of_product"]),
        helper.make_node("ConstantOfShape", ["of_product"], ["zeros"]),
        helper.make_node("Add", ["product", "zeros"], ["y"]),
    ]
    nodes[3], nodes[4] = nodes[4], nodes[3]
    weights = {
        "w": np.ones((2, 3), np.float32),
        "start": np.array([1]),
        "end": np.array([4]),
    }
    model = make_model(nodes, [("x", (2, 3))], [("y", (2, "n"))], list(weights.items()), opset=17)
    done = folded(model)
    assert [node.op_type for node in done.graph.node] == ["MatMul", "Add"]
    (result,) = [value for value in done.graph.value_info if value.name == "product"]
    assert [size.dim_value for size in result.type.tensor_type.shape.dim] == [2, 9]


def test_a_large_resize_of_a_constant_is_left_to_the_compiler():
    """Positions of a transformer for another size: ONNX's reference takes minutes for them."""
    places = np.random.default_rng(RNG_SEED).random((1, 64, 12, 12), np.float32)
    nodes = [
        helper.make_node("Resize", ["places", "", "", "sizes"], ["more"], mode="cubic"),
        helper.make_node("Add", ["x", "more"], ["y"]),
    ]
    weights = [("places", places), ("sizes", np.array([1, 64, 37, 41]))]
    shape = (1, 64, 37, 41)
    model = make_model(nodes, [("x", shape)], [("y", shape)], weights, opset=17)
    assert [node.op_type for node in folded(model).graph.node] == ["Resize", "Add"]
    x = np.zeros(shape, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    module, _ = import_onnx(model)
    (found,) = run_on_cpu(module, x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
