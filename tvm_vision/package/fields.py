"""Strict reading of JSON: each value is taken by name and type, what is left over is refused."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn, TypeVar

from ..errors import InputError, PackageError

Item = TypeVar("Item")
REMEDY = "compile the model again, or use the tvm_vision that made the package"
# Above this a number of bytes or elements is a mistake, whatever the device.
LARGEST = 2**40
# Lists and objects in each other; a package has ten.
MOST_LEVELS = 64


def wrong(where: str, needed: str, found: object) -> NoReturn:
    """Raise the PackageError for a value that is not as it has to be."""
    raise PackageError(f"mod.json: {where} must be {needed}, found {shown(found)}: {REMEDY}")


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], remedy: str) -> Iterator[None]:
    """What the block says of a mod.json, said of another file, as an InputError with its own
    remedy."""
    try:
        yield
    except PackageError as error:
        reason = str(error).removeprefix("mod.json").removeprefix(": ").strip()
        reason = reason.rpartition(": ")[0] or reason
        raise InputError(f"'{os.fspath(path)}': {reason}: {remedy}") from None


def shown(value: object) -> str:
    """A value of any size in at most about 60 characters."""
    if isinstance(value, dict):
        return f"an object with {len(value)} fields"
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"a list of {len(value)}"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:56]} ..."


def parse_object(data: bytes) -> Any:
    """JSON from bytes. Raises PackageError for what is no JSON, NaN,
    nested too deeply, or has a field twice."""
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
        if deeper_than(MOST_LEVELS, value):
            raise RecursionError
        if b"\\u" in data:  # halves of surrogate pairs, which no other text can hold
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except PackageError:
        raise
    except UnicodeEncodeError:
        raise PackageError(f"mod.json: a text in it is no Unicode: {REMEDY}") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise PackageError(
            f"mod.json must be JSON in UTF-8, and is not ({reason}): {REMEDY}"
        ) from None


def deeper_than(most: int, value: Any) -> bool:
    """Whether parsed JSON has more than so many lists and objects in each other."""
    level = [value]
    for _ in range(most):
        lists = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [inner for items in lists if isinstance(items, list) for inner in items]
    return any(isinstance(item, (dict, list)) for item in level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PackageError(f"mod.json: the field {shown(twice)} is there twice: {REMEDY}")
    return result


def _no_constant(name: str) -> NoReturn:
    raise PackageError(f"mod.json: numbers must be finite, found {name}: {REMEDY}")


class Fields:
    """One JSON object whose fields are taken one by one; ``done`` refuses what is left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            wrong(where or "it", "an object", value)
        self._fields = dict(value)
        self._where = where

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def take(self, name: str) -> Any:
        if name not in self._fields:
            raise PackageError(f"mod.json: the field {self.path(name)} is missing: {REMEDY}")
        return self._fields.pop(name)

    def optional(self, name: str, read: Callable[[Any, str], Item]) -> Item | None:
        """A field that may be missing, or null."""
        value = self._fields.pop(name, None)
        return None if value is None else read(value, self.path(name))

    def done(self) -> None:
        if self._fields:
            unknown = self.path(shown(min(self._fields))[1:-1])
            raise PackageError(f"mod.json: the field {unknown} is not known: {REMEDY}")

    def text(self, name: str, *, among: Collection[str] | None = None, empty: bool = False) -> str:
        return text(self.take(name), self.path(name), among=among, empty=empty)

    def integer(self, name: str, low: int = 0, high: int = LARGEST) -> int:
        return integer(self.take(name), self.path(name), low, high)

    def number(self, name: str) -> float:
        return number(self.take(name), self.path(name))

    def boolean(self, name: str) -> bool:
        return boolean(self.take(name), self.path(name))

    def items(
        self, name: str, read: Callable[[Any, str], Item], *, count: int | None = None
    ) -> tuple[Item, ...]:
        """A list, each item read by ``read(value, where)``; of exactly ``count`` where given."""
        value, where = self.take(name), self.path(name)
        if not isinstance(value, list) or count not in (None, len(value)):
            wrong(where, "a list" if count is None else f"a list of {count}", value)
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    def mapping(self, name: str, read: Callable[[Any, str], Item]) -> dict[str, Item]:
        """An object of any names, each value read by ``read(value, where)``."""
        value, where = self.take(name), self.path(name)
        if not isinstance(value, dict):
            wrong(where, "an object", value)
        return {key: read(item, f"{where}.{shown(key)[1:-1]}") for key, item in value.items()}


def text(
    value: Any, where: str, *, among: Collection[str] | None = None, empty: bool = False
) -> str:
    empty = empty or (among is not None and "" in among)
    if not isinstance(value, str) or not (value or empty):
        wrong(where, "a text" if empty else "a text that is not empty", value)
    if among is not None and value not in among:
        wrong(where, f"one of {', '.join(map(repr, among))}", value)
    return value


def boolean(value: Any, where: str) -> bool:
    return value if isinstance(value, bool) else wrong(where, "true or false", value)


def integer(value: Any, where: str, low: int = 0, high: int = LARGEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        wrong(where, f"a whole number from {low} to {high}", value)
    return value


def number(value: Any, where: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        wrong(where, "a number", value)
    try:
        result = float(value)
    except OverflowError:
        wrong(where, "a finite number", value)
    return result if math.isfinite(result) else wrong(where, "a finite number", value)
