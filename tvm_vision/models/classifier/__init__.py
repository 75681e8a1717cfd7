"""Image classifiers: pictures to input tensors (preprocess), logits to classes (postprocess)."""

from .labels import imagenet_labels
from .postprocess import classify, softmax
from .preprocess import EFFICIENTNET_LITE0, ClassifierInput, prepare

__all__ = [
    "EFFICIENTNET_LITE0",
    "ClassifierInput",
    "classify",
    "imagenet_labels",
    "prepare",
    "softmax",
]
