"""What a package says of the confidence at which boxes of single classes count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fields import number, wrong

# Kinds of networks that find boxes.
KINDS = ("yoeo", "yolo", "detr", "ssd")


def read_class_thresholds(value: Any, where: str) -> dict[str, float]:
    """Name of a class -> confidence in 0..1. Raises PackageError for anything else."""
    if not isinstance(value, dict):
        wrong(where, "an object of confidences by name of a class", value)
    found = {name: number(item, f"{where}.{name}") for name, item in value.items()}
    for name, item in found.items():
        if not 0.0 <= item <= 1.0:
            wrong(f"{where}.{name}", "from 0 to 1", item)
    return found


def check_class_thresholds(
    thresholds: Mapping[str, float], kind: str, labels: Sequence[str]
) -> None:
    """Raise PackageError unless all of them are of classes whose boxes the network finds."""
    where = "model.class_thresholds"
    if kind not in KINDS:
        wrong(where, f"in networks of kind {', '.join(KINDS[:-1])} or {KINDS[-1]}", kind)
    for name in thresholds:
        if name not in labels:
            wrong(where, f"of classes among {', '.join(labels)}", name)
