"""Several targets in one text. A leaf without TVM."""

from __future__ import annotations

import csv

from .errors import InputError


def split_targets(text: str) -> list[str]:
    """The targets of a list such as "renoir,tgl,llvm -mattr=+avx2,+fma": what begins with + or -
    goes on with what is before it; quotes hold other commas; JSON is one.

    Raises InputError for an empty one.
    """
    if text.lstrip().startswith("{"):
        return [text]
    found: list[str] = []
    for part in next(csv.reader([text], skipinitialspace=True), []):
        if found and part.startswith(("+", "-")):
            found[-1] += f",{part}"
        else:
            found.append(part.strip())
    if not all(found) or not found:
        raise InputError(f"targets such as renoir,tgl,llvm are needed, found {text!r}")
    return found
