"""A YOEO network that takes frames as a camera gives them: preparation as its first kernels.

The frame goes to the device as bytes, less than half of what the prepared input has, and no
processor touches its pixels. In exchange the package takes frames of one size only.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...errors import InputError
from ...frontend.onnx.graph import opset_of
from ...models.frames import Letterbox
from ...package import Preprocessing

PREFIX = "camera/"
# ONNX's Resize has no average over an area.
MODES = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
# The first that has Resize with sizes and half pixels, as OpenCV counts them.
LEAST_OPSET = 11


def with_camera(
    model: onnx.ModelProto, name: str, frame: tuple[int, int], preprocessing: Preprocessing
) -> onnx.ModelProto:
    """A copy of a model whose input is uint8 [1, height, width, 3] in BGR.

    name: of its input, float32 [1, 3, height, width], which becomes a value inside. frame: height
    and width of the camera's frames. preprocessing: what is done to them; a letterbox.

    Raises InputError for an interpolation that devices have no kernel for.
    """
    mode = MODES.get(preprocessing.interpolation)
    opset = opset_of(model)
    if mode is None or opset < LEAST_OPSET:
        raise InputError(
            f"frames can be prepared on the device with an interpolation of {', '.join(MODES)} and "
            f"ONNX's opset {LEAST_OPSET} or later, found {preprocessing.interpolation} and {opset}"
        )
    nodes, constants = _preparation(name, frame, preprocessing, mode, opset)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    own = list(graph.node)
    others = [value for value in graph.input if value.name != name]
    del graph.node[:], graph.input[:]
    graph.node.extend([*nodes, *own])
    camera = helper.make_tensor_value_info(PREFIX + name, TensorProto.UINT8, (1, *frame, 3))
    graph.input.extend([camera, *others])
    graph.initializer.extend(constants)
    return result


def _preparation(
    name: str, frame: tuple[int, int], preprocessing: Preprocessing, mode: str, opset: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes from the camera's bytes to the value ``name``, and their constants."""
    box = Letterbox.fit(frame, preprocessing.size)
    below = preprocessing.size[0] - box.top - box.height
    right = preprocessing.size[1] - box.left - box.width
    scale = 1 / np.array(preprocessing.std, np.float32).reshape(1, 3, 1, 1)
    mean = np.array(preprocessing.mean, np.float32).reshape(1, 3, 1, 1)
    swaps = preprocessing.color_order == "rgb"
    values = {
        # From the last channel to the first, on the axis of channels.
        "last": np.array([-1], np.int64),
        "end": np.array([np.iinfo(np.int32).min], np.int64),
        "axis": np.array([1], np.int64),
        "back": np.array([-1], np.int64),
        "none": np.zeros(0, np.float32),
        "size": np.array([1, 3, box.height, box.width], np.int64),
        "pads": np.array([0, 0, box.top, box.left, 0, 0, below, right], np.int64),
        "black": np.array(0, np.float32),
        "mean": mean,
        "scale": scale,
    }
    steps: list[tuple[str, list[str], dict[str, object]]] = [
        ("Transpose", [], {"perm": [0, 3, 1, 2]}),
        *([("Slice", ["last", "end", "axis", "back"], {})] if swaps else []),
        ("Cast", [], {"to": TensorProto.FLOAT}),
        (
            "Resize",
            ["none", "none", "size"],
            {
                "mode": mode,
                "coordinate_transformation_mode": "half_pixel",
                # OpenCV's cubic is this one, and its nearest pixel the one around the centre.
                **({"cubic_coeff_a": -0.75} if mode == "cubic" else {}),
                **({"nearest_mode": "round_prefer_ceil"} if mode == "nearest" else {}),
            },
        ),
        ("Pad", ["pads", "black"], {"mode": "constant"}),
        *([("Sub", ["mean"], {})] if mean.any() else []),
        ("Mul", ["scale"], {}),
    ]
    nodes = []
    value = PREFIX + name
    for number, (operator, inputs, attributes) in enumerate(steps):
        output = name if number + 1 == len(steps) else f"{PREFIX}{operator}"
        names = [value, *(PREFIX + key for key in inputs)]
        if operator == "Resize":
            # No region, no scales.
            names[1:3] = ["", ""] if opset > LEAST_OPSET else names[1:3]
        nodes.append(helper.make_node(operator, names, [output], output, **attributes))
        value = output
    used = {name for node in nodes for name in node.input}
    constants = [
        numpy_helper.from_array(array, PREFIX + key)
        for key, array in values.items()
        if PREFIX + key in used
    ]
    return nodes, constants
