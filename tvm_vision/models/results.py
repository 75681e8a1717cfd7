"""What networks say about a frame, as plain data checked when it is made.

One family: each type holds numpy arrays about one frame, in pixels of that frame, says what its
classes are called, and can be filtered: ``found[found.scores > 0.5]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..error_lines import no_attribute
from .instance_masks import InstanceMasks
from .other_names import OF_OBJECTS, OF_RESULTS

#: What picks some of n objects by their place: a number, a slice, bool [n], or integers.
Places = int | slice | Sequence[int] | npt.NDArray[Any]
#: The same, or the name of a class.
Selector = Places | str


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

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The probabilities as an array, float64 [n]."""
        return np.array(self.probabilities, np.float64)

    def __getitem__(self, selector: Selector) -> Classification:
        """Some of the classes, each once, the best first; that of a name, or none. Raises
        IndexError for those that are not there."""
        if isinstance(selector, str):
            selector = np.array([label == selector for label in self.labels], np.bool_)
        chosen = _chosen(selector, len(self))
        return Classification(
            tuple(self.class_ids[i] for i in chosen),
            tuple(self.labels[i] for i in chosen),
            tuple(self.probabilities[i] for i in chosen),
        )

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
    masks: the pixels of each object; None where the network does not say.
    keypoints: float32 [n, k, 3], x and y in pixels of the frame, which may lie outside it, and how
        sure the network is of each, in 0..1; None where there are none.
    oriented_boxes: float32 [n, 5], centre x, centre y, width and height in pixels of the frame, and
        the angle in radians by which the width is turned from the x axis towards the y axis
        (clockwise to the eye); ``boxes`` then are the upright boxes around them. None where boxes
        are upright.
    track_ids: int64 [n], from 1 on, the same for an object from frame to frame; 0 for one without.
        None where nothing is tracked.

    Raises ValueError, naming what was expected and what was given, when these do not hold.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    class_names: tuple[str, ...]
    masks: InstanceMasks | None = None
    keypoints: npt.NDArray[np.float32] | None = None
    oriented_boxes: npt.NDArray[np.float32] | None = None
    track_ids: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        _check_array("scores", self.scores, np.float32, (None,))
        count = len(self.scores)
        _check_array("boxes", self.boxes, np.float32, (count, 4))
        _check_array("class_ids", self.class_ids, np.int32, (count,))
        if self.masks is not None and len(self.masks) != count:
            raise ValueError(f"expected {count} masks, one for each box, got {len(self.masks)}")
        if self.keypoints is not None:
            _check_array("keypoints", self.keypoints, np.float32, (count, None, 3))
        if self.oriented_boxes is not None:
            _check_array("oriented_boxes", self.oriented_boxes, np.float32, (count, 5))
        if self.track_ids is not None:
            _check_array("track_ids", self.track_ids, np.int64, (count,))
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

    def __getitem__(self, selector: Selector) -> Detections:
        """Some of the objects with all that is known of them, each once, the best first:
        ``found[0]``, ``found[:3]``, ``found[found.scores > 0.5]``, ``found[[0, 2]]``,
        ``found["ball"]``.

        Raises IndexError for objects that are not there, ValueError for a name that the network
        lacks.
        """
        if isinstance(selector, str):
            return self.of_class(selector)
        chosen = _chosen(selector, len(self))
        return replace(
            self,
            boxes=self.boxes[chosen],
            scores=self.scores[chosen],
            class_ids=self.class_ids[chosen],
            masks=None if self.masks is None else self.masks.select(chosen.tolist()),
            keypoints=None if self.keypoints is None else self.keypoints[chosen],
            oriented_boxes=None if self.oriented_boxes is None else self.oriented_boxes[chosen],
            track_ids=None if self.track_ids is None else self.track_ids[chosen],
        )

    def track_names(self) -> list[str]:
        """Of each object its id as text, "" for one without."""
        if self.track_ids is None:
            return [""] * len(self)
        return [str(number) if number else "" for number in self.track_ids.tolist()]

    def of_class(self, *names: str) -> Detections:
        """The objects of some classes. Raises ValueError for a name that the network lacks."""
        known = [_class_of(name, self.class_names) for name in names]
        return self[np.isin(self.class_ids, known)]

    if not TYPE_CHECKING:  # for which no name would be a wrong one

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("Detections", name, OF_OBJECTS)

    def corners(self) -> npt.NDArray[np.float32] | None:
        """Of oriented boxes, float32 [n, 4, 2]: x and y of each corner in pixels, one after the
        other around the box; None where boxes are upright."""
        return None if self.oriented_boxes is None else box_corners(self.oriented_boxes)


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
        return float(np.mean(self[name]))

    def __getitem__(self, name: str) -> npt.NDArray[np.bool_]:
        """Where the frame shows a class, bool [height, width]. Raises ValueError for no class."""
        where: npt.NDArray[np.bool_] = self.mask == _class_of(name, self.class_names)
        return where


