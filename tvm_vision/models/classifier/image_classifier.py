"""A classifier as a VisionModel: one frame at a time, with the time of each stage."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.graph_executor import GraphExecutor
from ..results import VisionResult
from ..thresholds import count
from ..vision_model import Image, VisionModel
from .network import Classifier


class ImageClassifier(VisionModel):
    """A classifier of a package, whose preprocessing and labels come from there."""

    def __init__(
        self, executor: GraphExecutor, *, labels: Sequence[str] | None = None, top: int = 5
    ) -> None:
        """labels: instead of the package's. top: classes in a result.

        Raises InputError where the package's network is no classifier of images, or top no number
        from 1 on.
        """
        super().__init__(executor)
        self._classifier = Classifier(executor, labels=labels)
        self._top = count("top classes", top)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self._classifier.labels

    def __call__(self, image_bgr: Image) -> VisionResult:
        """The likeliest classes of one frame, uint8 [height, width, 3] in BGR."""
        classifier = self._classifier
        return self._in_stages(
            image_bgr,
            lambda image: classifier.set_images([image]),
            lambda: classifier.run()[0],
            lambda row, _: {"classification": classifier.classes(row, self._top)},
        )
