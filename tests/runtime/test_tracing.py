"""When what of a frame ran: host and device on one clock, on Vulkan and on the CPU."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.loaders import compile_loader
from support.small_graph import N, assert_frame, frame
from tvm_vision.errors import InputError
from tvm_vision.runtime.graph_executor import GraphExecutor
from tvm_vision.runtime.profiler import kernel_infos
from tvm_vision.runtime.tracing import BOUNDED, CALIBRATED, HOST


def test_a_frame_lies_between_its_begin_and_end(executor: GraphExecutor) -> None:
    before = time.perf_counter_ns()
    trace = executor.trace(3, {"x": frame(1)})
    after = time.perf_counter_ns()
    assert [kernel.nodes for kernel in trace.kernels] == [
        ("Mul_0", "Add_0"), ("Mul_1", "Add_1"), ("Add_2",)
    ]  # fmt: skip
    assert len(trace.frames) == 3
    last = before
    for traced in trace.frames:
        host = [traced.begin, traced.submit, traced.submitted, traced.finished, traced.end]
        assert [last, *host, after] == sorted([last, *host, after])
        last = traced.end
        assert list(traced.marks) == sorted(traced.marks)
        assert len(traced.marks) == len(trace.kernels) + 3
        assert traced.uncertainty >= 0
        slack = traced.uncertainty
        assert traced.submit - slack <= traced.marks[0]
        assert traced.marks[-1] <= traced.finished + slack
        assert traced.kernels[0][0] == traced.upload[1]
        assert traced.kernels[-1][1] == traced.readback[0]
    assert_frame(executor, frame(1))


def test_the_clocks_are_named(executor: GraphExecutor) -> None:
    executor.set_input("x", frame(2))
    clocks = {traced.clocks for traced in executor.trace(2).frames}
    on_host = executor.device.type == "cpu"
    assert clocks == {HOST} if on_host else clocks in ({CALIBRATED}, {BOUNDED})


def test_a_trace_and_a_profile_disturb_nothing(executor: GraphExecutor) -> None:
    for i in range(4):
        executor.set_input("x", frame(i))
        ticket = executor.submit()
        executor.wait(ticket)
        executor.trace(1)
        executor.profile(repeat=1, warmup=0)
        assert_frame(executor, frame(i))


def test_a_trace_of_no_frame(executor: GraphExecutor) -> None:
    with pytest.raises(InputError, match="at least 1 frame, found frames=0"):
        executor.trace(0)


WITHOUT_CALIBRATION = """
import json, tvm
from support.small_graph import MOD_JSON, WEIGHTS, frame, functions, loaded
from tvm.target import Target
from tvm_vision.schedules import schedule_module
target = Target({"kind": "vulkan", "from_device": 0}, "llvm")
with target:
    library = tvm.compile(schedule_module(functions(), target), target=target)
executor = loaded((library, tvm.vulkan(0)), json.dumps(MOD_JSON))
for f in executor.trace(3, {"x": frame(1)}).frames:
    print(json.dumps([f.clocks, f.uncertainty, f.submit, f.finished, *f.marks]))
"""


def test_without_calibrated_timestamps_the_submission_bounds_them(
    tmp_path: Path, device_info: object
) -> None:
    """In the middle of where they can be; how far that may be off is said."""
    loader = compile_loader("smaller_loader", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CALIBRATION],
        env={
            **os.environ,
            "SMALLER_LOADER": "timeDomains=1",
            "TVM_VISION_VULKAN_LOADER": str(loader),
            "TVM_VISION_VULKAN_VALIDATION": "0",
        },
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for clocks, uncertainty, submit, finished, *marks in map(json.loads, done.stdout.splitlines()):
        assert clocks == BOUNDED and uncertainty > 0
        assert marks[0] - submit == pytest.approx(uncertainty, abs=2)
        assert finished - marks[-1] == pytest.approx(uncertainty, abs=2)


def test_what_a_kernel_moves_is_counted_once() -> None:
    def tensor(dtype: str, count: int) -> dict:
        return {"shape": [2, count], "dtype": dtype, "storage": 0, "offset": 0}

    types = ["float32", "float16", "int8", "uint8", "int64"]
    graph = {
        "tensors": [tensor(dtype, N) for dtype in types],
        "kernels": [
            {"function": "f", "args": [a, b, b, 0], "num_outputs": 1, "operations": 5}
            for a, b in itertools.combinations(range(1, 5), 2)
        ],
    }
    found = kernel_infos(graph)
    assert [(info.bytes // (2 * N), info.arithmetic) for info in found] == [
        (7, "int8"), (7, "float16"), (14, "float16"), (6, "int8"), (13, "int8"), (13, "float32")
    ]  # fmt: skip
    assert {info.operations for info in found} == {5}
