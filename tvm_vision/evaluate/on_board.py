"""On a board: what it does for an evaluation that another machine makes over RPC.

A package is loaded and looks at images one by one; what it finds goes back with the times that were
taken here, so that no network is in them.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..errors import TvmVisionError
from ..models import load_model
from ..models.results import Classification, Detections, SegmentationMask, Timing, VisionResult
from ..models.vision_model import VisionModel

OPEN, LOOK = "tvm_vision.rpc.open_package", "tvm_vision.rpc.look"
# What a client has to know of a network, attributes of VisionModel.
FACTS = ("name", "kind", "produces", "class_names", "segmentation_names", "device_description")

_OPENED: list[VisionModel] = []


def register() -> None:
    """Offer ``open_package`` and ``look`` to the clients of this process, a session's."""
    from ..tvm_compat.ffi import tvm_ffi

    tvm_ffi.register_global_func(OPEN, open_package, override=True)
    tvm_ffi.register_global_func(LOOK, look, override=True)


def open_package(name: str) -> str:
    """Load a package that was uploaded. Returns JSON: FACTS of its network, or why it cannot be
    loaded here as "error"."""
    from ..tvm_compat.ffi import tvm_ffi

    try:
        model = load_model(Path(str(tvm_ffi.get_global_func("tvm.rpc.server.workpath")(name))))
    except TvmVisionError as error:
        return json.dumps({"error": str(error)})
    _OPENED[:] = [model]
    return json.dumps({fact: getattr(model, fact) for fact in FACTS})


def look(png: bytes) -> bytes:
    """``packed`` result of the loaded network for an image in BGR, which is a PNG."""
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    return packed(_OPENED[0](np.asarray(image, np.uint8)))


def packed(result: VisionResult) -> bytes:
    """A result as the bytes of an .npz file: its times, and what evaluations judge of it."""
    timing, arrays = result.timing, dict[str, Any]()
    arrays["timing"] = (timing.preprocess_ms, timing.inference_ms, timing.postprocess_ms)
    if (boxes := result.detections) is not None:
        arrays |= {"boxes": boxes.boxes, "scores": boxes.scores, "class_ids": boxes.class_ids}
    if (classes := result.classification) is not None:
        arrays |= {"classes": classes.class_ids, "probabilities": classes.probabilities}
        arrays["labels"] = np.array(classes.labels, np.str_)
    if result.segmentation is not None:
        arrays["mask"] = result.segmentation.mask
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def unpacked(
    content: bytes, class_names: tuple[str, ...], segmentation_names: tuple[str, ...]
) -> VisionResult:
    """What ``packed`` was given. Raises ValueError for what no board sends."""
    with np.load(io.BytesIO(content)) as arrays:
        found = dict(arrays)
    boxes = classes = mask = None
    if "boxes" in found:
        boxes = Detections(found["boxes"], found["scores"], found["class_ids"], class_names)
    if "classes" in found:
        rows = (found[key].tolist() for key in ("classes", "labels", "probabilities"))
        classes = Classification(*map(tuple, rows))
    if "mask" in found:
        mask = SegmentationMask(found["mask"], segmentation_names)
    return VisionResult(Timing(*found["timing"].tolist()), boxes, mask, classes)
