"""Networks of each kind whose outputs are known: what they say is the same for every image."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .tflite_models import Graph

SIZE = (32, 32)
# Of the grids of strides 8, 16 and 32 over an input of SIZE.
CELLS = 21
NAMES = ("ball", "robot")
ULTRALYTICS = {"names": "{0: 'ball', 1: 'robot'}", "imgsz": "[32, 32]"}
# Two objects, centre and sides in pixels of the input.
BOXES = np.array([[8, 16, 8, 8], [24, 16, 12, 16]], np.float32)


def write(
    path: Path,
    outputs: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    *,
    size: tuple[int, int] = SIZE,
    channels: int = 3,
    open_sides: bool = False,
) -> Path:
    """An ONNX file whose outputs are these arrays, whatever its image is.

    channels: of the image; open_sides: its height and width are left open.
    """
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Cast", ["nothing"], ["no"], to=TensorProto.INT64),
    ]
    constants = [numpy_helper.from_array(np.float32(0), "zero")]
    values = []
    for name, array in outputs.items():
        constants.append(numpy_helper.from_array(array, f"{name}_values"))
        added = "nothing" if array.dtype == np.float32 else "no"
        nodes.append(helper.make_node("Add", [f"{name}_values", added], [name], name=name))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        values.append(helper.make_tensor_value_info(name, kind, array.shape))
    sides = ("height", "width") if open_sides else size
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, channels, *sides))
    graph = helper.make_graph(nodes, "known", [image], values, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, path)
    return path


def write_tflite(
    path: Path,
    outputs: Mapping[str, np.ndarray],
    files: Mapping[str, str] | None = None,
    *,
    image: Mapping[str, Any] | None = None,
    pixels: tuple[Sequence[float], Sequence[float]] | None = None,
    first: bool = False,
    scale: float | None = None,
) -> Path:
    """A TFLite file whose outputs are these arrays, whatever its image is.

    files: of the archive behind it, name -> content. image: type, scale and zero point of a
    quantized input. pixels: mean and deviation that it says. first: the image has its channels so.
    scale: of outputs that are int8.
    """
    graph = Graph(pixels=pixels)
    shape = (1, 3, *SIZE) if first else (1, *SIZE, 3)
    source = value = graph.tensor(shape, name="image", **(image or {}))
    if image:
        value = graph.tensor(shape)
        graph.operator("DEQUANTIZE", [source], [value])
    mean, nothing = graph.tensor((1,)), graph.tensor((1,))
    axes, zero = (
        graph.tensor(data=np.array([1, 2, 3], np.int32)),
        graph.tensor(data=np.zeros(1, np.float32)),
    )
    graph.operator("MEAN", [value, axes], [mean])
    graph.operator("MUL", [mean, zero], [nothing])
    ends = []
    for name, array in outputs.items():
        ends.append(graph.tensor(array.shape, name=name if scale is None else ""))
        graph.operator("ADD", [graph.tensor(data=array), nothing], ends[-1:])
        if scale is not None:
            small = graph.tensor(array.shape, "int8", name=name, scale=scale, zero_point=-128)
            graph.operator("QUANTIZE", ends[-1:], [small])
            ends[-1] = small
    graph.write(path, [source], ends)
    if files:
        with zipfile.ZipFile(path, "a") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    return path


def rows(*more: np.ndarray) -> np.ndarray:
    """[1, 4 + 2 + values, CELLS]: the two objects with scores of 0.9 and 0.8, ``more`` behind."""
    table = np.zeros((CELLS, 6 + sum(part.shape[1] for part in more)), np.float32)
    table[:2, :4] = BOXES
    table[0, 4], table[1, 5] = 0.9, 0.8
    if more:
        table[:2, 6:] = np.concatenate(more, axis=1)
    return np.ascontiguousarray(table.T[None])


def outputs_of(kind: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Outputs and metadata of a network of each kind, and of YOLO's tasks."""
    planes = np.zeros((1, 2, *SIZE), np.float32)
    planes[:, 0] = 0.5
    planes[:, 1, :, 16:] = 1
    depth = np.tile(np.linspace(1, 5, 32, dtype=np.float32), (1, 1, 32, 1))
    points = np.tile(np.array([8, 16, 0.9], np.float32), (2, 5))
    prototypes = np.ones((1, 4, 8, 8), np.float32)
    prototypes[..., 4:] = -1
    of_task = {
        "detect": {"output0": rows()},
        "segment": {"output0": rows(np.ones((2, 4), np.float32)), "output1": prototypes},
        "pose": {"output0": rows(points)},
        "obb": {"output0": rows(np.full((2, 1), 0.5, np.float32))},
    }
    if kind in of_task:
        return of_task[kind], {**ULTRALYTICS, "task": kind, "kpt_shape": "[5, 3]"}
    # More queries than those with a softmax have.
    boxes, logits = np.zeros((1, 120, 4), np.float32), np.full((1, 120, 2), -9, np.float32)
    boxes[0, :2] = BOXES / np.float32(32)
    logits[0, 0, 0], logits[0, 1, 1] = 4, 3
    found: dict[str, tuple[dict[str, np.ndarray], dict[str, str]]] = {
        "detr": ({"logits": logits, "pred_boxes": boxes}, {}),
        "ssd": (
            {
                "boxes": np.array([[4, 12, 12, 20], [18, 8, 30, 24]], np.float32),
                "labels": np.array([0, 1]),
                "scores": np.array([0.9, 0.8], np.float32),
            },
            {},
        ),
        "segmenter": ({"logits": planes}, {}),
        "depth": ({"predicted_depth": depth}, {}),
    }
    return found[kind]
