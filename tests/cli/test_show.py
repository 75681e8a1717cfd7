"""show: a model's nodes, a package's kernels, and what a layer computes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import cv2
import numpy as np
import onnx
import pytest

from support import networks, reports
from support.onnx_models import conv_model
from tvm_vision.api import compile as compile_network
from tvm_vision.report.model_graph import model_drawing, read_model
from tvm_vision.runtime.loader import open_package


def boxes(text):
    """The texts of each box of a page, by its key; ends by their first line."""
    found = {}
    for key, box in enumerate(text.split('<g class="box ')[1:]):
        words = box.split("</g>")[0]
        lines = [part.split("<")[0] for part in words.split("<text")[1:]]
        name = words.split('data-k="')[1].split('"')[0] if 'data-k="' in words else f"end {key}"
        found[name] = [line.partition(">")[2] for line in lines]
    return found


def test_a_package(command, tiny_package, model, tmp_path):
    path = tmp_path / "net.html"
    assert command("show", tiny_package, "--model", model, "-o", path).stdout == f"wrote {path}\n"
    text = path.read_text()
    found = boxes(text)
    assert found["0"] == ["#0 matmul_add", "MatMul MatMul_0", "Add Add_1", "float32 3"]
    assert found["1"] == ["#1 relu", "Relu Relu_2", "float32 3"]
    page = reports.Page(text)
    assert len(page.document("graph")["kernels"]) == 2 and page.open_at_end == []
    command("show", tiny_package, "-o", path)
    assert boxes(path.read_text())["0"][1:3] == ["MatMul_0", "Add_1"]


def test_a_model(command, model, tmp_path):
    path = tmp_path / "net.html"
    assert command("show", model, "-o", path).exit_code == 0
    found = boxes(path.read_text())
    assert [found[str(i)][0] for i in range(4)] == ["MatMul", "Add", "Relu", "Reshape"]
    assert len(reports.Page(path.read_text()).document("model")["nodes"]) == 4


def test_a_package_and_the_model_of_another(refuses, tiny_package, tmp_path):
    onnx.save(conv_model(), tmp_path / "other.onnx")
    words = refuses("show", tiny_package, "--model", tmp_path / "other.onnx")
    assert "no node of" in words and "leave --model out" in words


def with_other_names() -> onnx.ModelProto:
    """A function of its own, a node of onnxruntime's and one that TVM has no words for."""
    make = onnx.helper.make_node
    opset = onnx.helper.make_opsetid
    pads = {"pads": [1, 1, 1, 1]}
    block = onnx.helper.make_function(
        "local", "Block", ["a", "w"], ["b"],
        [make("Conv", ["a", "w"], ["c"], "inner_conv", **pads), make("Relu", ["c"], ["b"], "end")],
        [opset("", 18)],
    )  # fmt: skip
    nodes = [
        make("Block", ["x", "w"], ["s"], "first", domain="local"),
        make("FusedConv", ["s", "v"], ["t"], "second", domain="com.microsoft", **pads),
        make("Celu", ["t"], ["y"], "third"),
    ]
    value = onnx.helper.make_tensor_value_info
    draw = np.random.default_rng(3).standard_normal
    weights = [
        onnx.numpy_helper.from_array(draw(shape).astype("float32"), name)
        for name, shape in (("w", (4, 3, 3, 3)), ("v", (4, 4, 3, 3)))
    ]
    ends = ([value(name, 1, [1, n, 8, 8])] for name, n in (("x", 3), ("y", 4)))
    graph = onnx.helper.make_graph(nodes, "g", *ends, weights)
    opsets = [opset("", 18), opset("local", 1), opset("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, functions=[block], ir_version=8)


def test_nodes_that_others_stand_in_for(command, tmp_path):
    """Whatever the compiler puts in a node's place has its name, so that each is known."""
    model, package = tmp_path / "net.onnx", tmp_path / "net.tar"
    onnx.save(with_other_names(), model)
    compile_network(model, package, target="llvm", opt_level=1)
    with open_package(package) as opened:
        nodes = {node for kernel in opened.info.graph.kernels for node in kernel.nodes}
    named = {"inner_conv__1": "Conv", "end__1": "Relu", "second": "Conv", "third": "Celu"}
    path = tmp_path / "net.html"
    result = command("show", package, "--model", model, "-o", path)
    assert result.exit_code == 0, result.output
    lines = {line for box in boxes(path.read_text()).values() for line in box}
    for node in nodes:
        origin = node.partition("/")[0]
        assert origin in named and f"{named[origin]} {node}" in lines
    # Their values, too, are found in the model.
    options = ["--model", model, "--layer", "second", "-o", tmp_path / "maps"]
    result = command("show", package, *options)
    assert result.exit_code == 0, result.output
    assert "second (t): 1×4×8×8" in result.stdout


def test_a_drawing_alone(command, tiny_package, tmp_path):
    path = tmp_path / "net.svg"
    assert command("show", tiny_package, "-o", path).exit_code == 0
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--h4" in "".join(root.itertext())


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_each_node_of_a_network_is_drawn(name, tmp_path):
    import onnx

    path = tmp_path / "net.onnx"
    onnx.save(networks.NETWORKS[name](), path)
    proto = read_model(path)
    drawing = model_drawing(proto)
    ends = len(proto.graph.input) + len(proto.graph.output)
    assert len(drawing.boxes) == len(proto.graph.node) + ends
    assert not any("?" in box.lines for box in drawing.boxes)
    read = {edge.source for edge in drawing.edges} | {edge.target for edge in drawing.edges}
    assert read == set(range(len(drawing.boxes)))


def test_what_follows_from_weights_alone_is_not_drawn():
    from onnx import TensorProto, helper, numpy_helper

    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", ["w"], ["w16"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["w16"], ["w32"], to=TensorProto.FLOAT),
        helper.make_node("Constant", [], ["c"], value_float=2.0),
        helper.make_node("Mul", ["x", "w32"], ["m"]),
        helper.make_node("RandomNormal", [], ["r"], shape=[2]),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.ones(2, "float32"), "w")]
    ends = ([value(name, TensorProto.FLOAT, (2,))] for name in "xy")
    drawing = model_drawing(helper.make_model(helper.make_graph(nodes, "g", *ends, weights)))
    assert [box.title for box in drawing.boxes] == ["x", "Mul", "RandomNormal", "Add", "y"]


def test_a_layer(command, tiny_package, model, tmp_path):
    options = ["--model", model, "--layer", "Relu_2", "-o", tmp_path / "maps"]
    result = command("show", tiny_package, *options)
    assert result.exit_code == 0, result.output
    assert "Relu_2 (positive): 3, values from" in result.stdout.splitlines()[-1]
    for name in ("ours", "reference", "difference"):
        assert cv2.imread(str(tmp_path / "maps" / f"Relu_2-{name}.png")) is not None


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("MatMul_0", "'MatMul_0' is fused with those around it: ask for Add_1, or compile with"),
        ("Relu_3", "'Relu_3' is none; there are 2, such as Relu_2, Add_1:"),
    ],
)
def test_a_layer_that_is_none(refuses, tiny_package, model, layer, message):
    assert message in refuses("show", tiny_package, "--model", model, "--layer", layer)


@pytest.mark.parametrize(
    "options",
    [
        ["--layer", "Relu_2"],
        ["--layer", "Relu_2", "--model", "m.onnx", "-o", "maps.html"],
        ["--image", "x.png"],
        ["-o", "net.png"],
        ["-o", "net"],
    ],
)
def test_usage(command, tiny_package, options):
    assert command("show", tiny_package, *options).exit_code == 2