@dataclass(frozen=True, eq=False)
class DepthMap:
    """How far away each pixel of one frame is, or how near.

    values: float32 [height, width] of the frame, as the network gives them.
    unit: "metres", or "" where only their order and proportion say something.
    inverse: whether larger values are nearer, as disparities are.

    Raises ValueError when the array is of another form.
    """

    values: npt.NDArray[np.float32]
    unit: str = ""
    inverse: bool = False

    def __post_init__(self) -> None:
        _check_array("values", self.values, np.float32, (None, None))

    def nearness(self) -> npt.NDArray[np.float32]:
        """float32 [height, width]: 1 for the nearest pixel, 0 for the farthest, evenly in between;
        0 for what is no number, and everywhere where all is equally far."""
        finite = np.isfinite(self.values)
        if not finite.any():
            return np.zeros_like(self.values)
        low, high = float(self.values[finite].min()), float(self.values[finite].max())
        if low == high:
            return np.zeros_like(self.values)
        shares = ((self.values - low) / (high - low)).astype(np.float32)
        return np.where(finite, shares if self.inverse else 1 - shares, 0).astype(np.float32)


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
    """What one network says about one frame; None for what it does not look for.

    Its objects, or its classes, can be counted, gone through and filtered without a detour:
    ``len(result)``, ``for name, score, box in result``, ``result[result.scores > 0.5]``,
    ``result["ball"]``. Where a network looks for neither there are none.
    """

    timing: Timing
    detections: Detections | None = None
    segmentation: SegmentationMask | None = None
    classification: Classification | None = None
    depth: DepthMap | None = None

    @property
    def scores(self) -> npt.NDArray[Any]:
        """Of each object or class, [n], not increasing."""
        return np.empty(0, np.float32) if self._listed is None else self._listed.scores

    def __len__(self) -> int:
        """How many objects or classes there are."""
        return 0 if self._listed is None else len(self._listed)

    def __bool__(self) -> bool:
        """A frame in which nothing was found has a result, too."""
        return True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Of each object (name, score, (x1, y1, x2, y2)), of each class (label, probability)."""
        return iter(() if self._listed is None else self._listed)

    def __getitem__(self, selector: Selector) -> VisionResult:
        """The result with some of its objects or classes, and all else as it is.

        Raises IndexError for those that are not there, ValueError for a name that the network
        lacks, and where there are neither objects nor classes.
        """
        if self.detections is not None:
            return replace(self, detections=self.detections[selector])
        if self.classification is not None:
            return replace(self, classification=self.classification[selector])
        raise ValueError(
            "expected a result with objects or classes to choose from, got one with pixels alone: "
            "use result.segmentation['NAME'], or result.depth.values"
        )

    @property
    def _listed(self) -> Detections | Classification | None:
        return self.classification if self.detections is None else self.detections

    if not TYPE_CHECKING:  # for which no name would be a wrong one

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("VisionResult", name, OF_RESULTS)

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """One line for people: "ball 93, robot 88; field 61 %, lines 4 %".

        Scores in percent, then the part of the frame that each class of the mask takes, of those
        that are seen and but for the first one, the background, and the range of depths.
        """
        words = []
        if self.classification is not None:
            likely = [f"{label} {100 * part:.0f}" for label, part in self.classification]
            words.append(", ".join(likely))
        if self.detections is not None:
            numbers = [f"#{name} " if name else "" for name in self.detections.track_names()]
            boxes = [
                f"{name} {number}{100 * score:.0f}"
                for number, (name, score, _) in zip(numbers, self.detections, strict=True)
            ]
            words.append(", ".join(boxes) or "nothing")
        if self.segmentation is not None:
            mask = self.segmentation
            shares = {name: mask.share(name) for name in mask.class_names[1:]}
            parts = [f"{name} {100 * share:.0f} %" for name, share in shares.items() if share]
            words.append(", ".join(parts) or f"{mask.class_names[0]} 100 %")
        if self.depth is not None:
            values, unit = self.depth.values, self.depth.unit
            words.append(f"depth {values.min():.3g} to {values.max():.3g} {unit}".rstrip())
        return "; ".join(words)


def box_corners(oriented: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Corners float32 [n, 4, 2] of oriented boxes [n, 5]: centre, plus and minus half the width
    along (cos a, sin a) and half the height along (-sin a, cos a)."""
    centre, sides, angle = oriented[:, :2], oriented[:, 2:4], oriented[:, 4]
    along = np.stack((np.cos(angle), np.sin(angle)), axis=1) * sides[:, :1] / 2
    across = np.stack((-np.sin(angle), np.cos(angle)), axis=1) * sides[:, 1:] / 2
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.stack([centre + a * along + b * across for a, b in signs], axis=1).astype(np.float32)


def _class_of(name: str, class_names: Sequence[str]) -> int:
    """The number of a class. Raises ValueError for a name that is none."""
    if name not in class_names:
        raise ValueError(f"expected a class of {', '.join(class_names)}, got '{name}'")
    return class_names.index(name)


def _chosen(selector: Places, count: int) -> npt.NDArray[np.int64]:
    """Positions among ``count`` that a selector names, rising: what is best stays first."""
    array = selector if isinstance(selector, (int, slice)) else np.asarray(selector)
    if isinstance(array, np.ndarray) and array.size == 0:
        array = array.astype(np.bool_ if len(array) == count else np.int64)
    return np.unique(np.arange(count)[array])


def _check_array(
    name: str, array: npt.NDArray[Any], dtype: type[Any], shape: tuple[int | None, ...]
) -> None:
    """Raise ValueError unless it is an array of this type and shape (None: any size)."""
    wanted = ", ".join("n" if size is None else str(size) for size in shape)
    fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == len(shape)
    if not fits or any(s not in (None, n) for s, n in zip(shape, array.shape, strict=True)):
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "none"
        raise ValueError(f"expected {name} of {np.dtype(dtype)} [{wanted}], got {found}")
