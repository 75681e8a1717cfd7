"""Options of classes as parameters, ``classes.NAME.OPTION``, and their values. Without ROS.

What an option means and may be is ClassOptions' to say; networks apply it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tvm_vision.errors import InputError
from tvm_vision.models.class_options import UNSAID, USUAL, ClassOptions, from_plain, plain

from . import settings
from .settings import NOW, TYPE_NAMES, Parameter

PREFIX = "classes."
OPTIONS = {item.name: item.metadata for item in fields(ClassOptions)}
DEFAULTS = plain(USUAL)


def split(name: str) -> tuple[str, str] | None:
    """The class and the option that a parameter's name stands for; None for other parameters.

    A class's name may have points in it.
    """
    inner, _, option = name.removeprefix(PREFIX).rpartition(".")
    return (inner, option) if name.startswith(PREFIX) and inner and option in OPTIONS else None


def parameter(class_name: str, option: str) -> Parameter:
    """The parameter of an option of a class."""
    about, default = OPTIONS[option], DEFAULTS[option]
    number = not isinstance(default, bool)
    return Parameter(
        name=f"{PREFIX}{class_name}.{option}",
        default=default,
        description=f"Of detections called {class_name}: {about['text']}.",
        effect=NOW,
        unit=about["unit"],
        low=0.0 if number else None,
        high=about["high"] if number else None,
        unsaid=UNSAID if option == "confidence" else None,
    )


def parameters_of(class_names: Sequence[str]) -> Iterator[Parameter]:
    """All parameters of classes."""
    for name in class_names:
        for option in OPTIONS:
            yield parameter(name, option)


def problem_in(values: Mapping[str, Any]) -> str:
    """The first reason why values of parameters, by name, are not taken; "" where they are."""
    for name, value in values.items():
        if (found := split(name)) is not None and (problem := parameter(*found).problem(value)):
            return problem
    return ""


def widened(name: str, value: Any) -> Any:
    """A whole number as a double where one is wanted, of any of the node's parameters."""
    found = split(name)
    if found is None:
        return settings.widened(name, value)
    return settings.widened_to(type(DEFAULTS[found[1]]), value)


class ClassSettings:
    """The values that were given; those of classes that a network lacks stay for another one."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], Any] = {}

    def set(self, values: Mapping[str, Any]) -> bool:
        """Keep values by a parameter's name; returns whether one of them is new.

        Raises InputError for one that is not taken. Other parameters are passed over.
        """
        problem = problem_in(values)
        if problem:
            raise InputError(problem)
        before = dict(self._values)
        for name, value in values.items():
            if (found := split(name)) is not None:
                self._values[found] = value
        return self._values != before

    def value(self, class_name: str, option: str) -> Any:
        """What was given, or the default."""
        return self._values.get((class_name, option), DEFAULTS[option])

    def options(self, class_names: Collection[str]) -> dict[str, ClassOptions]:
        """For a network, by the names of its classes; those of which nothing is said are left
        out."""
        found: dict[str, dict[str, Any]] = {}
        for (name, option), value in self._values.items():
            if name in class_names:
                found.setdefault(name, {})[option] = value
        options = {name: from_plain(values) for name, values in found.items()}
        return {name: item for name, item in options.items() if item != USUAL}

    def unknown(self, class_names: Collection[str]) -> list[str]:
        """Classes of which something is said, and which a network lacks."""
        return sorted({name for name, _ in self._values} - set(class_names))


def markdown() -> str:
    """The table of docs/reference/node.md."""
    lines = ["| parameter | type | default | range | unit | meaning |", "|---|---|---|---|---|---|"]
    for item in parameters_of(["NAME"]):
        cells = (
            f"`{item.name}`", TYPE_NAMES[item.kind], f"`{str(item.default).lower()}`",
            item.allowed, item.unit, item.description,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
