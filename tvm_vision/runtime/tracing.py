"""When what of a frame ran: host and device on one clock."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .profiler import KernelInfo

# How the device's timestamps came onto the host's clock.
CALIBRATED, BOUNDED, HOST = "calibrated", "bounded", "host"
CLOCKS = {
    CALIBRATED: "the driver read both clocks at one moment (calibrated timestamps)",
    BOUNDED: "the driver cannot read both clocks at one moment: the device's times are in the "
    "middle of where they can be, between the submission and the end of the wait",
    HOST: "the kernels run on the host, by its clock",
}


@dataclass(frozen=True)
class FrameTrace:
    """One frame, in nanoseconds of the host's steady clock (``time.perf_counter_ns``).

    Attributes:
        begin: where its inputs began to be set.
        submit, submitted: before it was handed to the device, and after.
        finished: when the host knew that it was through.
        end: when its outputs had been copied out.
        marks: on the device: where the upload began, where each kernel began, where the last one
            ended, and where the read-back ended.
        clocks: CALIBRATED, BOUNDED or HOST.
        uncertainty: by how much all ``marks`` may be early or late.
    """

    begin: int
    submit: int
    submitted: int
    finished: int
    end: int
    marks: tuple[int, ...]
    clocks: str
    uncertainty: int

    @property
    def upload(self) -> tuple[int, int]:
        """Where inputs were copied on the device, begin and end."""
        return self.marks[0], self.marks[1]

    @property
    def kernels(self) -> list[tuple[int, int]]:
        """Begin and end of each kernel; between any two lies a timestamp, so none overlap."""
        inner = self.marks[1:-1]
        return list(itertools.pairwise(inner))

    @property
    def readback(self) -> tuple[int, int]:
        """Where outputs were copied on the device, begin and end."""
        return self.marks[-2], self.marks[-1]


@dataclass(frozen=True)
class Trace:
    """Frames one after the other, and what ran in them."""

    device: str
    device_description: str
    kernels: tuple[KernelInfo, ...]
    frames: tuple[FrameTrace, ...]


def trace_frames(
    traced: Callable[[], Any],
    set_inputs: Callable[[], object],
    read_outputs: Callable[[], object],
    frames: int,
    on_host: bool,
) -> tuple[FrameTrace, ...]:
    """So many frames, after one that does not count: it records the network.

    traced: the native executor's "trace". on_host: whether kernels run on the CPU.
    Raises InputError for fewer than one frame.
    """
    if frames < 1:
        raise InputError(f"a trace needs at least 1 frame, found frames={frames}")
    found = []
    for _ in range(frames + 1):
        begin = time.perf_counter_ns()
        set_inputs()
        submit, submitted, finished, uncertainty, calibrated, *marks = map(int, traced())
        read_outputs()
        end = time.perf_counter_ns()
        clocks = HOST if on_host else CALIBRATED if calibrated else BOUNDED
        found.append(
            FrameTrace(begin, submit, submitted, finished, end, tuple(marks), clocks, uncertainty)
        )
    return tuple(found[1:])
