"""Frames in, input tensors out; output tensors in, results (results.py) out.

Needs numpy, OpenCV and TVM's runtime: never its compiler, so that a robot runs with that alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..package import Package
    from .vision_model import VisionModel


class ModelOptions(TypedDict, total=False):
    """What ``load_model`` passes on: the first three to a YoeoDetector, the others to an
    ImageClassifier, which say what they mean."""

    confidence: float
    iou: float
    max_detections: int
    labels: Sequence[str] | None
    top: int


def load_model(
    path: str | os.PathLike[str] | Package, device: str = "auto", **options: Unpack[ModelOptions]
) -> VisionModel:
    """The network of a package, as the class that is made for its kind.

    path: of the package, tar or folder, or the package as it was read. device: see
    ``tvm_vision.load``. options: of that class, for example ``confidence`` of a YoeoDetector.

    Raises PackageError and DeviceError as ``tvm_vision.load`` does; InputError where the package
    is of a kind that looks at no frames, or lacks what its class needs.
    """
    from ..errors import InputError
    from ..runtime.loader import open_package

    package = open_package(path, device) if isinstance(path, (str, os.PathLike)) else path
    # OpenCV and TVM's Python, while the device is being opened.
    from .classifier.image_classifier import ImageClassifier
    from .yoeo.detector import YoeoDetector

    model = package.info.model
    known: tuple[type[VisionModel], ...] = (YoeoDetector, ImageClassifier)
    classes = {cls.kind: cls for cls in known}
    if model.kind not in classes:
        raise InputError(
            f"a network of kind {' or '.join(classes)} is needed, and '{model.name}' is of kind "
            f"{model.kind}: compile it with --kind"
        )
    return classes[model.kind].load(package, device, **options)
