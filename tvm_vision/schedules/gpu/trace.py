"""Schedules that TVM's MetaSchedule found, as the trace of its steps: offers no candidates.

It is never tried by itself; a tuner's records ask for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tvm import s_tir
from tvm.s_tir import Schedule

from ..common import NotThisKind, TargetLimits

TRACE = "trace"


@dataclass(frozen=True)
class TraceSteps:
    """The steps of a schedule, as TVM writes them in JSON."""

    json: str


def shape_of(schedule: Schedule) -> Any:
    """Raises NotThisKind: what a trace is for, only its records say."""
    raise NotThisKind("is for records alone")


def candidates(shape: Any, limits: TargetLimits) -> list[TraceSteps]:
    """None."""
    return []


def schedule_trace(
    schedule: Schedule, limits: TargetLimits, steps: TraceSteps | None = None
) -> None:
    """Takes the steps of a trace.

    Raises:
        NotThisKind: there are none, or they are no JSON.
        tvm.s_tir.ScheduleError: they do not fit the kernel.
    """
    if steps is None:
        raise NotThisKind("is for records alone")
    try:
        trace = json.loads(steps.json)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotThisKind(f"its steps are no JSON: {error}") from None
    s_tir.Trace.apply_json_to_schedule(trace, schedule)
