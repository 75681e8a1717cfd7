"""A classifier at work: images in, the likeliest classes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import ModelInfo
from ...package.info import KINDS
from ...runtime.inputs import input_specs, numpy_dtype, output_specs
from ..results import Classification
from ..values import real_outputs
from .labels import check_labels
from .postprocess import classify
from .preprocess import ClassifierInput, as_input, prepare

Image = npt.NDArray[np.uint8]


class Classifier:
    """A loaded classifier, whose preprocessing and labels come from its package."""

    def __init__(self, executor: Any, *, labels: Sequence[str] | None = None) -> None:
        """executor: what tvm_vision.load returns. labels: instead of the package's.

        Raises InputError where the package's network is no classifier of images.
        """
        info = executor.info
        model = ModelInfo.from_json(info["model"])
        if KINDS[model.kind]:
            raise InputError(
                f"a classifier is needed, and '{model.name}' is a network of kind {model.kind}: "
                "'tvm-vision detect' runs it, in Python load_model"
            )
        specs = input_specs(info)
        if len(specs) != 1 or not specs[0].layout or model.preprocessing is None:
            raise InputError(
                f"a classifier with one input of images and preprocessing is needed, and "
                f"'{model.name}' is none: compile it with --kind classifier --preprocess imagenet "
                "(or another)"
            )
        self._executor = executor
        self._tensor: npt.NDArray[Any] | None = None
        self._config = ClassifierInput.from_package(model.preprocessing, specs[0].layout)
        self._spec = specs[0]
        self._output = output_specs(info)[0]
        self._labels = tuple(model.labels if labels is None else labels)
        check_labels(self._labels, info["outputs"][0]["shape"], model.name)

    @property
    def batch(self) -> int:
        """Images in one run."""
        return self._spec.shape[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """One a class, where they are known."""
        return self._labels

    def set_images(self, images: Sequence[Image]) -> None:
        """Prepare up to ``batch`` images, uint8 [height, width, 3] BGR, for the next ``run``."""
        if not 1 <= len(images) <= self.batch:
            raise InputError(f"1 to {self.batch} images are needed, found {len(images)}")
        tensor = np.zeros(self._spec.shape, numpy_dtype(self._spec.dtype))
        for index, image in enumerate(images):
            prepared = prepare(image, self._config, color_order="bgr")
            tensor[index] = as_input(prepared, self._spec)[0]
        self._tensor = tensor

    def run(self) -> npt.NDArray[Any]:
        """Logits, float [batch, classes], of the images that are set."""
        if self._tensor is None:
            raise InputError("images are needed before a run; call set_images")
        outputs = self._executor.frame({self._spec.name: self._tensor})
        real = real_outputs(outputs, [self._output])
        return real[self._output.name].reshape(self.batch, -1)

    def logits(self, images: Sequence[Image]) -> npt.NDArray[Any]:
        """Up to ``batch`` images, uint8 [height, width, 3] BGR -> float [images, classes]."""
        self.set_images(images)
        return self.run()[: len(images)]

    def classes(self, logits: npt.NDArray[Any], top: int) -> Classification:
        """The ``top`` likeliest classes of one row of logits."""
        labels = self._labels or tuple(f"class {index}" for index in range(logits.size))
        return classify(logits, labels, top=top)

    def __call__(self, images: Sequence[Image], *, top: int = 5) -> list[Classification]:
        """The likeliest classes of each image; any number of images."""
        return [
            self.classes(row, top)
            for chunk in _chunks(images, self.batch)
            for row in self.logits(chunk)
        ]


def _chunks(images: Sequence[Image], size: int) -> Iterator[Sequence[Image]]:
    return (images[start : start + size] for start in range(0, len(images), size))
