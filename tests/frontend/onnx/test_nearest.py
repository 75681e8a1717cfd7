"""Which pixel is nearest, at every small size and factor, is decided as onnxruntime does.

What lies half way between two pixels, as far as single precision can tell, either of them may be:
onnxruntime has changed its mind since 1.28.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaging.version import Version

from tvm_vision.frontend.onnx.resize import AxisResize, nearest_indices

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
BEFORE, AFTER = range(1, 17), range(1, 33)
NEWER = Version(onnxruntime.__version__) >= Version("1.28")


@pytest.mark.parametrize("nearest", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_places_are_those_of_onnxruntime(coordinates, nearest):
    nodes, constants, inputs, outputs = [], [], [], []
    rows: dict[str, tuple[int, float]] = {}
    how = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    for before in BEFORE:
        image = f"x{before}"
        inputs.append(helper.make_tensor_value_info(image, TensorProto.FLOAT, (1, before)))
        for after in AFTER:
            fifths = np.float32(after / 5)
            for name, value in {
                f"sizes {before} {after}": np.array([1, after]),
                f"scales {before} {after}": np.array([1, fifths], np.float32),
            }.items():
                by_size = name.startswith("sizes")
                if not by_size and int(np.floor(np.float32(before) * fifths)) < 1:
                    continue
                constants.append(numpy_helper.from_array(value, f"w {name}"))
                given = [image, "", "", f"w {name}"] if by_size else [image, "", f"w {name}"]
                nodes.append(helper.make_node("Resize", given, [name], mode="nearest", **how))
                outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
                factor = np.float32(after) / np.float32(before) if by_size else fifths
                rows[name] = before, float(factor)
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 19)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    places = {f"x{n}": np.arange(n, dtype=np.float32)[None] for n in BEFORE}
    wrong = []
    for name, found in zip(rows, session.run(list(rows), places), strict=True):
        size, scale = rows[name]
        after = found.shape[1]
        # onnxruntime copies what keeps its size, and so does the rewriting.
        axis = AxisResize(size, after, scale, coordinates, nearest)
        differ = nearest_indices(axis) != found[0]
        if NEWER and nearest.startswith("round"):
            differ &= np.abs(axis.sources() % 1.0 - 0.5) > 1e-5
        if after != size and differ.any():
            wrong.append(name)
    assert len(rows) > 900 and not wrong
