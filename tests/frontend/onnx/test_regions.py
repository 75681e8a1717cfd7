"""RoiAlign and MaxRoiPool of any boxes, against onnxruntime, on a processor and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from support.conformance.conformance_worker import executor
from tvm_vision.frontend.onnx.load import import_onnx

COUNT, SIZE = 12, (9, 7)
Arrays = dict[str, np.ndarray]


def boxes_of(random: np.random.Generator, scale: float) -> np.ndarray:
    """In the image, around it, beside it, without a size and with corners that are exchanged."""
    corners = random.uniform(-0.3, 1.3, (COUNT, 2, 2)) * np.array(SIZE)[::-1] / scale
    corners[1:] = np.sort(corners[1:], axis=1)
    corners[2] = corners[2, :1]
    corners[3] += 100 / scale
    corners[4] = [[-5 / scale] * 2, [40 / scale] * 2]
    corners[5] = np.round(corners[5])
    return corners.reshape(COUNT, 4).astype(np.float32)


def model_of(operator: str, data: np.ndarray, opset: int, **attributes: Any) -> onnx.ModelProto:
    rows = [("boxes", TensorProto.FLOAT, [COUNT, 4]), ("images", TensorProto.INT64, [COUNT])]
    if operator == "MaxRoiPool":
        rows = [("rois", TensorProto.FLOAT, [COUNT, 5])]
    ends = [("x", TensorProto.FLOAT, list(data.shape)), *rows]
    inputs = [helper.make_tensor_value_info(*end) for end in ends]
    node = helper.make_node(operator, [end[0] for end in ends], ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "regions", inputs, [output])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def feed_of(operator: str, channels: int, scale: float) -> Arrays:
    random = np.random.default_rng(channels)
    boxes = boxes_of(random, scale)
    images = random.integers(0, 2, COUNT)
    data = random.standard_normal((2, channels, *SIZE)).astype(np.float32)
    if operator == "MaxRoiPool":
        return {"x": data, "rois": np.column_stack([images.astype(np.float32), boxes])}
    return {"x": data, "boxes": boxes, "images": images}


def compare(model: onnx.ModelProto, feed: Arrays, target: str, **options: Any) -> None:
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    (expected,) = session.run(None, feed)
    (found,) = executor(import_onnx(model), target, **options)(*feed.values())
    np.testing.assert_allclose(found, expected, atol=4e-3 if options else 2e-5)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize(
    ("channels", "opset", "attributes"),
    [
        (3, 10, {"sampling_ratio": 2, "spatial_scale": 0.25}),
        (8, 16, {"sampling_ratio": 2, "spatial_scale": 0.25}),
        (8, 16, {"sampling_ratio": 0, "spatial_scale": 0.25}),
        (11, 16, {"sampling_ratio": 3, "coordinate_transformation_mode": "output_half_pixel"}),
        (11, 10, {"spatial_scale": 2.0}),
        (9, 16, {"mode": "max", "sampling_ratio": 2}),
        (1, 16, {"mode": "max", "spatial_scale": 0.5}),
    ],
)
def test_boxes_are_aligned(target: str, channels: int, opset: int, attributes: Any) -> None:
    model = model_of("RoiAlign", np.zeros((2, channels, *SIZE)), opset, output_height=3,
                     output_width=2, **attributes)  # fmt: skip
    compare(model, feed_of("RoiAlign", channels, attributes.get("spatial_scale", 1.0)), target)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize(("channels", "scale"), [(3, 0.25), (8, 1.0), (13, 0.0625)])
def test_boxes_are_pooled(target: str, channels: int, scale: float) -> None:
    model = model_of("MaxRoiPool", np.zeros((2, channels, *SIZE)), 16, pooled_shape=[3, 2],
                     spatial_scale=scale)  # fmt: skip
    compare(model, feed_of("MaxRoiPool", channels, scale), target)


@pytest.mark.parametrize("operator", ["RoiAlign", "MaxRoiPool"])
def test_places_stay_exact_in_fp16(operator: str) -> None:
    attributes: Any = {"output_height": 3, "output_width": 2, "spatial_scale": 0.25}
    if operator == "MaxRoiPool":
        attributes = {"pooled_shape": [3, 2], "spatial_scale": 0.25}
    model = model_of(operator, np.zeros((2, 8, *SIZE)), 16, **attributes)
    compare(model, feed_of(operator, 8, 0.25), "vulkan", precision="fp16")


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30])
@pytest.mark.parametrize("operator", ["RoiAlign", "MaxRoiPool"])
def test_boxes_of_no_size_at_all_end(operator: str, value: float, target: str) -> None:
    """A network that sees nothing must not keep a robot's GPU busy, nor read beside the image."""
    attributes: Any = {"output_height": 3, "output_width": 2}
    if operator == "MaxRoiPool":
        attributes = {"pooled_shape": [3, 2]}
    model = model_of(operator, np.zeros((2, 8, *SIZE)), 16, **attributes)
    feed = feed_of(operator, 8, 1.0)
    whole = feed["rois" if operator == "MaxRoiPool" else "boxes"]
    whole[0, -4:], whole[1, -1:], whole[2, -3:-1] = value, value, value
    (found,) = executor(import_onnx(model), target)(*feed.values())
    assert found.shape == (COUNT, 8, 3, 2)
