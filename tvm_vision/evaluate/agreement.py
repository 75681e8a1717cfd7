"""Whether two runs of a network see the same: boxes and classes of pixels, rather than numbers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import cv2
import numpy as np

from ..errors import DeviceError
from ..models.frames import Letterbox, Preprocessor
from ..models.thresholds import Thresholds
from ..package import PackageInfo
from .compare import of_real_rows

if TYPE_CHECKING:
    from ..models.frame_model import FrameModel
    from ..models.results import Detections, SegmentationMask
    from ..models.vision_model import Image
    from ..models.yoeo import YoeoDetector
    from ..runtime.graph_executor import GraphExecutor
    from .litert import LiteRtReference
    from .reference import Reference

    Found = tuple[Detections | None, SegmentationMask | None]
    Seeing: TypeAlias = YoeoDetector | FrameModel
    Arrays = dict[str, np.ndarray]

# Kinds whose results are compared as well as their numbers.
SEEING = ("yoeo", "yolo", "detr", "ssd", "segmenter")

# Boxes with a higher score count; a counterpart may be this much below, for it may be rounded.
SCORE = 0.3
MARGIN = 0.03
EVERY = 1_000_000
# Largest distance of an edge, in pixels of the network's input, or of a frame that is smaller.
PIXELS = {"fp32": 1.0, "fp16": 1.0, "int8": 3.0}
# Part of the boxes that may be without a counterpart: of quantized networks scores differ, too.
MISSING = {"fp32": 0.0, "fp16": 0.0, "int8": 0.1}
# Part of the mask that has to be the same.
MASK_AGREEMENT = {"fp32": 0.999, "fp16": 0.99, "int8": 0.99}


@dataclass(frozen=True)
class Agreement:
    """How far what is found on a frame is what the reference finds there.

    boxes: of the reference, with a score above SCORE. missing: of both, those without a counterpart
        of their class in the other within ``pixels``.
    worst_pixels, worst_score: largest difference of an edge and of a score between counterparts.
    mask: part of the pixels that are of the same class; None without a segmentation.
    pixels: largest distance of the edges of counterparts.
    finds_boxes: whether the network is of a kind that does.
    """

    boxes: int
    missing: int
    worst_pixels: float
    worst_score: float
    mask: float | None
    pixels: float = PIXELS["fp32"]
    finds_boxes: bool = True

    def within(self, strictness: str) -> bool:
        """Whether they are the same, as far as ``strictness`` can be (``strictness_for``)."""
        mask = 1.0 if self.mask is None else self.mask
        few = self.missing <= MISSING[strictness] * self.boxes
        return few and mask >= MASK_AGREEMENT[strictness]

    def __str__(self) -> str:
        mask = None if self.mask is None else f"mask {100 * self.mask:.2f} % the same"
        boxes = self._boxes() if self.finds_boxes else None
        return "; ".join(filter(None, (boxes, mask))) or "neither boxes nor a mask to compare"

    def _boxes(self) -> str:
        same = "all the same" if self.missing == 0 else f"{self.missing} without a counterpart"
        words = (
            f"{self.boxes} candidate boxes with a score above {SCORE:g}, {same} within "
            f"{self.pixels:.3g} px"
        )
        if self.boxes and self.boxes > self.missing:
            words += f" (by {self.worst_pixels:.2f} px, score by {self.worst_score:.3f})"
        return words

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def seeing(executor: GraphExecutor) -> Seeing | None:
    """What looks at frames with a package's network; None where it is of another kind."""
    from ..models.registry import predictor

    info = PackageInfo.from_json(executor.info)
    return cast("Seeing", predictor(info)(executor)) if info.model.kind in SEEING else None


def strictness_for(model: Seeing, reference: Reference | LiteRtReference) -> str:
    """A network's precision; "int8" where it is quantized; "fp16" where the model is of fp16, or
    frames are prepared on the device, which does not round them to whole numbers after resizing, as
    OpenCV does."""
    if reference.quantized:
        return "int8"
    return model.precision if _frame_size(model) is None and not reference.fp16 else "fp16"


