"""A network over a labelled set: what it finds, how right that is, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.results import VisionResult
from ..models.vision_model import VisionModel
from ..runtime.sources import read_image
from .datasets import BOXES, CLASSES, DataSet, class_numbers
from .detection import Found
from .scores import box_scores, class_scores

Told = Callable[[int], object]


class ReferenceExecutor:
    """onnxruntime, or LiteRT, in the place of a ``GraphExecutor``: what looks at frames runs on it
    as on ours."""

    def __init__(self, reference: Any, info: Mapping[str, Any], name: str) -> None:
        """reference: of ``reference_of``. info: mod.json of a package of the same model. name: of
        the engine."""
        self.info = dict(info)
        self.device = SimpleNamespace(type="cpu", index=0)
        self.device_description = f"{name} on the CPU"
        self.device_note = ""
        self._reference = reference
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray] = {}

    def set_input(self, key: str, value: np.ndarray) -> None:
        """Keep an input of the next run."""
        self._inputs[key] = value

    def run(self) -> None:
        """Run one frame."""
        self._outputs = self._reference.run(self._inputs)

    def outputs(self) -> dict[str, np.ndarray]:
        """All outputs by name."""
        return self._outputs


def run_set(model: VisionModel, data: DataSet, tell: Told = lambda done: None) -> dict[str, Any]:
    """The scores of a network over a set, see ``scores``, with "latency_ms" of whole frames, from
    the image to the result: "median" and "p95".

    The first image is run twice: what comes once does not count. tell: called with the number of
    images that are done. Raises InputError where network and set do not go together.
    """
    needed = {CLASSES: "classification", BOXES: "detections"}[data.kind]
    if needed not in model.produces:
        raise InputError(
            f"a network with {needed} is needed for a set of {data.kind}, and '{model.name}' is of "
            f"kind {model.kind}"
        )
    numbers = class_numbers(data.names, model.class_names)
    ours = {number: i for i, number in enumerate(numbers)}
    times, guesses, found, truths = [], [], [], []
    model(read_image(data.samples[0].path))
    for done, sample in enumerate(data.samples, 1):
        image = read_image(sample.path)
        result = model(image)
        times.append(result.timing.total_ms)
        if data.kind == CLASSES:
            guesses.append(_classes(result, ours))
        else:
            found.append(_boxes(result, ours))
            truths.append(sample.boxes(image.shape[1], image.shape[0]))
        tell(done)
    scores = (
        class_scores(guesses, [sample.label for sample in data.samples], data.names)
        if data.kind == CLASSES
        else box_scores(found, truths, data.names)
    )
    return {
        "images": len(data.samples),
        "latency_ms": {"median": float(np.median(times)), "p95": float(np.percentile(times, 95))},
        "scores": scores,
    }


def _classes(result: VisionResult, ours: Mapping[int, int]) -> list[int]:
    """The guessed classes as those of the set; -1 for one that is none of them."""
    assert result.classification is not None
    return [ours.get(i, -1) for i in result.classification.class_ids]


def _boxes(result: VisionResult, ours: Mapping[int, int]) -> Found:
    detections = result.detections
    assert detections is not None
    kept = np.array([int(i) in ours for i in detections.class_ids], bool)
    ids = np.array([ours[int(i)] for i in detections.class_ids[kept]], int)
    return Found(detections.boxes[kept], detections.scores[kept], ids)
