"""What ``check`` says of outputs that are far from the reference's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from support.onnx_models import make_model
from tvm_vision.evaluate import OutputError, Reference
from tvm_vision.tools.check import error_lines


def nothing_found() -> onnx.ModelProto:
    """A detector of pixels that finds nothing: all of its scores are some 1e-7, of which
    onnxruntime's sigmoid knows a digit."""
    random = np.random.default_rng(3)
    weights = [
        ("w", random.standard_normal((1, 8, 3, 3), np.float32) / 8),
        ("scale", np.array([0.11], np.float32)),
        ("bias", np.array([-16.0], np.float32)),
        ("mean", np.array([0.2], np.float32)),
        ("variance", np.array([0.9], np.float32)),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", *(name for name, _ in weights[1:])], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["y"]),
    ]
    return make_model(nodes, [("x", (1, 8, 64, 64))], [("y", (1, 1, 64, 64))], weights)


def test_what_onnxruntime_does_not_know_itself_is_no_error(command, tmp_path) -> None:
    onnx.save(nothing_found(), tmp_path / "n.onnx")
    package = tmp_path / "n.tar"
    said = command("compile", tmp_path / "n.onnx", "-o", package, "--target", "llvm", "--check")
    assert said.exit_code == 0, said.output
    assert "y: onnxruntime differs from itself by" in said.output


def test_what_onnxruntime_rounds_to_float16_on_the_way_is_known() -> None:
    """A small number beside a large one, of which float16 keeps no digit, and float32 all. Between
    its casts it rounds nothing, but before what it has for float16, as a Reshape and a Slice."""
    weights = [
        ("large", np.array([900], np.float16)), ("small", np.array([0.2], np.float16)),
        ("shape", np.array([64], np.int64)),
        ("first", np.array([1], np.int64)), ("end", np.array([50], np.int64)),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "large"], ["a"]),
        helper.make_node("Add", ["a", "small"], ["b"]),
        helper.make_node("Reshape", ["a", "shape"], ["ar"]),
        helper.make_node("Reshape", ["b", "shape"], ["br"]),
        helper.make_node("Slice", ["ar", "first", "end"], ["as"]),
        helper.make_node("Slice", ["br", "first", "end"], ["bs"]),
        helper.make_node("Sub", ["bs", "as"], ["y"]),
    ]
    model = make_model(nodes, [("x", (1, 64))], [("y", (49,))], weights)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    x = {"x": np.linspace(0.5, 1, 64, dtype=np.float16)[np.newaxis]}
    exact = Reference(model, in_float32=True).run(x)["y"]
    rounded = Reference(model, optimized=False).run(x)["y"]
    np.testing.assert_allclose(exact, 0.2, atol=1e-3)
    assert np.max(np.abs(rounded - exact)) > 0.1


@pytest.mark.parametrize(
    ("own", "word"),
    [({}, "WRONG"), ({"y": 0.1}, "WRONG"), ({"x": 0.9}, "WRONG"), ({"y": 0.3}, "ok")],
)
def test_an_error_counts_where_it_is_larger_than_the_references_own(own, word) -> None:
    error = OutputError("y", (4,), "float32", 1.0, 0.25, 0.5, 0.0, None)
    lines = error_lines([error], 1e-3, own)
    assert lines[1].split()[-1] == word
    assert len(lines) == (3 if word == "ok" else 2)
