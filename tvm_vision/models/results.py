"""What networks say about a frame, as plain data checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Classification:
    """The likeliest classes of one frame, the best first.

    class_ids: index of each class among the network's outputs.
    labels: name of each class.
    probabilities: in 0..1, not increasing.

    Raises ValueError, naming what was expected and what was given, when these do not hold.
    """

    class_ids: tuple[int, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        count = len(self.class_ids)
        for field in ("labels", "probabilities"):
            got = len(getattr(self, field))
            if got != count:
                raise ValueError(f"expected {count} {field}, one for each class_id, got {got}")
        for class_id in self.class_ids:
            if class_id < 0:
                raise ValueError(f"expected class_ids of at least 0, got {class_id}")
        if len(set(self.class_ids)) != count:
            raise ValueError(f"expected class_ids without repetition, got {self.class_ids}")
        previous = 1.0
        for probability in self.probabilities:
            if not (math.isfinite(probability) and 0.0 <= probability <= 1.0):
                raise ValueError(f"expected probabilities in 0..1, got {probability}")
            if probability > previous:
                raise ValueError(f"expected falling probabilities, got {self.probabilities}")
            previous = probability

    def __len__(self) -> int:
        return len(self.class_ids)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        """(label, probability) of each class, the best first."""
        return iter(zip(self.labels, self.probabilities, strict=True))


@dataclass(frozen=True, eq=False)
class Detections:
    """The objects found in one frame, the best first.

    boxes: float32 [n, 4], each x1, y1, x2, y2 in pixels of the frame: the edges of the box, so
        that a box around the whole frame is 0, 0, width, height; x1 <= x2 and y1 <= y2.
    scores: float32 [n], in 0..1, not increasing.
    class_ids: int32 [n], each an index into ``class_names``.
    class_names: of all classes that the network knows.

    Raises ValueError, naming what was expected and what was given, when these do not hold.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_array("scores", self.scores, np.float32, (None,))
        count = len(self.scores)
        _check_array("boxes", self.boxes, np.float32, (count, 4))
        _check_array("class_ids", self.class_ids, np.int32, (count,))
        if count == 0:
            return
        if not np.isfinite(self.boxes).all() or (self.boxes[:, :2] > self.boxes[:, 2:]).any():
            raise ValueError("expected finite boxes with x1 <= x2 and y1 <= y2, got others")
        # Not (a <= b).all(): that is how NaN is found too.
        if not (self.scores.min() >= 0.0 and self.scores.max() <= 1.0):
            raise ValueError(
                f"expected scores in 0..1, got {self.scores.min()} to {self.scores.max()}"
            )
        if (self.scores[1:] > self.scores[:-1]).any():
            raise ValueError("expected scores that do not increase, got others")
        low, high = int(self.class_ids.min()), int(self.class_ids.max())
        if low < 0 or high >= len(self.class_names):
            raise ValueError(
                f"expected class_ids below the {len(self.class_names)} class_names, got {low} to "
                f"{high}"
            )

    @classmethod
    def none(cls, class_names: tuple[str, ...]) -> Detections:
        """A frame without any object."""
        return cls(
            np.empty((0, 4), np.float32),
            np.empty(0, np.float32),
            np.empty(0, np.int32),
            class_names,
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[tuple[str, float, tuple[float, float, float, float]]]:
        """(name, score, (x1, y1, x2, y2)) of each object, the best first."""
        for class_id, score, box in zip(
            self.class_ids.tolist(), self.scores.tolist(), self.boxes.tolist(), strict=True
        ):
            yield self.class_names[class_id], score, tuple(box)


@dataclass(frozen=True, eq=False)
class SegmentationMask:
    """What each pixel of one frame shows.

    mask: uint8 [height, width] of the frame, each an index into ``class_names``.
    class_names: of all classes that the network knows.

    Raises ValueError when the array is of another form; ids above the names are not looked for in
    each frame: the network's arg max has as many as there are names.
    """

    mask: npt.NDArray[np.uint8]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_array("mask", self.mask, np.uint8, (None, None))

    def share(self, name: str) -> float:
        """The part of the frame, in 0..1, that shows a class. Raises ValueError for no class."""
        return float(np.mean(self.mask == self.class_names.index(name)))


@dataclass(frozen=True)
class Timing:
    """Where the time of one frame went, by the host's clock, in milliseconds.

    preprocess_ms: from the image to the network's input. inference_ms: upload, network and
    read-back. postprocess_ms: from the outputs to results in pixels of the image.
    """

    preprocess_ms: float
    inference_ms: float
    postprocess_ms: float

    @property
    def total_ms(self) -> float:
        """The whole frame, from image to result."""
        return self.preprocess_ms + self.inference_ms + self.postprocess_ms


@dataclass(frozen=True)
class VisionResult:
    """What one network says about one frame; None for what it does not look for."""

    timing: Timing
    detections: Detections | None = None
    segmentation: SegmentationMask | None = None
    classification: Classification | None = None

    def describe(self) -> str:
        """One line for people: "ball 93, robot 88; field 61 %, lines 4 %".

        Scores in percent, then the part of the frame that each class of the mask takes, but for the
        first one, the background.
        """
        words = []
        if self.classification is not None:
            likely = [f"{label} {100 * part:.0f}" for label, part in self.classification]
            words.append(", ".join(likely))
        if self.detections is not None:
            boxes = [f"{name} {100 * score:.0f}" for name, score, _ in self.detections]
            words.append(", ".join(boxes) or "nothing")
        if self.segmentation is not None:
            mask = self.segmentation
            parts = [f"{name} {100 * mask.share(name):.0f} %" for name in mask.class_names[1:]]
            words.append(", ".join(parts))
        return "; ".join(words)


def _check_array(
    name: str, array: npt.NDArray[Any], dtype: type[Any], shape: tuple[int | None, ...]
) -> None:
    """Raise ValueError unless it is an array of this type and shape (None: any size)."""
    wanted = ", ".join("n" if size is None else str(size) for size in shape)
    fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == len(shape)
    if not fits or any(s not in (None, n) for s, n in zip(shape, array.shape, strict=True)):
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "none"
        raise ValueError(f"expected {name} of {np.dtype(dtype)} [{wanted}], got {found}")
