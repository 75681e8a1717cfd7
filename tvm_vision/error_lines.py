"""The one line of others' exceptions that says what is wrong. A leaf that imports nothing."""

from __future__ import annotations


def lines_of(text: object) -> list[str]:
    """The lines of a text that are not empty, without the spaces around them."""
    return [line.strip() for line in str(text).splitlines() if line.strip()]


def first_line(error: BaseException) -> str:
    """What an exception says first; its kind, where it says nothing."""
    return next(iter(lines_of(error)), type(error).__name__)


def last_line(error: BaseException) -> str:
    """What an exception says last, where TVM, linkers and loaders have the reason; or its kind."""
    return [type(error).__name__, *lines_of(error)][-1]


def manifest_reason(error: BaseException) -> str:
    """What is wrong by an error of mod.json, without that name and without what to do: for those
    who never wrote a mod.json, whose remedy is another."""
    return str(error).removeprefix("mod.json: ").rpartition(": ")[0]
