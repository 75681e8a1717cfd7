"""A trace as Perfetto and chrome://tracing read it: Trace Event Format, complete events ("X")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runtime.profiler import KernelInfo
from ..runtime.tracing import CLOCKS, FrameTrace, Trace
from ..whole_files import write_whole

# Lanes: "pid" of the format, and "tid", which some readers take for one in all of a machine.
HOST, DEVICE = 1, 2


def trace_events(trace: Trace, name: str) -> dict[str, Any]:
    """The document: microseconds from the first frame's begin, events in order of their begin.

    name: of the network.
    """
    first = trace.frames[0]
    events = [event for i, f in enumerate(trace.frames) for event in _events(trace, f, i)]
    origin = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = (event["ts"] - origin) / 1e3
        event["dur"] /= 1e3
    # Of two that begin together the one that came first here holds the other, or ends at once.
    events.sort(key=lambda event: event["ts"])
    clocks = CLOCKS[first.clocks]
    uncertainty = max(frame.uncertainty for frame in trace.frames) / 1e3
    return {
        "traceEvents": [
            *_lane(HOST, "host", "frames"),
            *_lane(DEVICE, trace.device_description, "kernels"),
            *events,
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "network": name,
            "device": trace.device_description,
            "clocks": f"{first.clocks}: {clocks}",
            "uncertainty_us": uncertainty,
            "kernels": "a timestamp between any two keeps them from overlapping: together they "
            "take longer than in a frame without",
        },
    }


def write_trace(path: Path, trace: Trace, name: str) -> None:
    """Write it. Raises InputError where that is not possible; the file is whole or not there."""
    document = json.dumps(trace_events(trace, name), ensure_ascii=False)
    write_whole(path, document.encode(), InputError)


def _lane(process: int, name: str, thread: str) -> Iterator[dict[str, Any]]:
    for kind, text in (("process_name", name), ("thread_name", thread)):
        yield {"ph": "M", "pid": process, "tid": process, "name": kind, "args": {"name": text}}
    yield {
        "ph": "M", "pid": process, "tid": process, "name": "process_sort_index",
        "args": {"sort_index": process},
    }  # fmt: skip


def _events(trace: Trace, frame: FrameTrace, number: int) -> Iterator[dict[str, Any]]:
    """One frame: on the host its stages within it, on the device copies and kernels."""

    def event(lane: int, name: str, begin: int, end: int, **args: Any) -> dict[str, Any]:
        return {
            "ph": "X", "pid": lane, "tid": lane, "name": name,
            "cat": "host" if lane == HOST else "gpu",
            "ts": begin, "dur": end - begin, "args": {"frame": number, **args},
        }  # fmt: skip

    yield event(HOST, f"frame {number}", frame.begin, frame.end)
    yield event(HOST, "set inputs", frame.begin, frame.submit)
    yield event(HOST, "submit", frame.submit, frame.submitted)
    yield event(HOST, "wait", frame.submitted, frame.finished)
    yield event(HOST, "read outputs", frame.finished, frame.end)
    if frame.upload[1] > frame.upload[0]:
        yield event(DEVICE, "upload", *frame.upload)
    for index, (kernel, (begin, end)) in enumerate(zip(trace.kernels, frame.kernels, strict=True)):
        yield event(DEVICE, kernel.function, begin, end, **_facts(kernel, index))
    if frame.readback[1] > frame.readback[0]:
        yield event(DEVICE, "read-back", *frame.readback)


def _facts(kernel: KernelInfo, index: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"kernel": index, "nodes": " ".join(kernel.nodes)}
    facts["bytes"] = kernel.bytes
    if kernel.operations is not None:
        facts["operations"] = kernel.operations
    return facts
