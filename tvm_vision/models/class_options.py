"""What of single classes counts: confidence, number, size, or nothing at all; by the class's name.

One mechanism for Python, the commands and the node. ``ClassOptions`` says it of one class,
``ClassRules`` is that of all classes as arrays, which networks that find boxes ask.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..error_lines import meant
from ..errors import InputError

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
# Above these a number is a mistake.
MOST = 10_000
LARGEST_SIZE = 65_536.0
# Of a confidence, in text and parameters: that of the package or the network counts.
UNSAID = -1.0
# No score is above it.
NEVER = math.inf


def _option(default: Any, description: str, high: float = 0.0, unit: str = "") -> Any:
    return field(default=default, metadata={"text": description, "high": high, "unit": unit})


@dataclass(frozen=True)
class ClassOptions:
    """What of one class counts.

    enabled: whether its boxes count at all.
    confidence: they do with a score above this, 0 to 1; None: above that of the package, or of the
        network as a whole.
    max_count: the best so many in a frame; 0: any number.
    min_size: those whose shorter side has at least so many pixels of the frame.

    Raises InputError, naming what was needed and found, for other values.
    """

    enabled: bool = _option(True, "whether boxes of this class count")
    confidence: float | None = _option(
        None, "they have a score above this; -1: as the package or confidence says", 1.0
    )
    max_count: int = _option(0, "at most so many in an image, the best; 0: any number", MOST)
    min_size: float = _option(
        0.0, "their shorter side has at least so many pixels", LARGEST_SIZE, "pixels"
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "enabled":
                fits = isinstance(value, bool)
            elif item.name == "confidence" and value is None:
                fits = True
            else:
                kinds = (int, np.integer) if item.name == "max_count" else (int, float, np.number)
                whole = isinstance(value, kinds) and not isinstance(value, bool)
                # NaN is in no range.
                fits = whole and 0 <= value <= item.metadata["high"]
            if not fits:
                raise InputError(f"{item.name} must be {ALLOWED[item.name]}, found {value!r}")


ALLOWED = {
    "enabled": "true or false",
    "confidence": "a number from 0 to 1",
    "max_count": f"a whole number from 0 to {MOST}",
    "min_size": f"a number of pixels from 0 to {LARGEST_SIZE:.0f}",
}
#: All that is said where nothing is said.
USUAL = ClassOptions()
Given = Mapping[str, ClassOptions | Mapping[str, Any]]


def read_class_options(given: Given | None) -> dict[str, ClassOptions]:
    """Options by name of a class, of such, or of mappings with some of their fields.

    Raises InputError for an option that there is not, or another value.
    """
    found = {}
    for name, options in (given or {}).items():
        if isinstance(options, ClassOptions):
            found[name] = options
            continue
        if not isinstance(options, Mapping):
            raise InputError(
                f"options of the class '{name}' are needed by name, as in {{'max_count': 1}}, "
                f"found {options!r}"
            )
        for option in options:
            _check_option(option)
        with _of_class(name):
            found[name] = ClassOptions(**options)
    return found


def parse_class_options(written: Iterable[str]) -> dict[str, ClassOptions]:
    """Options of lines CLASS.OPTION=VALUE, as in ``ball.max_count=1``; the last one counts.

    A class's name may have points in it. Raises InputError for what is not of that form.
    """
    found: dict[str, ClassOptions] = {}
    for line in written:
        left, equals, text = line.partition("=")
        name, point, option = left.rpartition(".")
        if not (equals and point and name):
            raise InputError(
                f"CLASS.OPTION=VALUE is needed, as in ball.max_count=1, found '{line}'"
            )
        _check_option(option)
        with _of_class(name):
            value = _value(option, text.strip())
            found[name] = replace(found.get(name, USUAL), **{option: value})
    return found


def check_class_names(given: Iterable[str], class_names: Sequence[str]) -> None:
    """Raise InputError for options of a class that a network lacks."""
    for name in given:
        if name not in class_names:
            hint = meant(name, class_names, f"it has {_listed(class_names)}")
            raise InputError(f"options of the network's classes are needed, found '{name}': {hint}")


def plain(options: ClassOptions) -> dict[str, bool | int | float]:
    """The options as numbers and bool alone: a confidence that was not said is UNSAID."""
    values = asdict(options)
    return {**values, "confidence": UNSAID if options.confidence is None else values["confidence"]}


def from_plain(values: Mapping[str, Any]) -> ClassOptions:
    """What ``plain`` gave, or a part of it. Raises InputError for other values."""
    said = {k: v for k, v in values.items() if not (k == "confidence" and v == UNSAID)}
    return ClassOptions(**said)


@dataclass(frozen=True)
class ClassRules:
    """The options of all classes of a network.

    confidences: float32 [classes], scores of boxes that count are above it; NEVER of a class that
        is off. counts: int64 [classes], most of them in a frame. sizes: float32 [classes], least
        length of a box's shorter side in pixels of the frame.
    """

    confidences: Floats
    counts: npt.NDArray[np.int64]
    sizes: Floats

    @classmethod
    def of(
        cls,
        class_names: Sequence[str],
        confidence: float,
        thresholds: Mapping[str, float],
        options: Mapping[str, ClassOptions],
    ) -> ClassRules:
        """confidence: of classes of which nothing else is said. thresholds: name -> confidence,
        which count over it. options: by name, which count over both."""
        each = [options.get(name, USUAL) for name in class_names]
        said = [
            thresholds.get(name, confidence) if found.confidence is None else found.confidence
            for name, found in zip(class_names, each, strict=True)
        ]
        on = np.array([found.enabled for found in each], np.bool_)
        return cls(
            np.where(on, np.array(said, np.float32), np.float32(NEVER)),
            np.array([found.max_count or np.iinfo(np.int64).max for found in each], np.int64),
            np.array([found.min_size for found in each], np.float32),
        )

    @cached_property
    def least(self) -> float:
        """Boxes with scores up to this are of no class that counts; 0 to 1."""
        on = self.confidences[self.confidences < NEVER]
        return float(on.min()) if on.size else 1.0

    @cached_property
    def alike(self) -> bool:
        """Whether ``least`` decides for all classes."""
        return bool((self.confidences == np.float32(self.least)).all())

    @cached_property
    def any_size(self) -> bool:
        """Whether boxes of every size count."""
        return not self.sizes.any()

    @cached_property
    def any_count(self) -> bool:
        """Whether any number of boxes counts."""
        return bool((self.counts == np.iinfo(np.int64).max).all())

    def described(self, class_names: Sequence[str]) -> dict[str, dict[str, bool | int | float]]:
        """What counts of each class, by name: values of ClassOptions, max_count where there is one;
        of a class that is off nothing else."""
        found: dict[str, dict[str, bool | int | float]] = {}
        rows = zip(
            class_names, self.confidences.tolist(), self.counts.tolist(), self.sizes.tolist(),
            strict=True,
        )  # fmt: skip
        for name, confidence, count, size in rows:
            if confidence == NEVER:
                found[name] = {"enabled": False}
                continue
            most = {} if count == np.iinfo(np.int64).max else {"max_count": count}
            values = {"confidence": round(confidence, 6), "min_size": round(size, 3)}
            found[name] = {"enabled": True, **values, **most}
        return found

    def admitted(self, scores: Floats, class_ids: npt.NDArray[Any]) -> Bools:
        """Of boxes, bool [n]: those whose score is above the confidence of their class."""
        above: Bools = scores > self.confidences[class_ids]
        return above

    def large_enough(self, sides: Floats, class_ids: npt.NDArray[Any]) -> Bools:
        """Of boxes with ``sides`` float32 [n, 2], in pixels of the frame, bool [n]."""
        large: Bools = sides.min(axis=1, initial=np.inf) >= self.sizes[class_ids]
        return large

    def limit(self, limit: int, candidates: int) -> int:
        """How many boxes to keep of some candidates, for ``limit`` to be left after ``first``."""
        return limit if self.any_count else max(limit, candidates)

    def first(self, class_ids: npt.NDArray[Any]) -> Bools:
        """Of boxes, the best first, bool [n]: those that come before their class is complete."""
        stays: Bools = np.ones(len(class_ids), np.bool_)
        for class_id in np.flatnonzero(self.counts < len(class_ids)).tolist():
            stays[np.flatnonzero(class_ids == class_id)[self.counts[class_id] :]] = False
        return stays


@contextlib.contextmanager
def _of_class(name: str) -> Iterator[None]:
    """Names the class in an InputError of the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}.{error}") from None


def _check_option(option: str) -> None:
    if option not in ALLOWED:
        raise InputError(f"an option of a class is one of {', '.join(ALLOWED)}, found '{option}'")


def _value(option: str, text: str) -> Any:
    """The value of a text; the text itself where it is none, which is refused then."""
    words = {"true": True, "on": True, "false": False, "off": False}
    try:
        if option == "enabled":
            return words.get(text.lower(), text)
        if option == "max_count":
            return int(text)
        number = float(text)
    except ValueError:
        return text
    return None if option == "confidence" and number == UNSAID else number


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12]) or "none"
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
