"""Segmenters and depth: an output with a value, or values, for each pixel."""

from __future__ import annotations

from ...package import DepthInfo, SegmentationInfo
from ...package.pixels import MOST_CLASSES, plane_of
from .facts import Facts, Reading, Spec, is_real
from .preparation import STRETCHED_IMAGENET

SEGMENTER_FORM = (
    "an output of scores [1, classes, height, width], of classes [1, height, width], or of one "
    "value for each pixel"
)
DEPTH_FORM = "one output of depth [1, height, width] or [1, 1, height, width]"
DEPTH_WORDS = ("depth", "disp")
SEGMENTER_WORDS = ("seg", "mask", "logit", "out")
# An image has so many channels, too.
COLORS = 3
# Pixels of the input in one of the output, at the most; features have more.
COARSEST = 8


def find_segmenter(facts: Facts) -> Reading | None:
    """What a segmenter's output says; None where there is no such output."""
    if facts.size is None:
        return None
    output = _first(facts)
    if output is None:
        return None
    if not is_real(output) and _is_plane(facts, output):
        info = SegmentationInfo(output.name, form="indices")
        return Reading(
            "segmenter", facts.names(MOST_CLASSES), STRETCHED_IMAGENET, segmentation=info
        )
    if _is_plane(facts, output):
        threshold = 0.5 if output.name in facts.sigmoid else 0.0
        info = SegmentationInfo(output.name, form="logit", threshold=threshold)
        known = len(facts.written) == 1
        labels = facts.labels or ("background", facts.written[0] if known else "object")
        return Reading(
            "segmenter", labels, STRETCHED_IMAGENET, segmentation=info,
            sure=known,
        )  # fmt: skip
    if len(output.shape) != 4 or not is_real(output) or output.shape[0] != 1:
        return None
    last = _is_image(facts, output.shape[1:3]) and not _is_image(facts, output.shape[2:])
    classes = output.shape[3 if last else 1]
    sides = output.shape[1:3] if last else output.shape[2:]
    if not 2 <= classes <= MOST_CLASSES or not _is_image(facts, sides):
        return None
    info = SegmentationInfo(output.name, channels_last=last)
    named = any(word in output.name.lower() for word in SEGMENTER_WORDS)
    # Spectrograms have one channel and give maps of their size, too.
    whole = tuple(sides) == facts.size and classes != COLORS and not facts.is_gray
    known = len(facts.labels) == classes
    return Reading(
        "segmenter", facts.names(classes), STRETCHED_IMAGENET, segmentation=info,
        sure=whole or known or (named and classes != COLORS and not facts.is_gray),
    )  # fmt: skip


def find_depth(facts: Facts) -> Reading | None:
    """What the output of a network for depth says; None where there is no such output."""
    output = _first(facts)
    if facts.size is None or output is None or not is_real(output):
        return None
    if not _is_plane(facts, output):
        return None
    # Most that are trained on many data sets give disparities, MiDaS and Depth Anything among them.
    info = DepthInfo(output.name, inverse=True)
    named = any(word in output.name.lower() for word in DEPTH_WORDS)
    return Reading("depth", (), STRETCHED_IMAGENET, depth=info, sure=named)


def _first(facts: Facts) -> Spec | None:
    """The first output; of more than one, those behind it must be like it, as torchvision's second
    head is."""
    if not facts.outputs:
        return None
    first, *others = facts.outputs
    alike = all(len(s.shape) == len(first.shape) for s in others)
    return first if alike and len(others) <= 1 else None


def _is_plane(facts: Facts, output: Spec) -> bool:
    sides = plane_of(output.shape)
    return sides is not None and _is_image(facts, sides)


def _is_image(facts: Facts, sides: object) -> bool:
    """Whether two sides are those of the input, or a part of them that is not too coarse."""
    assert facts.size is not None and isinstance(sides, (tuple, list))
    height, width = sides
    if min(height, width) < 2:
        return False
    rows, columns = facts.size[0] / height, facts.size[1] / width
    return max(rows, columns) <= COARSEST and abs(rows - columns) <= 0.1 * max(rows, columns)
