"""Writes a small classifier of images by their colour, so that the examples need no download.

Its weights are set by hand: it averages an image and scores the averages of red, green and blue.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LABELS = ("red", "green", "blue")
SIZE = 64
# OpenCV's order is blue, green, red.
COLORS = {"red": (40, 30, 220), "green": (50, 200, 40), "blue": (210, 60, 30)}


def write_network(path: Path) -> Path:
    """An ONNX file: float32 [1, 3, 64, 64] in RGB, 0 to 1, to a score for each of LABELS.

    A convolution makes 16 channels of the three, a second one smooths them, a third adds up those
    that belong to a colour.
    """
    random = np.random.default_rng(0)
    spread = np.zeros((16, 3, 1, 1), np.float32)
    for channel in range(16):
        spread[channel, channel % 3] = random.uniform(0.5, 1.0)
    smooth = np.zeros((16, 16, 3, 3), np.float32)
    for channel in range(16):
        smooth[channel, channel] = 1 / 9
    gather = np.zeros((3, 16, 1, 1), np.float32)
    for channel in range(16):
        gather[channel % 3, channel] = 1.0
    weights = {"spread": spread, "smooth": smooth, "gather": gather}
    nodes = [
        helper.make_node("Conv", ["image", "spread"], ["a"], "spread_colors"),
        helper.make_node("Conv", ["a", "smooth"], ["b"], "smooth_image", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("Conv", ["c", "gather"], ["d"], "gather_colors"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], "average"),
        helper.make_node("Flatten", ["e"], ["scores"], "flatten"),
    ]
    graph = helper.make_graph(
        nodes,
        "colors",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(LABELS)])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def write_images(folder: Path) -> list[Path]:
    """A noisy image of each colour, 96x128 pixels, named after it."""
    random = np.random.default_rng(1)
    paths = []
    for name, color in COLORS.items():
        noise = random.integers(-30, 31, (96, 128, 3))
        image = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
        paths.append(folder / f"{name}.png")
        cv2.imwrite(str(paths[-1]), image)
    return paths
