"""Searches for schedules on the device: the kernels of a network, candidates, records of both.

``tune_model`` is the whole of it. search.py decides what to measure and knows no device;
measure.py builds and measures in processes of their own; records.py keeps what came out, which is
all that compiling needs: the rest is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .records import Record, Records, merge, read_records, write_records

if TYPE_CHECKING:
    from .session import KernelSummary, list_kernels, reason_not_to_tune, tune_model
    from .tuner import TuningOptions, TuningOutcome, TuningState

__all__ = [
    "KernelSummary",
    "Record",
    "Records",
    "TuningOptions",
    "TuningOutcome",
    "TuningState",
    "list_kernels",
    "merge",
    "read_records",
    "reason_not_to_tune",
    "tune_model",
    "write_records",
]

if not TYPE_CHECKING:  # for which no name would be a wrong one
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(
                ("KernelSummary", "list_kernels", "reason_not_to_tune", "tune_model"), ".session"
            ),
            **dict.fromkeys(("TuningOptions", "TuningOutcome", "TuningState"), ".tuner"),
        },
    )
