"""What networks say about a frame, as plain data checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


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
