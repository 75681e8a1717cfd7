"""compile --cut of a TFLite file: what has a conversion, and words about the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tflite_models import Graph
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.tflite.cut import cut_tflite, tflite_head
from tvm_vision.frontend.tflite.load import tflite_to_onnx

SHAPE = (1, 4, 4, 3)


def file(path, *, tail="FlexErf", between="mid", quantized=False):
    """x -> mid = x + x -> end by an operator that is not there; also: mid + 1."""
    graph = Graph()
    steps: dict[str, Any] = {"scale": 0.1, "zero_point": 3} if quantized else {}
    kind = "int8" if quantized else "float32"
    x, mid, end, also = (
        graph.tensor(SHAPE, kind, name=name, **steps) for name in ("x", between, "end", "also")
    )
    graph.operator("ADD", [x, x], [mid], FusedActivationFunction=0)
    graph.operator(tail, [mid], [end], custom=b"")
    graph.operator("NEG" if not quantized else "RELU", [mid], [also])
    return graph.write(path, [x], [end, also])


@pytest.mark.parametrize("quantized", [False, True])
def test_the_head_has_what_the_rest_reads(tmp_path, quantized):
    path = file(tmp_path / "tail.tflite", quantized=quantized)
    head = tflite_head(path)
    assert head.behind == ("FlexErf",)
    assert (head.lost, head.reads) == (("end",), ("mid",))
    x = np.linspace(-2, 2, 48, dtype=np.float32).reshape(SHAPE)
    found = Reference(head.form.model).run({"x": x})
    assert list(found) == ["also", "mid"]
    np.testing.assert_allclose(found["mid"], 2 * x, atol=0.21 if quantized else 1e-6)
    _, signature = cut_tflite(path).imported
    assert signature.cut == ("end",)
    assert (signature.outputs[1].quantization is not None) == quantized


def test_a_whole_file_is_not_cut(tmp_path):
    graph = Graph()
    x, y = graph.tensor(SHAPE, name="x"), graph.tensor(SHAPE, name="y")
    graph.operator("NEG", [x], [y])
    path = graph.write(tmp_path / "whole.tflite", [x], [y])
    parts = cut_tflite(path)
    assert (parts.left, parts.reasons, parts.imported[1].cut) == ((), (), ())
    assert [v.name for v in tflite_to_onnx(path).model.graph.output] == ["y"]


def test_the_command_says_what_is_left_and_check_compares_it(command, refuses, tmp_path):
    model, package = file(tmp_path / "tail.tflite"), tmp_path / "head.tar"
    assert "FlexErf" in refuses("compile", model, "-o", package, "--target", "llvm")
    arguments = ["compile", model, "-o", package, "--target", "llvm", "--cut"]
    result = command(*arguments, "--check")
    assert result.exit_code == 0, result.output
    assert "cut: 1 node cannot be imported: FlexErf (an operator of TensorFlow)" in result.stdout
    assert "outputs of the package: also: float32[1, 4, 4, 3], mid: float32[" in result.stdout
    assert "(FlexErf), end from mid" in result.stdout
    other = file(tmp_path / "other.tflite", between="elsewhere")
    assert "cut from a model that has 'mid', and" in refuses("check", package, other)
    message = refuses(*arguments, "--rest", tmp_path / "rest.onnx")
    assert "an ONNX file is needed for --rest" in message
