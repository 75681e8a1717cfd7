"""The demo network with a light decoder: what it shares with the other, and what it saves."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx

from tvm_vision.demo.images import MODEL, demo_images
from tvm_vision.evaluate import Reference
from tvm_vision.exporters.yoeo.config import YoeoConfig, parse_config
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.exporters.yoeo.export import ExportOptions, onnx_model
from tvm_vision.exporters.yoeo.layers import Convolution, SegmentationHead
from tvm_vision.exporters.yoeo.names import ClassNames
from tvm_vision.exporters.yoeo.parameters import all_parameters

DEMO = Path(__file__).resolve().parents[2] / "tvm_vision" / "demo"
FULL, LIGHT = (parse_config(DEMO / f"{name}.cfg") for name in ("yoeo_demo", "yoeo_demo_light"))
SHARED = 48  # layers before the decoder


def multiplications(config: YoeoConfig) -> int:
    """Of all convolutions, in one frame."""
    shapes = config.shapes()
    return sum(
        int(np.prod(shapes[index + 1])) * config.input_shape(index, shapes)[0] * layer.size**2
        for index, layer in enumerate(config.layers)
        if isinstance(layer, Convolution)
    )


def test_backbone_and_heads_are_the_same() -> None:
    """Layer by layer, so that weights of one begin the other; lines of the files may differ."""
    for full, light in zip(FULL.layers[:SHARED], LIGHT.layers[:SHARED], strict=True):
        assert {**vars(full), "line": 0} == {**vars(light), "line": 0}
    assert len(FULL.heads) == len(LIGHT.heads) == 3
    full, light = (
        {(name, shape) for index, name, shape in all_parameters(config) if index < SHARED}
        for config in (FULL, LIGHT)
    )
    assert full == light


def test_it_saves_most_of_the_decoder() -> None:
    assert isinstance(LIGHT.layers[-1], SegmentationHead)
    assert LIGHT.shapes()[-1] == FULL.shapes()[-1] == (3, 512, 512)
    assert multiplications(LIGHT) < 0.6 * multiplications(FULL)


def test_it_can_be_exported() -> None:
    state = {name: np.ones(shape, np.float32) * 0.01 for _, name, shape in all_parameters(LIGHT)}
    names = ClassNames(("ball", "goalpost", "robot"), ("background", "lines", "field"))
    model = onnx_model(LIGHT, state, ExportOptions(names=names, fp16_storage=True))
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in model.graph.output
    }
    assert shapes == {"Detections": [1, 16128, 8], "Segmentations": [1, 512, 512]}


def test_the_file_is_of_this_configuration() -> None:
    """It was trained: its convolutions are the configuration's, and it sees what the other sees."""
    light = DEMO / "yoeo_demo_light.onnx"
    convolutions = [n for n in onnx.load(light).graph.node if n.op_type == "Conv"]
    assert len(convolutions) == sum(isinstance(layer, Convolution) for layer in LIGHT.layers)
    info = yoeo_model_info(light)
    assert set(info.class_thresholds) == set(yoeo_model_info(MODEL).class_thresholds) != set()
    image = cv2.cvtColor(cv2.imread(str(demo_images()[0])), cv2.COLOR_BGR2RGB)
    frame = cv2.resize(image, (512, 512)).transpose(2, 0, 1)[None].astype("float32") / 255
    found, expected = (Reference(path).run({"InputLayer": frame}) for path in (light, MODEL))
    assert np.mean(found["Segmentations"] == expected["Segmentations"]) > 0.97
    best, full_best = (best_scores(values["Detections"][0]) for values in (found, expected))
    np.testing.assert_allclose(best, full_best, atol=0.1)


def best_scores(rows: np.ndarray) -> np.ndarray:
    """The best score of each class, of YOEO's rows [n, 5 + classes]."""
    return np.asarray((rows[:, 4:5] * rows[:, 5:]).max(0))
