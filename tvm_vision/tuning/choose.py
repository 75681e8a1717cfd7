"""From records to what the compiler asks: which schedule a kernel gets."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..schedules import Choice, kernel_key
from .records import Place, Records, merge

LOGGER = logging.getLogger(__name__)
SHIPPED = Path(__file__).parent / "shipped"


def shipped_records() -> Records:
    """What was measured before this version was published."""
    return merge(sorted(SHIPPED.glob("*.jsonl")))


def load_records(paths: Iterable[str | os.PathLike[str]] = (), *, shipped: bool = True) -> Records:
    """The shipped records and those of files, whose choices count more.

    Raises TuningError as read_records does.
    """
    found = shipped_records() if shipped else Records()
    found.add(merge(paths))
    return found


def chooser(records: Records, place: Place) -> Callable[[Any], Choice | None]:
    """What the records of a place say of a kernel (a PrimFunc without schedule); None for nothing.

    A decision that this version does not know is passed over, with a notice in the log.
    """
    here = records.at(place)
    known: dict[str, Choice | None] = {}

    def choose(function: Any) -> Choice | None:
        key = kernel_key(function)
        if key not in known:
            known[key] = _choice(here, key, place)
        return known[key]

    return choose


def _choice(records: Records, key: str, place: Place) -> Choice | None:
    winner = records.winner(key, place)
    if winner is None:
        return None
    try:
        return Choice.from_dict(dict(winner.decision))
    except InputError as error:
        LOGGER.warning("the record of kernel %s is passed over: %s", winner.name, error)
        return None
