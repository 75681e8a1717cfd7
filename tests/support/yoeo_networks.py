"""Tiny YOEO networks as packages, without PyTorch, and outputs of which one knows what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvm_vision.evaluate import Reference
from tvm_vision.exporters.yoeo.config import YoeoConfig, parse_config
from tvm_vision.exporters.yoeo.export import ExportOptions, onnx_model
from tvm_vision.exporters.yoeo.names import ClassNames
from tvm_vision.exporters.yoeo.parameters import State, all_parameters, config_anchors, is_anchors
from tvm_vision.package import ClassGroup

NAMES = ClassNames(("ball", "goalpost", "robot"), ("background", "lines", "field"))
GROUPS = (ClassGroup("thing", ("goalpost", "robot")),)
# Two grids (strides 8 and 4) and a mask, of 96 x 96 pixels.
CFG = """
[net]
width=96
height=96
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
activation=leaky
[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
activation=leaky
[maxpool]
size=2
stride=2
[convolutional]
filters=16
size=1
stride=1
activation=linear
[yolo]
mask=1,2
anchors=8,9, 20,25, 40,30
classes=3
[route]
layers=1
[convolutional]
filters=8
size=1
stride=1
activation=linear
[yolo]
mask=0
anchors=8,9, 20,25, 40,30
classes=3
[route]
layers=1
[upsample]
stride=4
[convolutional]
filters=3
size=1
stride=1
activation=linear
[seg]
classes=3
"""
# Layers in front of the heads.
LAST = (3, 6, 10)


def tiny_config() -> YoeoConfig:
    return parse_config(CFG)


def random_state(config: YoeoConfig, seed: int = 0) -> State:
    """Weights under which objectness, scores and mask vary over an image."""
    rng = np.random.default_rng(seed)
    state = config_anchors(config)
    for _, name, shape in all_parameters(config):
        if name.endswith("running_var"):
            state[name] = np.ones(shape, np.float32)
        elif not is_anchors(name):
            scale = 1.6 / np.sqrt(np.prod(shape[1:]))
            state[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
    _normalise(config, state)
    return state


def _normalise(config: YoeoConfig, state: State) -> None:
    """Scale the layers in front of the heads: over an image each channel has mean 0, deviation 1.

    Of boxes the width and height (channels 2 and 3 of 8) vary less, so that exp of them is a box.
    """
    names = [f"conv_{index}" for index in LAST]
    reference = Reference(onnx_model(config, state), values=names)
    planes = random_image(96, 96)[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32) / 255
    outputs = reference.run({"InputLayer": planes})
    for index, name in zip(LAST, names, strict=True):
        weight, bias = (f"module_list.{index}.{name}.{kind}" for kind in ("weight", "bias"))
        factor = 1 / outputs[name].std(axis=(0, 2, 3))
        if len(factor) % 8 == 0:
            factor.reshape(-1, 8)[:, 2:4] *= 0.2
        state[bias] = (state[bias] - outputs[name].mean(axis=(0, 2, 3))) * factor
        state[weight] = state[weight] * factor[:, None, None, None]


def tiny_model(seed: int = 0, **options: Any) -> onnx.ModelProto:
    """The network as ONNX, with weights of a seed; options of ExportOptions."""
    config = tiny_config()
    options = {"names": NAMES, "groups": GROUPS, **options}
    return onnx_model(config, random_state(config, seed), ExportOptions(**options))


def write_tiny(path: Path, **options: Any) -> Path:
    onnx.save(tiny_model(**options), path)
    return path


def random_image(height: int = 120, width: int = 160, seed: int = 1) -> np.ndarray:
    """Soft blobs of colour, uint8 [height, width, 3]."""
    import cv2

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
