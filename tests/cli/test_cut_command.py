"""compile --cut: a package of the first part, a file of the rest, and words about both."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

IMAGE = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def with_a_tail(tmp_path_factory):
    """A convolution, and random numbers, of which TVM has none: ones, whatever the seed."""
    weight = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    constants = {"w": weight}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("RandomUniformLike", ["a"], ["y"], low=1.0, high=1.0),
    ]
    graph = helper.make_graph(
        nodes,
        "tail",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 6, 6))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path_factory.mktemp("cut") / "tail.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_the_package_and_the_rest_together_are_the_model(command, with_a_tail, tmp_path):
    import tvm_vision

    package, rest = tmp_path / "head.tar", tmp_path / "rest.onnx"
    arguments = ["--target", "llvm", "--cut", "--rest", rest, "--check"]
    result = command("compile", with_a_tail, "-o", package, *arguments)
    assert result.exit_code == 0, result.output
    # Without what to do about it: that was done.
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("cut: ")]
    assert line.startswith("cut: 1 node cannot be imported: RandomUniformLike")
    assert "end the model before it" not in line
    assert "outputs of the package: a: float32[1, 4, 6, 6]" in result.stdout
    assert "left to the caller: 1 of 2 nodes (RandomUniformLike), y from a" in result.stdout
    assert f"wrote {rest}: run it with onnxruntime on the package's outputs" in result.stdout
    network = tvm_vision.load(package)
    network.set_input("x", IMAGE)
    network.run()
    found = onnxruntime.InferenceSession(rest).run(None, network.outputs())
    wanted = onnxruntime.InferenceSession(with_a_tail).run(None, {"x": IMAGE})
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def head(with_a_tail, tmp_path_factory):
    import tvm_vision
    from tvm_vision.frontend.onnx.cut import cut_onnx

    package = tmp_path_factory.mktemp("head") / "head.tar"
    return tvm_vision.compile(cut_onnx(with_a_tail).imported, package, target="llvm")


def test_the_package_says_what_was_cut(command, head, with_a_tail):
    from tvm_vision.package import read_package

    with read_package(head) as package:
        assert package.info.model.cut == ("y",)
        assert [tensor.name for tensor in package.info.outputs] == ["a"]
    result = command("check", head, with_a_tail)
    assert result.exit_code == 0, result.output
    assert "ok" in result.stdout


@pytest.mark.parametrize(("old", "new"), [("y", "other"), ("a", "between")])
def test_another_model_than_the_one_that_was_cut(refuses, head, with_a_tail, tmp_path, old, new):
    model = onnx.load(with_a_tail)
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    model.graph.output[0].name = new if old == "y" else "y"
    onnx.save(model, tmp_path / "other.onnx")
    message = refuses("check", head, tmp_path / "other.onnx")
    assert f"cut from a model that has '{old}', and " in message


def test_one_output_of_a_model_that_has_two(refuses, command, with_a_tail, tmp_path):
    model = onnx.load(with_a_tail)
    del model.graph.node[1:]
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("a", TensorProto.FLOAT, (1, 4, 6, 6))
    )
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    onnx.save(model, one)
    model.graph.node.append(helper.make_node("Relu", ["a"], ["b"]))
    model.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, (1, 4, 6, 6)))
    onnx.save(model, two)
    package = tmp_path / "one.tar"
    assert command("compile", one, "-o", package, "--target", "llvm").exit_code == 0
    assert command("check", package, one).exit_code == 0
    message = refuses("check", package, two)
    assert "the same outputs are needed of both, found a and a, b: is this the model" in message


def test_without_it_the_message_names_it(refuses, with_a_tail, tmp_path):
    message = refuses("compile", with_a_tail, "-o", tmp_path / "out.tar", "--target", "llvm")
    assert "or end the model before it, as 'compile --cut' does" in message


def test_a_model_that_needs_no_cut_is_whole(command, model, tmp_path):
    rest = tmp_path / "rest.onnx"
    arguments = ["--target", "llvm", "--cut", "--rest", rest]
    result = command("compile", model, "-o", tmp_path / "out.tar", *arguments)
    assert "nothing had to be cut: the whole network is in the package" in result.stdout
    assert not rest.exists()


def test_wrong_uses(command, with_a_tail, tmp_path):
    alone = command("compile", with_a_tail, "-o", tmp_path / "o.tar", "--rest", tmp_path / "r.onnx")
    assert alone.exit_code == 2
    assert "--rest writes what --cut leaves: give --cut as well" in alone.stderr
    saved = tmp_path / "net.pt2"
    saved.write_bytes(b"PK\x03\x04")
    other = command("compile", saved, "-o", tmp_path / "o.tar", "--target", "llvm", "--cut")
    assert other.exit_code == 1
    assert "an ONNX or TFLite file to cut is needed" in other.stderr
