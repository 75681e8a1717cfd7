"""Searches for schedules on the device: the kernels of a network, candidates, records of both.

``tune_model`` is the whole of it. search.py decides what to measure and knows no device;
measure.py builds and measures in processes of their own; records.py keeps what came out.
"""

from __future__ import annotations

from .records import Record, Records, merge, read_records, write_records
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
