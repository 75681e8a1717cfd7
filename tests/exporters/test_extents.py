"""Boxes of files that say nothing of themselves: pixels, or parts of the image's sides."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

from support import onnx_models
from support.tflite_models import Graph
from tvm_vision.exporters.describe import Wishes, describe
from tvm_vision.exporters.extents import ARITHMETIC, OWN, extents
from tvm_vision.frontend.signature import TensorSpec

SIDE, STRIDES, CELLS, VALUES = 32, (8, 16, 32), 21, 7
LARGEST = 28.0  # the middle of the last cell of the finest grid


def grid(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each cell [cells, 4]: what is added to a box, and what its sum is multiplied by."""
    places, steps = [], []
    for stride in STRIDES:
        count = SIDE // stride
        rows, columns = np.divmod(np.arange(count * count), count)
        places.append(np.stack((columns, rows, np.zeros_like(rows), np.zeros_like(rows)), 1))
        steps.append(np.full((count * count, 4), stride * scale))
    added = np.concatenate(places).astype(np.float32)
    added[:, :2] += 0.5
    return added, np.concatenate(steps).astype(np.float32)


def write_onnx(path, scale):
    """[1, 4 + classes, cells], by a convolution for each stride."""
    added, times = (values.T[None] for values in grid(scale))
    constants = {
        "added": added, "times": times, "parts": np.array([4, VALUES - 4]),
        **{f"w{s}": np.full((VALUES, 3, s, s), 0.01, np.float32) for s in STRIDES},
        **{f"shape{s}": np.array([1, VALUES, (SIDE // s) ** 2]) for s in STRIDES},
    }  # fmt: skip
    nodes = []
    for s in STRIDES:
        nodes.append(helper.make_node("Conv", ["images", f"w{s}"], [f"c{s}"], strides=[s, s]))
        nodes.append(helper.make_node("Reshape", [f"c{s}", f"shape{s}"], [f"r{s}"]))
    nodes += [
        helper.make_node("Concat", [f"r{s}" for s in STRIDES], ["all"], axis=2),
        helper.make_node("Split", ["all", "parts"], ["box", "class"], axis=1),
        helper.make_node("Add", ["box", "added"], ["placed"]),
        helper.make_node("Mul", ["placed", "times"], ["pixels"]),
        helper.make_node("Sigmoid", ["class"], ["scores"]),
        helper.make_node("Concat", ["pixels", "scores"], ["y"], axis=1),
    ]
    model = onnx_models.make_model(
        nodes, [("images", (1, 3, SIDE, SIDE))], [("y", (1, VALUES, CELLS))]
    )
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    onnx.save(model, path)
    return (1, 3, SIDE, SIDE), (1, VALUES, CELLS)


def write_tflite(path, scale):
    """[1, cells, 5 + classes], channels last."""
    graph = Graph()
    image = graph.tensor((1, SIDE, SIDE, 3), name="images")
    rows = []
    for s in STRIDES:
        weights = graph.tensor(data=np.full((VALUES, s, s, 3), 0.01, np.float32))
        bias = graph.tensor(data=np.zeros(VALUES, np.float32))
        count = SIDE // s
        found, row = graph.tensor((1, count, count, VALUES)), graph.tensor((1, count**2, VALUES))
        graph.operator("CONV_2D", [image, weights, bias], [found], Padding=1, StrideH=s, StrideW=s)
        shape = graph.tensor(data=np.array([1, count**2, VALUES], np.int32))
        graph.operator("RESHAPE", [found, shape], [row])
        rows.append(row)
    added, times = grid(scale)
    whole = np.zeros((1, CELLS, VALUES), np.float32)
    whole[..., :4] = added
    ones = np.ones((1, CELLS, VALUES), np.float32)
    ones[..., :4] = times
    every, placed = graph.tensor((1, CELLS, VALUES)), graph.tensor((1, CELLS, VALUES))
    result = graph.tensor((1, CELLS, VALUES), name="y")
    graph.operator("CONCATENATION", rows, [every], Axis=1)
    graph.operator("ADD", [every, graph.tensor(data=whole)], [placed])
    graph.operator("MUL", [placed, graph.tensor(data=ones)], [result])
    graph.write(path, [image], [result])
    return (1, SIDE, SIDE, 3), (1, CELLS, VALUES)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("write", [write_onnx, write_tflite])
def test_the_last_cell_tells(tmp_path, write, parts):
    path = tmp_path / ("net.onnx" if write is write_onnx else "net.tflite")
    taken, given = write(path, 1 / SIDE if parts else 1.0)
    inputs = [TensorSpec("images", taken, "float32")]
    found = extents(path, inputs)
    assert found("y") == pytest.approx(LARGEST / SIDE if parts else LARGEST)
    assert found("nothing of this name") is None
    info, _ = describe(path, inputs, [TensorSpec("y", given, "float32")], Wishes())
    assert info.kind == "yolo" and info.detection.relative is parts


def test_what_cannot_be_told(tmp_path):
    """Where the image is in the result itself, or the file is none."""
    model = onnx_models.make_model(
        [helper.make_node("Relu", ["images"], ["y"])],
        [("images", (1, 3, 8, 8))], [("y", (1, 3, 8, 8))],
    )  # fmt: skip
    onnx.save(model, tmp_path / "net.onnx")
    inputs = [TensorSpec("images", (1, 3, 8, 8), "float32")]
    assert extents(tmp_path / "net.onnx", inputs)("y") is None
    (tmp_path / "none.onnx").write_bytes(b"none")
    assert extents(tmp_path / "none.onnx", inputs)("y") is None


def test_what_is_resized_is_not_walked_through(tmp_path):
    """As an embedding of places is for images of another size: the reference takes minutes."""
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], strides=[8, 8]),
        helper.make_node("Resize", ["places", "", "", "sizes"], ["r"], mode="cubic"),
        helper.make_node("Add", ["c", "r"], ["y"]),
    ]
    model = onnx_models.make_model(nodes, [("images", (1, 3, 512, 512))], [("y", (1, 384, 64, 64))])
    constants = {
        "w": np.zeros((384, 3, 8, 8), np.float32), "places": np.ones((1, 384, 37, 37), np.float32),
        "sizes": np.array([1, 384, 64, 64]),
    }  # fmt: skip
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    onnx.save(model, tmp_path / "net.onnx")
    inputs = [TensorSpec("images", (1, 3, 512, 512), "float32")]
    assert extents(tmp_path / "net.onnx", inputs)("y") is None


def test_nothing_is_computed_number_by_number():
    """A detector at 640x640 has 700,000 scores."""
    own = {operator.__name__ for operator in OWN}
    version = onnx.defs.onnx_opset_version()
    for name in sorted(ARITHMETIC - own):
        operator = load_op("", name, version, evaluator_cls=ReferenceEvaluator)
        assert "vectorize" not in inspect.getsource(operator), name


def test_own_sigmoid():
    (node,) = [helper.make_node("Sigmoid", ["x"], ["y"])]
    model = onnx_models.make_model([node], [("x", (5,))], [("y", (5,))])
    x = np.array([-1e4, -2.5, 0, 3, 1e4], np.float32)
    found, wanted = (ReferenceEvaluator(model, new_ops=own).run(None, {"x": x})[0]
                     for own in (OWN, []))  # fmt: skip
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
