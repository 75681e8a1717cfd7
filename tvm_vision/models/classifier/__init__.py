"""Image classifiers: images to input tensors (preprocess), logits to classes (postprocess).

What a package says of one needs neither OpenCV nor the runtime: the rest is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy_names
from .labels import imagenet_labels, read_labels
from .presets import PRESETS, preset

if TYPE_CHECKING:
    from .network import Classifier
    from .postprocess import classify, softmax
    from .preprocess import EFFICIENTNET_LITE0, ClassifierInput, prepare

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

if not TYPE_CHECKING:  # for which no name would be a wrong one
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Classifier": ".network",
            **dict.fromkeys(("classify", "softmax"), ".postprocess"),
            **dict.fromkeys(("EFFICIENTNET_LITE0", "ClassifierInput", "prepare"), ".preprocess"),
        },
    )
