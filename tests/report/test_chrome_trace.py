"""Traces for Perfetto."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.report.chrome_trace import DEVICE, HOST, trace_events, write_trace
from tvm_vision.runtime.profiler import KernelInfo
from tvm_vision.runtime.tracing import BOUNDED, FrameTrace, Trace

KERNELS = (KernelInfo("first", ("a", "b"), 12, 34), KernelInfo("second", ("c",), 5))


def frame(begin: int, first_mark: int) -> FrameTrace:
    marks = tuple(first_mark + 100 * i for i in range(5))
    return FrameTrace(begin, begin + 50, begin + 90, begin + 900, begin + 950, marks, BOUNDED, 40)


# The device's first mark is before the host's begin: clocks that are off by more than they should.
TRACE = Trace("vulkan0", "a device", KERNELS, (frame(1000, 1200), frame(3000, 2990)))


def test_events_are_in_order_and_within_their_frame() -> None:
    document = json.loads(json.dumps(trace_events(TRACE, "net")))
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    begins = [event["ts"] for event in events]
    assert begins == sorted(begins) and begins[0] == 0.0
    assert all(event["dur"] >= 0 for event in events)
    for number, traced in enumerate(TRACE.frames):
        of_frame = [event for event in events if event["args"]["frame"] == number]
        (whole,) = (event for event in of_frame if event["name"] == f"frame {number}")
        assert whole["dur"] == pytest.approx((traced.end - traced.begin) / 1e3)
        stages = [e for e in of_frame if e["pid"] == HOST and e is not whole]
        assert [e["name"] for e in stages] == ["set inputs", "submit", "wait", "read outputs"]
        assert sum(e["dur"] for e in stages) == pytest.approx(whole["dur"])
        on_device = [e for e in of_frame if e["pid"] == DEVICE]
        assert [e["name"] for e in on_device] == ["upload", "first", "second", "read-back"]
        for one, other in itertools.pairwise(on_device):
            assert one["ts"] + one["dur"] == pytest.approx(other["ts"])


def taken_over(document: dict[str, Any]) -> tuple[list[tuple[str, int]], list[str]]:
    """What Perfetto's importer makes of complete events: name and depth of each, and the names of
    those that it leaves out, as they begin within another of their thread and end after it.

    By its source (json_trace_tokenizer.cc, slice_tracker.cc, as of 2026): times are microseconds,
    rounded to nanoseconds, sorted by their begin alone; an interval is closed on the left and open
    on the right; thread names go by "tid".
    """
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    found, left_out = [], []
    open_ones: dict[int, list[int]] = {}
    for event in sorted(events, key=lambda event: round(event["ts"] * 1000)):
        begin, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
        ends = open_ones.setdefault(event["tid"], [])
        while ends and ends[-1] <= begin:
            ends.pop()
        if any(begin + length > end for end in ends):
            left_out.append(event["name"])
            continue
        found.append((event["name"], len(ends)))
        ends.append(begin + length)
    return found, left_out


def test_perfetto_leaves_nothing_out() -> None:
    """Times of odd nanoseconds, late in a machine's life, with kernels that take none."""
    rng = np.random.default_rng(7)
    begin, frames = 2**52 + 1, []
    for _ in range(50):
        steps = rng.integers(1, 5_000, 9)
        steps[rng.integers(0, 8, 3)] = 0  # outputs take some time to read
        places = [begin + int(place) for place in np.cumsum(steps)]
        host, marks = places[:2] + places[-3:], places[2:7]
        begin, submit, submitted, finished, end = host
        frames.append(
            FrameTrace(begin, submit, submitted, finished, end, tuple(marks), BOUNDED, 40)
        )
        begin = end + int(rng.integers(0, 3))
    document = json.loads(json.dumps(trace_events(Trace("d", "d", KERNELS, tuple(frames)), "n")))
    found, left_out = taken_over(document)
    assert left_out == [] and len(found) > 50 * 7
    stages = {"set inputs", "submit", "wait", "read outputs"}
    on_host = [(name, depth) for name, depth in found if name in stages or "frame" in name]
    assert {depth for name, depth in on_host if "frame" in name} == {0}
    assert {depth for name, depth in on_host if name in stages} == {1}
    assert {depth for name, depth in found if name in ("first", "second")} == {0}
    threads = {event["tid"]: event["pid"] for event in document["traceEvents"]}
    assert threads == {HOST: HOST, DEVICE: DEVICE}


def test_lanes_and_clocks_have_names() -> None:
    document = trace_events(TRACE, "net")
    names = {
        event["pid"]: event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    assert names == {HOST: "host", DEVICE: "a device"}
    assert document["otherData"]["network"] == "net"
    assert document["otherData"]["clocks"].startswith("bounded: ")
    assert document["otherData"]["uncertainty_us"] == pytest.approx(0.04)
    first = next(e for e in document["traceEvents"] if e["name"] == "first")
    assert first["args"] == {
        "frame": 0, "kernel": 0, "nodes": "a b", "bytes": 12, "operations": 34
    }  # fmt: skip


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="file"):
        write_trace(tmp_path / "file" / "trace.json", TRACE, "net")
