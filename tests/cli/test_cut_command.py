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
    assert "cut: 1 node cannot be imported: RandomUniformLike" in result.stdout
    assert "outputs of the package: a: float32[1, 4, 6, 6]" in result.stdout
    assert "left to the caller: 1 of 2 nodes (RandomUniformLike), y from a" in result.stdout
    assert f"wrote {rest}: run it with onnxruntime on the package's outputs" in result.stdout
    network = tvm_vision.load(package)
    network.set_input("x", IMAGE)
    network.run()
    found = onnxruntime.InferenceSession(rest).run(None, network.outputs())
    wanted = onnxruntime.InferenceSession(with_a_tail).run(None, {"x": IMAGE})
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_without_it_the_message_names_it(refuses, with_a_tail, tmp_path):
    message = refuses("compile", with_a_tail, "-o", tmp_path / "out.tar", "--target", "llvm")
    assert "end the model before it, as 'compile --cut' does" in message


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
    assert "an ONNX file to cut is needed" in other.stderr
