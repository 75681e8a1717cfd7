"""RFFT2D and what is made of its complex numbers, as LiteRT computes them."""

import numpy as np
import pytest

from support.tflite_models import Graph
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx

RNG = np.random.default_rng(5)
needs_litert = pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")


def transformed(shape, lengths):
    """A graph with a transform, its input, and its result's number and shape."""
    graph = Graph()
    x = graph.tensor(shape)
    sizes = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    spectrum = graph.tensor(sizes, "complex64")
    graph.operator("RFFT2D", [x, graph.tensor(data=np.array(lengths, np.int32))], [spectrum])
    return graph, x, spectrum, sizes


def compare(graph, x, y, path, shape):
    graph.write(path, [x], [y])
    feed = {f"t{x}": RNG.standard_normal(shape).astype(np.float32)}
    (wanted,), (found,) = (
        engine(path).run(feed).values() for engine in (LiteRtReference, Reference)
    )
    assert wanted.dtype == found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=2e-5)


@needs_litert
@pytest.mark.parametrize("taken", ["REAL", "IMAG", "COMPLEX_ABS", "CAST"])
@pytest.mark.parametrize(
    ("shape", "lengths"),
    [((2, 1, 16), (1, 16)), ((3, 4, 8), (4, 8)), ((1, 2, 4, 8), (8, 16)), ((5, 9), (4, 4))],
    ids=str,
)
def test_a_transform(shape, lengths, taken, tmp_path):
    graph, x, spectrum, sizes = transformed(shape, lengths)
    y = graph.tensor(sizes)
    graph.operator(taken, [spectrum], [y])
    compare(graph, x, y, tmp_path / "rfft.tflite", shape)


@needs_litert
def test_complex_numbers_are_moved(tmp_path):
    """As audio networks do: a row of a transform, without the axis of one."""
    shape = (3, 1, 8)
    graph, x, spectrum, _ = transformed(shape, (1, 8))
    flat = graph.tensor((3, 5), "complex64")
    graph.operator("SQUEEZE", [spectrum], [flat], SqueezeDims=[1])
    y = graph.tensor((3, 5))
    graph.operator("COMPLEX_ABS", [flat], [y])
    compare(graph, x, y, tmp_path / "moved.tflite", shape)


@pytest.mark.parametrize("squared", [False, True], ids=["an output", "an operand"])
def test_what_is_refused(squared, tmp_path):
    graph, x, spectrum, sizes = transformed((1, 4), (1, 4))
    y = spectrum
    if squared:
        y = graph.tensor(sizes, "complex64")
        graph.operator("MUL", [spectrum, spectrum], [y])
    path = graph.write(tmp_path / "refused.tflite", [x], [y])
    with pytest.raises(UnsupportedModelError, match="complex.*: take REAL, IMAG or COMPLEX_ABS"):
        tflite_to_onnx(path)
