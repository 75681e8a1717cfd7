"""What decides which boxes a network's results have, of every network that finds boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from .class_options import ClassOptions, ClassRules, Given, check_class_names, read_class_options


@dataclass(frozen=True)
class UsualThresholds:
    """What counts where nothing else is asked for: see the properties of Thresholds.

    classes: name of a class -> confidence, where the package says one of its own.
    """

    confidence: float
    iou: float
    max_detections: int
    classes: Mapping[str, float] = field(default_factory=dict)


class Thresholds:
    """A confidence, an iou, a number of boxes, and options of classes, which can be changed between
    frames. None stands for what the package says, or is usual for the kind."""

    def __init__(
        self,
        class_names: Sequence[str],
        usual: UsualThresholds,
        *,
        confidence: float | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
        class_options: Given | None = None,
    ) -> None:
        """Raises InputError for values out of their range, and for classes that there are not."""
        self._of_classes, self._usual = tuple(class_names), usual
        self._class_options: dict[str, ClassOptions] = {}
        self.confidence = confidence
        self.iou = iou
        self.max_detections = max_detections
        self.class_options = class_options

    @property
    def confidence(self) -> float:
        """Boxes have a score above this, 0 to 1, but for classes of which ``class_options`` says
        another one, or, as long as this is the package's, the package."""
        return self._usual.confidence if self._confidence is None else self._confidence

    @confidence.setter
    def confidence(self, value: float | None) -> None:
        self._confidence = None if value is None else fraction("a confidence", value)
        self._rules: ClassRules | None = None

    @property
    def iou(self) -> float:
        """Of two boxes that suppress each other and whose intersection over union is above this,
        the better one stays; 0 to 1."""
        return self._iou

    @iou.setter
    def iou(self, value: float | None) -> None:
        self._iou = fraction("an iou", self._usual.iou if value is None else value)

    @property
    def max_detections(self) -> int:
        """Boxes in one result at the most, at least 1."""
        return self._max_detections

    @max_detections.setter
    def max_detections(self, value: int | None) -> None:
        value = self._usual.max_detections if value is None else value
        self._max_detections = count("detections", value)

    @property
    def class_options(self) -> dict[str, ClassOptions]:
        """What of single classes counts, by name. Set, it also takes mappings of fields:
        ``{"ball": {"confidence": 0.3, "max_count": 1}}``. Raises InputError for others."""
        return dict(self._class_options)

    @class_options.setter
    def class_options(self, given: Given | None) -> None:
        found = read_class_options(given)
        check_class_names(found, self._of_classes)
        self._class_options = found
        self._rules = None

    @property
    def class_rules(self) -> ClassRules:
        """All that is said of classes, as arrays."""
        if self._rules is None:
            self._rules = self.rules_for(self._confidence, self._class_options)
        return self._rules

    def rules_for(
        self, confidence: float | None, options: Mapping[str, ClassOptions]
    ) -> ClassRules:
        """What ``class_rules`` would be with another confidence and other options of classes."""
        usual = self._usual
        general = usual.confidence if confidence is None else confidence
        said = usual.classes if confidence is None else {}
        return ClassRules.of(self._of_classes, general, said, options)

    def call_classes(self, names: Sequence[str]) -> None:
        """Have options go by other names, one for each class, in their order."""
        new = dict(zip(self._of_classes, names, strict=True))
        self._usual = replace(
            self._usual, classes={new[name]: value for name, value in self._usual.classes.items()}
        )
        self._of_classes = tuple(names)
        self.class_options = {}


def count(what: str, value: int) -> int:
    """The number of things of a kind that were asked for. Raises InputError for none of them."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"a whole number of {what} from 1 on is needed, found {value!r}")
    return int(value)


def fraction(what: str, value: float) -> float:
    """Raises InputError for what is no number from 0 to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    # NaN is in no range.
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{what} from 0 to 1 is needed, found {value}")
    return number


_CHECKS: dict[str, Callable[[Any], object]] = {
    "confidence": partial(fraction, "a confidence"),
    "iou": partial(fraction, "an iou"),
    "max_detections": partial(count, "detections"),
    "class_options": read_class_options,
    "top": partial(count, "top classes"),
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for options out of their range, of whatever class: of a network that passes
    them over they are as wrong."""
    for name, value in options.items():
        if value is not None and name in _CHECKS:
            _CHECKS[name](value)
