"""From records to what the compiler asks: which schedule a kernel gets."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..cache.files import KeptFiles
from ..compiler.kernels.key import makers
from ..errors import InputError
from ..schedules import Limits, ScheduleConfig, is_offered, kernel_key
from .records import Record, Records, TuningKey, merge

LOGGER = logging.getLogger(__name__)
SHIPPED = Path(__file__).parent / "shipped"
# The choices that a device was offered for a kernel, by all that the answer depends on: to look at
# all tiles of a convolution takes a tenth of a second, each time that a network is compiled.
OFFERED = KeptFiles("offered", ".yes", most_bytes=16, most_total=128 << 10)
_YES = b"yes"


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


def chooser(
    records: Records, place: TuningKey, limits: Limits
) -> Callable[[Any], ScheduleConfig | None]:
    """What the records of a place say of a kernel (a PrimFunc without schedule); None for nothing.
    Where a processor's own say nothing, those of one for which the same code is made do.

    A decision that this version does not know, or that a device of these limits is not offered, is
    passed over, with a notice in the log.
    """
    here = Records([*records.at(place), *records.modelled_for(place)])
    alike = Records([record for record in records if record.place.is_alike(place)])
    known: dict[str, ScheduleConfig | None] = {}

    def choose(function: Any) -> ScheduleConfig | None:
        key = kernel_key(function)
        if key not in known:
            winner = here.winner(key, place) or alike.chosen_nearby(key, place)
            known[key] = _choice(winner, function, limits)
        return known[key]

    return choose


def _choice(winner: Record | None, function: Any, limits: Limits) -> ScheduleConfig | None:
    if winner is None:
        return None
    try:
        choice = ScheduleConfig.from_dict(dict(winner.decision))
        if not _is_offered(function, limits, choice):
            raise InputError(f"{choice.parameters} is nothing that this device is offered")
    except InputError as error:
        LOGGER.warning("the record of kernel %s is passed over: %s", winner.name, error)
        return None
    return choice


def _is_offered(function: Any, limits: Limits, choice: ScheduleConfig) -> bool:
    asked = [makers(), kernel_key(function), repr(limits), json.dumps(choice.to_dict())]
    key = hashlib.sha256("\0".join(asked).encode()).hexdigest()
    if OFFERED.load(key) == _YES:
        return True
    found = is_offered(function, limits, choice)
    if found:
        OFFERED.store(key, _YES)
    return found
