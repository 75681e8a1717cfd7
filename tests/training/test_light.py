"""The demo network with a light decoder: what it shares with the other, and what it saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_vision.exporters.yoeo.config import YoeoConfig, parse_config
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