def compare_frames(
    model: Seeing, reference: Reference | LiteRtReference, images: Iterable[Image]
) -> Iterator[Agreement]:
    """How far a network finds on each frame what its ONNX file in onnxruntime finds.

    images: as the network takes them; where it takes frames of one size, they are resized. The
    reference's input is prepared here, also where the network's is on the device. All boxes are
    compared, before suppression, for that may decide by what rounding makes; the model keeps the
    settings for it.
    """
    if isinstance(model, Thresholds):
        model.confidence, model.iou = SCORE - MARGIN, 1.0
        model.max_detections = EVERY
    pixels = PIXELS[strictness_for(model, reference)]
    size = _frame_size(model)
    on_host = None if size is None else Preprocessor(model.preprocessing)
    for image in images:
        if size is not None:
            image = cv2.resize(image, size[::-1]).astype(np.uint8, copy=False)
        tensor, letterbox = model.prepare(image)
        numbers = model.run_prepared()
        ours = _seen(model, numbers, letterbox)
        if on_host is not None:
            letterbox = on_host(image)
            tensor = on_host.tensor
        given = model.real_outputs(reference.run({reference.inputs[0]: tensor}))
        wanted = _with_counts(given, numbers)
        allowed = pixels * max(1.0, float(letterbox.scale.max()))
        yield agreement(ours, _seen(model, wanted, letterbox), allowed)


def _frame_size(model: Seeing) -> tuple[int, int] | None:
    """Height and width of the frames of a network that prepares them on its device."""
    size: tuple[int, int] | None = getattr(model, "frame_size", None)
    return size


def _seen(model: Seeing, outputs: Arrays, letterbox: Letterbox) -> Found:
    parts = model.interpret(outputs, letterbox)
    return parts.get("detections"), parts.get("segmentation")


def _with_counts(wanted: Arrays, ours: Arrays) -> Arrays:
    """The reference's outputs with the numbers of their rows, where ours have them."""
    _, counted = of_real_rows(ours, wanted)
    return wanted | {name: value for name, value in counted.items() if name not in wanted}


def compare_package(package: Path, model: Path, images: Iterable[Image]) -> str:
    """In a line, how far a YOEO network's package finds what its ONNX file in onnxruntime finds.

    Raises DeviceError where boxes or mask are not the same.
    """
    from ..models.yoeo import YoeoDetector
    from .reference import Reference

    if importlib.util.find_spec("onnxruntime") is None:
        return (
            "note: not compared with onnxruntime, which is not installed: pip install onnxruntime"
        )
    detector = YoeoDetector.load(package)
    reference = Reference(model)
    strictness = strictness_for(detector, reference)
    found = list(compare_frames(detector, reference, images))
    for each in found:
        if not each.within(strictness):
            raise DeviceError(
                f"boxes and mask must be those of onnxruntime, found {each}: nothing is written; "
                "'tvm-vision compile' and 'profile --per-layer-error' show where it goes wrong on "
                + detector.device_description
            )
    boxes = sum(each.boxes for each in found)
    masks = [each.mask for each in found if each.mask is not None]
    mask = f", {100 * min(masks):.2f} % of the mask or more" if masks else ""
    return f"the same as onnxruntime on {len(found)} images: {boxes} boxes{mask}"


def agreement(ours: Found, reference: Found, pixels: float = PIXELS["fp32"]) -> Agreement:
    """Compare two results, both with boxes down to a confidence of SCORE - MARGIN.

    pixels: largest distance of the edges of boxes that are the same.
    """
    missing, worst_pixels, worst_score = _unmatched(ours[0], reference[0], pixels)
    missing_here, *_ = _unmatched(reference[0], ours[0], pixels)
    wanted = reference[0]
    boxes = 0 if wanted is None else int(np.count_nonzero(wanted.scores > SCORE))
    mask = None
    if ours[1] is not None and reference[1] is not None:
        mask = float(np.mean(ours[1].mask == reference[1].mask))
    return Agreement(
        boxes, missing + missing_here, worst_pixels, worst_score, mask, pixels, wanted is not None
    )


def _unmatched(
    some: Detections | None, others: Detections | None, pixels: float
) -> tuple[int, float, float]:
    """Of boxes that count, those that ``others`` lack; largest differences of the rest."""
    missing, worst_pixels, worst_score = 0, 0.0, 0.0
    if some is None or others is None:
        return missing, worst_pixels, worst_score
    for index in np.flatnonzero(some.scores > SCORE):
        same = np.flatnonzero(others.class_ids == some.class_ids[index])
        distance = np.abs(others.boxes[same] - some.boxes[index]).max(axis=1)
        if not len(same) or distance.min() > pixels:
            missing += 1
            continue
        best = int(distance.argmin())
        score = abs(float(others.scores[same[best]]) - float(some.scores[index]))
        worst_pixels = max(worst_pixels, float(distance[best]))
        worst_score = max(worst_score, score)
    return missing, worst_pixels, worst_score
