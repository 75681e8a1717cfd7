"""What operators of our own are told beside their tensors, as text, as which graphs have it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TypeVar

Form = TypeVar("Form", bound="TextForm")


class TextForm:
    """Of a frozen dataclass of numbers, text, and tuples of such: its text, and back.

    Forms that hold other dataclasses make these in ``from_values``.
    """

    def to_json(self) -> str:
        """For ``from_json``; the same text for equal forms."""
        return json.dumps(self.values(), sort_keys=True)

    def values(self) -> dict[str, Any]:
        """What the text holds."""
        return asdict(self)  # type: ignore[call-overload]  # of its subclasses

    @classmethod
    def from_json(cls: type[Form], text: str) -> Form:
        """What ``to_json`` wrote."""
        return cls.from_values(_tuples(json.loads(text)))

    @classmethod
    def from_values(cls: type[Form], values: dict[str, Any]) -> Form:
        """A form of its fields by name, sequences as tuples."""
        return cls(**values)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(of) for name, of in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
