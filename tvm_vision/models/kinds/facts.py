"""What is known of a network before its kind is, and what is said of it then."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...package import DepthInfo, DetectionInfo, Preprocessing, SegmentationInfo

FLOATS = ("float32", "float16")
# The largest number of an output, by its name, where convolutions find nothing; None: unknown.
Extent = Callable[[str], "float | None"]
# Longer ones are no names of classes.
LONGEST_TEXT = 2**20


class Spec(Protocol):
    """Name, shape and type of an input or output."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def dtype(self) -> str: ...


def is_real(spec: Spec) -> bool:
    """Whether its numbers are real ones, or integers that stand for such."""
    return spec.dtype in FLOATS or getattr(spec, "quantization", None) is not None


@dataclass(frozen=True)
class Facts:
    """inputs, outputs: of the network. labels: names of its classes that were given, or none.
    metadata: what its file says of itself. raw: names of the outputs that come from convolutions
    without any arithmetic, so that boxes in them are yet to be decoded; sigmoid: of those that a
    sigmoid makes. tflite: the file is a TFLite file. pixels: mean and deviation of the image's
    channels, for each or for all, where the file says them. extras: values that a box
    has behind its scores, but for a mask's coefficients; None where that is not known. counts: name
    of an output -> that of another with the number of its rows that are real. extent: what is known
    of outputs without an image.
    """

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    raw: frozenset[str] = frozenset()
    sigmoid: frozenset[str] = frozenset()
    tflite: bool = False
    pixels: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    extras: int | None = None
    counts: Mapping[str, str] = field(default_factory=dict)
    extent: Extent = field(default=lambda name: None, compare=False)

    def without_counts(self) -> Facts:
        """The same, with what counts the rows of outputs among ``counts`` alone: suppression in a
        network gives results of their largest size, and NAME_count beside NAME."""
        names = {spec.name for spec in self.outputs}
        counts = {name: f"{name}_count" for name in names if f"{name}_count" in names}
        real = tuple(spec for spec in self.outputs if spec.name not in counts.values())
        return replace(self, outputs=real, counts=counts)

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the images that it takes; None where it takes none."""
        if len(self.inputs) != 1:
            return None
        shape = tuple(self.inputs[0].shape)
        if len(shape) != 4 or shape[0] != 1:
            return None
        for channels in (3, 1):
            if shape[1] == channels:
                return (shape[2], shape[3])
            if shape[3] == channels:
                return (shape[1], shape[2])
        return None

    @property
    def is_gray(self) -> bool:
        """Whether the images that it takes have one channel. So have spectrograms."""
        return self.size is not None and 3 not in (self.inputs[0].shape[1], self.inputs[0].shape[3])

    @property
    def channels_last(self) -> bool:
        """Whether its image has them so, and all maps of it."""
        return self.size is not None and self.inputs[0].shape[1] != (1 if self.is_gray else 3)

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the classes in a list that the file has, a name a line."""
        return tuple(self.metadata.get("labels", "").splitlines())

    def prepared(self, usual: Preprocessing) -> Preprocessing:
        """As a family of networks has its images, with the pixels that this file says."""
        if self.pixels is None:
            return usual
        mean, std = (values * 3 if len(values) == 1 else values for values in self.pixels)
        return replace(usual, mean=mean, std=std, color_order="rgb")

    def of_rank(self, rank: int) -> list[Spec]:
        """Outputs of numbers with so many axes, for one image."""
        return [
            s for s in self.outputs
            if len(s.shape) == rank and is_real(s) and s.shape[0] == 1
        ]  # fmt: skip

    def literal(self, key: str) -> object:
        """A value of the metadata that is written as in Python; None where there is none such."""
        text = self.metadata.get(key, "")
        if not text or len(text) > LONGEST_TEXT:
            return None
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None

    def keypoint_shape(self) -> tuple[int, int] | None:
        """How many keypoints an object has, and of how many values, as Ultralytics writes it."""
        shape = self.literal("kpt_shape")
        if isinstance(shape, (list, tuple)) and len(shape) == 2:
            points, each = shape
            if type(points) is int and type(each) is int and points > 0 and each > 0:
                return points, each
        return None

    def names(self, count: int) -> tuple[str, ...]:
        """The given labels, or those of the file's list or of Paddle's exporters where there are so
        many classes, or class0, class1, ...."""
        if self.labels:
            return self.labels
        for key in ("labels", "character"):
            written = tuple(self.metadata.get(key, "").splitlines())
            if len(written) == count:
                return written
        return tuple(f"class{index}" for index in range(count))


@dataclass(frozen=True)
class Reading:
    """What a network is taken for.

    sure: nothing else is likely; where it is not, it counts only when it is asked for.
    """

    kind: str
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    detection: DetectionInfo | None = None
    segmentation: SegmentationInfo | None = None
    depth: DepthInfo | None = None
    sure: bool = True


def described(specs: Sequence[Spec]) -> str:
    """Names and shapes, for messages."""
    return ", ".join(f"{s.name} {list(s.shape)}" for s in specs) or "none"
