"""DETR and its kin: queries with a box each, as parts of the input."""

from __future__ import annotations

from ...package import DetectionInfo
from .facts import Facts, Reading, Spec
from .preparation import STRETCHED, STRETCHED_IMAGENET

FORM = "two outputs, logits [1, queries, classes] and boxes [1, queries, 4]"
MOST_QUERIES = 1000
# DETR and YOLOS, which have a class for no object, have so many queries; those with a sigmoid
# three hundred and more.
SOFTMAX_QUERIES = 100


def find(facts: Facts) -> Reading | None:
    """What a DETR's outputs say; None where they are no such outputs."""
    pair = _pair(facts)
    if pair is None or facts.size is None:
        return None
    boxes, logits = pair
    classes = logits.shape[2]
    softmax = logits.shape[1] <= SOFTMAX_QUERIES
    if facts.labels:
        softmax = len(facts.labels) == classes - 1
    info = DetectionInfo(
        (boxes.name,), scores=(logits.name,), relative=True, suppress=False,
        activation="softmax" if softmax else "sigmoid",
        background="last" if softmax else "none",
        multi_label=not softmax, confidence=0.5,
    )  # fmt: skip
    named = "logit" in logits.name and "box" in boxes.name
    return Reading(
        "detr",
        facts.names(classes - softmax),
        STRETCHED_IMAGENET if softmax else STRETCHED,
        info,
        sure=named and classes > softmax,
    )


def _pair(facts: Facts) -> tuple[Spec, Spec] | None:
    """Boxes and logits: by their names where there are more outputs, else by their shapes."""
    rows = [s for s in facts.of_rank(3) if s.shape[1] <= MOST_QUERIES]
    named = [s for s in rows if "box" in s.name or "logit" in s.name]
    rows = named if len(named) == 2 else rows
    if len(rows) != 2 or rows[0].shape[1] != rows[1].shape[1]:
        return None
    for boxes, logits in (rows, rows[::-1]):
        if boxes.shape[2] == 4 and "logit" not in boxes.name:
            return boxes, logits
    return None
