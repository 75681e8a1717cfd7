"""onnxruntime as the reference: where it is told to do less, to be right."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.errors import InputError
from tvm_vision.evaluate import Reference


def test_a_pad_of_zeros_before_a_max_pool_stays_zeros():
    pads = numpy_helper.from_array(np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64), "pads")
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("MaxPool", ["padded"], ["y"], kernel_shape=[2, 2], strides=[1, 1]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 1, 3, 3)) for name in "xy"]
    graph = helper.make_graph(nodes, "pad", values[:1], values[1:], [pads])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(model)
    found = Reference(model).run({"x": np.full((1, 1, 3, 3), -1, np.float32)})["y"][0, 0]
    np.testing.assert_array_equal(found, [[-1, -1, 0], [-1, -1, 0], [0, 0, 0]])


@pytest.mark.parametrize("as_file", [True, False])
def test_a_model_of_a_newer_format_than_onnxruntime_knows(as_file, tmp_path):
    """Where nothing in it needs that format."""
    node = helper.make_node("Relu", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in "xy")
    graph = helper.make_graph([node], "relu", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=99)
    (tmp_path / "new.onnx").write_bytes(model.SerializeToString())
    found = Reference(tmp_path / "new.onnx" if as_file else model)
    assert found.run({"x": np.array([-1, 2], np.float32)})["y"].tolist() == [0, 2]
    assert model.ir_version == 99


def test_inputs_of_another_model_are_told_by_their_shape():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ("n", 3, 4)) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    found = Reference(model)
    assert found.run({"x": np.ones((2, 3, 4), np.float32)})["y"].shape == (2, 3, 4)
    for shape in ((2, 3, 5), (3, 4), (2, 3, 4, 1)):
        with pytest.raises(InputError, match=r"x \['n', 3, 4\] is needed, found \[.*is this the"):
            found.run({"x": np.ones(shape, np.float32)})


@pytest.mark.parametrize(("cast", "computes"), [(False, True), (True, False)])
def test_a_model_that_computes_in_fp16(cast, computes):
    """Weights that are kept in fp16 and cast to float32 are no such model's."""
    kind = TensorProto.FLOAT if cast else TensorProto.FLOAT16
    nodes = [helper.make_node("Cast", ["half"], ["w"], to=TensorProto.FLOAT)] if cast else []
    nodes.append(helper.make_node("MatMul", ["x", "w" if cast else "half"], ["y"]))
    values = [helper.make_tensor_value_info(name, kind, (2, 2)) for name in "xy"]
    weights = [numpy_helper.from_array(np.eye(2, dtype=np.float16), "half")]
    graph = helper.make_graph(nodes, "half", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    assert Reference(model).fp16 is computes


HALF = TensorProto.FLOAT16
# name: the type of x, nodes from x to y, and whether they compute in fp16.
WITHOUT_WEIGHTS = {
    "inputs": (HALF, [helper.make_node("MatMul", ["x", "x"], ["y"])], True),
    "inputs that are cast": (
        HALF,
        [
            helper.make_node("Transpose", ["x"], ["t"]),
            helper.make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Softmax", ["f"], ["y"]),
        ],
        False,
    ),
    "what is cast": (
        TensorProto.FLOAT,
        [
            helper.make_node("Cast", ["x"], ["h"], to=HALF),
            helper.make_node("Softmax", ["h"], ["y"]),
        ],
        True,
    ),
    "what is rounded": (
        TensorProto.FLOAT,
        [
            helper.make_node("Cast", ["x"], ["h"], to=HALF),
            helper.make_node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Softmax", ["f"], ["y"]),
        ],
        False,
    ),
    "a constant": (
        HALF,
        [
            helper.make_node(
                "Constant", [], ["c"], value=numpy_helper.from_array(np.ones(2, np.float16))
            ),
            helper.make_node("Concat", ["c", "c"], ["d"], axis=0),
            helper.make_node("Softmax", ["d"], ["s"]),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ],
        True,
    ),
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_numbers_of_fp16_that_are_no_weights(name):
    """Their sums are rounded to fp16 as those of weights are, unless they are only moved."""
    kind, nodes, computes = WITHOUT_WEIGHTS[name]
    x = helper.make_tensor_value_info("x", kind, (2, 2))
    y = onnx.ValueInfoProto(name="y")
    shape = [numpy_helper.from_array(np.array([4]), "shape")]
    graph = helper.make_graph(nodes, "half", [x], [y], shape)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    assert Reference(model).fp16 is computes


def test_inputs_that_it_does_not_take_are_one_line(capfd):
    """A word that is in no vocabulary; onnxruntime's own log is silent."""
    nodes = [helper.make_node("Gather", ["words", "x"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.INT64, (2,))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
    words = numpy_helper.from_array(np.zeros((5, 3), np.float32), "words")
    graph = helper.make_graph(nodes, "embedding", [x], [y], [words])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    with pytest.raises(InputError, match="out of data bounds.*: give inputs that it takes, by"):
        Reference(model).run({"x": np.array([0, 108])})
    assert capfd.readouterr() == ("", "")


def test_updates_of_one_place_are_all_added_up():
    """Several threads of onnxruntime lose some, in one run of five or so on two cores."""
    random = np.random.default_rng(1)
    places, updates = random.integers(0, 64, (40_000, 1)), random.random((40_000, 64), np.float32)
    node = helper.make_node("ScatterND", ["x", "places", "updates"], ["y"], reduction="add")
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64]),
    ]
    constants = [
        numpy_helper.from_array(places, "places"), numpy_helper.from_array(updates, "updates"),
    ]  # fmt: skip
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    wanted = np.zeros((64, 64))
    np.add.at(wanted, places[:, 0], updates.astype(np.float64))
    for _ in range(3):
        found = Reference(model).run({"x": np.zeros((64, 64), np.float32)})["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
