"""The demo's network from a photo to boxes and a mask, the same stages around every engine.

Preparation and interpretation are those of ``YoeoDetector``, so that engines differ in what they
run and in what their form of the network leaves to the host:

- decoded boxes and the class of each pixel come from the network, as yoeo-to-onnx writes it;
- raw heads and logits, for engines that have neither arg max nor the decoding;
- the camera's bytes go in, and the network's first kernels prepare them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnx
import onnx.version_converter
from onnx import TensorProto, numpy_helper

from tvm_vision.demo.images import MODEL, demo_images
from tvm_vision.exporters.yoeo.camera import with_camera
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.exporters.yoeo.export import METADATA_KEY
from tvm_vision.exporters.yoeo.onnx_graph import DETECTIONS, INPUT, RAW_HEAD, SEGMENTATIONS
from tvm_vision.models.frames import CameraFrames, Letterbox, Preprocessor
from tvm_vision.models.results import Detections, SegmentationMask
from tvm_vision.models.yoeo import detector, postprocess
from tvm_vision.package import Preprocessing, YoeoHead
from tvm_vision.runtime.sources import read_image

FRAME = (480, 640)
LOGITS = "Logits"
# The first whose Slice every engine takes; the file itself is of opset 11.
OPSET = 13
STAGES = ("prepare", "network", "interpret")


def photo() -> npt.NDArray[np.uint8]:
    """An image of the demo at the size of a camera's frame, BGR."""
    image = read_image(demo_images()[0])
    return cv2.resize(image, FRAME[::-1], interpolation=cv2.INTER_AREA).astype(np.uint8)


def decoded(size: int) -> onnx.ModelProto:
    """The demo's network with plain float32 weights; it has one size, which ``size`` must be."""
    model = onnx.load(MODEL)
    fp16 = {w.name: w for w in model.graph.initializer if w.data_type == TensorProto.FLOAT16}
    kept = []
    for node in model.graph.node:
        if node.op_type == "Cast" and node.input[0] in fp16:
            array = numpy_helper.to_array(fp16[node.input[0]]).astype(np.float32)
            fp16[node.input[0]].CopyFrom(numpy_helper.from_array(array, node.output[0]))
        else:
            kept.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    if model.graph.input[0].type.tensor_type.shape.dim[3].dim_value != size:
        raise ValueError(f"the demo's network does not take images of {size} pixels")
    model = onnx.version_converter.convert_version(model, OPSET)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def raw(size: int) -> onnx.ModelProto:
    """The same, cut before the decoding of each head and before the arg max."""
    whole = decoded(size)
    heads = [
        node.input[0] for node in whole.graph.node if node.output[0].endswith("/split")
    ]  # what yolo layers begin with
    (best,) = (node for node in whole.graph.node if node.op_type == "ArgMax")
    ends = [*heads, best.input[0]]
    model = onnx.utils.Extractor(whole).extract_model([INPUT], ends)
    names = dict(zip(ends, [*(RAW_HEAD.format(i) for i in range(len(heads))), LOGITS], strict=True))
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*model.graph.output, *model.graph.value_info):
        value.name = names.get(value.name, value.name)
    model.metadata_props.extend(whole.metadata_props)
    return model


def of_camera(size: int) -> onnx.ModelProto:
    """The decoded form, for the camera's frames as bytes."""
    model = with_camera(decoded(size), INPUT, FRAME, _preprocessing())
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _preprocessing() -> Preprocessing:
    """What a package of the demo's network says, so that all prepare as ``YoeoDetector`` does."""
    found = yoeo_model_info(MODEL).preprocessing
    assert found is not None
    return found


class Frames:
    """What is done around a form of the network, for frames of ``FRAME``."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """model: of one of the functions above."""
        (document,) = (e.value for e in model.metadata_props if e.key == METADATA_KEY)
        self._said: dict[str, Any] = json.loads(document)
        self._shapes = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in model.graph.output
        }
        preprocessing = _preprocessing()
        takes_bytes = model.graph.input[0].type.tensor_type.elem_type == TensorProto.UINT8
        self._preprocessor: Preprocessor | CameraFrames = (
            CameraFrames(FRAME, preprocessing) if takes_bytes else Preprocessor(preprocessing)
        )
        self._labels = tuple(self._said["detection"])
        self._groups = postprocess.group_numbers(self._labels, ())
        self._heads = [
            YoeoHead(RAW_HEAD.format(i), head["stride"], tuple(map(tuple, head["anchors"])))
            for i, head in enumerate(self._said["heads"])
        ]

    def prepare(self, image: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], Letterbox]:
        """The network's input, in memory that the next frame overwrites, and the frame's place."""
        letterbox = self._preprocessor(image)
        return self._preprocessor.tensor, letterbox

    def interpret(
        self, outputs: Sequence[npt.NDArray[Any]], letterbox: Letterbox
    ) -> tuple[Detections, SegmentationMask]:
        """Boxes and mask from the network's outputs, in its order; any shape of their sizes."""
        named = {
            name: np.asarray(array).reshape(shape)
            for array, (name, shape) in zip(outputs, self._shapes.items(), strict=True)
        }
        if DETECTIONS in named:
            rows = postprocess.decoded_rows(named[DETECTIONS], detector.CONFIDENCE)
            classes = named[SEGMENTATIONS]
        else:
            rows = postprocess.head_rows(named, self._heads, detector.CONFIDENCE)
            classes = named[LOGITS].argmax(axis=1)
        boxes = postprocess.find_detections(
            rows, self._labels, self._groups, letterbox,
            confidence=detector.CONFIDENCE, iou=detector.IOU, limit=detector.MAX_DETECTIONS,
        )  # fmt: skip
        mask = postprocess.find_mask(classes, tuple(self._said["segmentation"]), letterbox)
        return boxes, mask
