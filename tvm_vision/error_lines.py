"""The one line of others' exceptions that says what is wrong, and of names that only others have.

A leaf that imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


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


def no_attribute(of: str, name: str, others: Mapping[str, str]) -> AttributeError:
    """That ``of`` has no attribute of a name, and what has it here where other libraries have it:
    ``others`` by their names."""
    return AttributeError(f"a {of} has no '{name}'{use_of(name, others)}")


def meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """What a name that is not known may have meant; ``otherwise`` where nothing is like it."""
    from difflib import get_close_matches  # which no program needs that has no such error

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else otherwise


def use_of(name: str, others: Mapping[str, str]) -> str:
    """What to use here for a name of other libraries, at a line's end; "" where none is known."""
    return f": use {others[name]}" if name in others else ""
