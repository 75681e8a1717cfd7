"""Classifiers whose files say both their classes and their pixels, as TFLite files do."""

from __future__ import annotations

from .facts import Facts, Reading, is_real
from .preparation import STRETCHED


def find(facts: Facts) -> Reading | None:
    """A classifier, where the file has a name for each of the scores of its one output."""
    labels = facts.labels or facts.written
    if facts.size is None or facts.pixels is None or len(facts.outputs) != 1:
        return None
    (output,) = facts.outputs
    if not is_real(output) or tuple(output.shape) != (1, len(labels)) or len(labels) < 2:
        return None
    return Reading("classifier", labels, STRETCHED)
