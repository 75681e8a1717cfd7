"""Image classifiers: images to input tensors (preprocess), logits to classes (postprocess)."""

from .labels import imagenet_labels, read_labels
from .network import Classifier
from .postprocess import classify, softmax
from .preprocess import EFFICIENTNET_LITE0, ClassifierInput, prepare
from .presets import PRESETS, preset

__all__ = [
    "EFFICIENTNET_LITE0",
    "PRESETS",
    "Classifier",
    "ClassifierInput",
    "classify",
    "imagenet_labels",
    "prepare",
    "preset",
    "read_labels",
    "softmax",
]
