"""A network over a labelled set: what it finds, how right that is, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from ..models.results import VisionResult
from ..models.vision_model import VisionModel
from ..runtime.sources import read_image
from .datasets import BOXES, CLASSES, MASKS, NOT_COUNTED, DataSet, Sample, class_numbers
from .detection import Found, MaskScore, Truth
from .scores import box_scores, class_scores, mask_scores

MOST_NAMED = 5  # of images that cannot be read
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
        self._specs = {spec["name"]: spec for spec in self.info["inputs"]}

    def frame(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """One frame, by name: inputs are arrays, tensors as YOEO's detector has them, or functions
        that write the array that they are given; outputs are arrays."""
        return dict(self._reference.run({name: self._array(name, inputs[name]) for name in inputs}))

    def _array(self, name: str, value: Any) -> np.ndarray:
        if callable(value):
            spec = self._specs[name]
            array = np.zeros(spec["shape"], spec["dtype"])
            value(array)
            return array
        return value if isinstance(value, np.ndarray) else np.asarray(value.numpy())


class Network(Protocol):
    """What a network is, as a VisionModel and a package's ModelInfo say it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def produces(self) -> tuple[str, ...]: ...


def need_fit(network: Network, data: DataSet, labels: Sequence[str]) -> None:
    """Raises InputError where a network finds nothing of what a set has, or has not its classes.

    labels: of the network's classes.
    """
    needed = {CLASSES: "classification", BOXES: "detections", MASKS: "segmentation"}[data.kind]
    if needed not in network.produces:
        raise InputError(
            f"a network with {needed} is needed for a set of {data.kind}, and '{network.name}' is "
            f"of kind {network.kind}: take another set, or another network"
        )
    if data.kind != MASKS:
        class_numbers(data, labels)


def run_set(model: VisionModel, data: DataSet, tell: Told = lambda done: None) -> dict[str, Any]:
    """The scores of a network over a set, see ``scores``, with "latency_ms" of whole frames, from
    the image to the result: "median" and "p95".

    An image that cannot be read does not count, and is named under "warnings". The first image is
    run twice: what comes once does not count. tell: called with the number of images that are done.
    Raises InputError where network and set do not go together, or no image can be read.
    """
    need_fit(model, data, model.class_names)
    kinds: dict[str, type[_Classes | _Boxes | _Masks]] = {
        CLASSES: _Classes, BOXES: _Boxes, MASKS: _Masks
    }  # fmt: skip
    judge = kinds[data.kind](model, data)
    times: list[float] = []
    left_out: list[str] = []
    for done, sample in enumerate(data.samples, 1):
        try:
            image = read_image(sample.path)
        except InputError as error:
            left_out.append(f"{error}; it does not count")
            continue
        if not times:
            model(image)
        result = model(image)
        times.append(result.timing.total_ms)
        judge.add(result, sample, image.shape)
        tell(done)
    if not times:
        raise InputError(left_out[0])
    return {
        "images": len(times),
        "warnings": _few(left_out),
        "latency_ms": {"median": float(np.median(times)), "p95": float(np.percentile(times, 95))},
        "scores": judge.scores(),
    }


def _few(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_NAMED
    return [*lines[:MOST_NAMED], *([f"{more} more images do not count"] if more > 0 else [])]


class _Classes:
    """Of a classifier."""

    def __init__(self, model: VisionModel, data: DataSet) -> None:
        self._ours = _numbers(model, data)
        self._names = data.names
        self._guesses: list[list[int]] = []
        self._labels: list[int] = []

    def add(self, result: VisionResult, sample: Sample, shape: tuple[int, ...]) -> None:
        """The guessed classes as those of the set; -1 for one that is none of them."""
        assert result.classification is not None
        self._guesses.append([self._ours.get(i, -1) for i in result.classification.class_ids])
        self._labels.append(sample.label)

    def scores(self) -> dict[str, Any]:
        return class_scores(self._guesses, self._labels, self._names)


class _Boxes:
    """Of a detector."""

    def __init__(self, model: VisionModel, data: DataSet) -> None:
        self._ours = _numbers(model, data)
        self._names = data.names
        self._found: list[Found] = []
        self._truths: list[Truth] = []

    def add(self, result: VisionResult, sample: Sample, shape: tuple[int, ...]) -> None:
        """The boxes of classes that the set has."""
        detections = result.detections
        assert detections is not None
        kept = np.array([int(i) in self._ours for i in detections.class_ids], bool)
        ids = np.array([self._ours[int(i)] for i in detections.class_ids[kept]], int)
        self._found.append(Found(detections.boxes[kept], detections.scores[kept], ids))
        self._truths.append(sample.boxes(shape[1], shape[0]))

    def scores(self) -> dict[str, Any]:
        return box_scores(self._found, self._truths, self._names)


class _Masks:
    """Of a segmenter."""

    def __init__(self, model: VisionModel, data: DataSet) -> None:
        self._names = model.segmentation_names
        self._score = MaskScore(len(self._names), NOT_COUNTED)

    def add(self, result: VisionResult, sample: Sample, shape: tuple[int, ...]) -> None:
        """The classes of all pixels."""
        assert result.segmentation is not None
        try:
            self._score.add(result.segmentation.mask, sample.classes())
        except InputError as error:
            raise InputError(
                f"'{sample.mask}' does not fit its image or network: {error}"
            ) from None

    def scores(self) -> dict[str, Any]:
        return mask_scores(self._score, self._names)


def _numbers(model: VisionModel, data: DataSet) -> dict[int, int]:
    """The set's number of each of the network's classes that it has."""
    numbers = enumerate(class_numbers(data, model.class_names))
    return {number: i for i, number in numbers if number is not None}
