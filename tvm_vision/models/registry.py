"""Which class runs the networks of a kind: the one table that every command and the node ask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from ..errors import InputError
from ..package import PackageInfo
from .kinds.facts import Facts
from .kinds.recognise import recognise

if TYPE_CHECKING:
    from .vision_model import VisionModel

# Kind of a package -> module below this one, and class in it. Imported when a package is of it: a
# class brings OpenCV and TVM's Python.
PREDICTORS = {
    "yoeo": ("yoeo.detector", "YoeoDetector"),
    "classifier": ("classifier.image_classifier", "ImageClassifier"),
    "yolo": ("detection.detector", "ObjectDetector"),
    "detr": ("detection.detector", "ObjectDetector"),
    "ssd": ("detection.detector", "ObjectDetector"),
    "segmenter": ("pixels.segmenter", "Segmenter"),
    "depth": ("pixels.depth", "DepthEstimator"),
}


def predictor(info: PackageInfo) -> type[VisionModel]:
    """The class for a package's network.

    Raises InputError where it is of a kind that looks at no frames, with those that it may be of.
    """
    model = info.model
    found = PREDICTORS.get(model.kind)
    if found is None:
        if len(info.inputs) != 1:
            names = ", ".join(spec.name for spec in info.inputs)
            raise InputError(
                f"a network that takes one image is needed, and '{model.name}' takes {names}: "
                "'tvm-vision run --inputs' gives it an array for each, or compile the part of it "
                "that takes the image"
            )
        *kinds, last = PREDICTORS
        likely = recognise(Facts(info.inputs, info.outputs, model.labels)).candidates
        remedy = f" {' or '.join(likely)}" if likely else ""
        raise InputError(
            f"a network of kind {', '.join(kinds)} or {last} is needed, and '{model.name}' is of "
            f"kind {model.kind}: compile it with --kind{remedy}"
        )
    module, name = found
    here = __name__.rpartition(".")[0]
    return cast("type[VisionModel]", getattr(import_module(f"{here}.{module}"), name))
