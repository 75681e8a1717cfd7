"""A tracker and two servers on loopback: measured in parallel, one of them killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import psutil
import pytest
import tvm
from tvm import te, topi
from tvm.rpc.tracker import Tracker

from tvm_vision.compiler import parse_target
from tvm_vision.errors import DeviceError, TuningError
from tvm_vision.schedules import TargetLimits, choices, kernel_key
from tvm_vision.tuning.measure import DeviceMeasurer, MeasureJob
from tvm_vision.tuning.rpc import count_boards, remote_target
from tvm_vision.tuning.worker import Argument, Board, MeasureRuns

KEY = "board"
HOST = "127.0.0.1"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def tracker() -> Iterator[Tracker]:
    made = Tracker(HOST, 9190, 9390, silent=True)
    yield made
    made.terminate()


@pytest.fixture(scope="module")
def servers(tracker: Tracker) -> Iterator[list[subprocess.Popen[str]]]:
    """Two times ``tvm-vision rpc-server``."""
    command = [sys.executable, "-c", "from tvm_vision.tools.cli import main; main()", "rpc-server"]
    options = ["--key", KEY, "--tracker", f"{HOST}:{tracker.port}", "--port", "9400"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen(
            [*command, *options, "--port-end", "9599"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    wait_for(lambda: boards(tracker) == 2)
    yield started
    for server in started:
        kill(server)
        server.wait()


def boards(tracker: Tracker) -> int:
    try:
        return count_boards(HOST, tracker.port, KEY)
    except TuningError:
        return 0


def wait_for(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.2)


def test_a_board_tells_what_to_compile_for(
    tracker: Tracker, servers: list[subprocess.Popen[str]]
) -> None:
    found = remote_target(HOST, tracker.port, KEY)
    here = parse_target("vulkan")
    assert found["kind"] == "vulkan"
    assert found["device_name"] == here.attrs["device_name"]


def test_what_a_lost_board_was_doing_goes_to_the_other(
    tracker: Tracker, servers: list[subprocess.Popen[str]]
) -> None:
    a = te.placeholder((24, 40), "float32", "a")
    b = te.placeholder((40, 56), "float32", "b")
    product = te.create_prim_func([a, b, topi.matmul(a, b)])
    shapes = ((24, 40), (40, 56), (24, 56))
    job = MeasureJob(
        kernel_key(product),
        "product",
        tvm.ir.save_json(product),
        tuple(Argument(shape, "float32", shape == (24, 56)) for shape in shapes),
    )
    target = parse_target("vulkan")
    decisions = [choice.to_dict() for choice in choices(product, TargetLimits.of(target))[:8]]
    board = Board(HOST, tracker.port, KEY)
    with closing(DeviceMeasurer.of(target, MeasureRuns(1, 1, 0), (board, board))) as measurer:
        results = []
        for result in measurer.measure(job, decisions):
            results.append(result)
            if len(results) == 1:
                kill(servers[0])
        assert [result.error for result in results] == [""] * len(decisions)
        assert measurer.check(job, results[-1]) == ""


def kill(server: subprocess.Popen[str]) -> None:
    """The whole of a server at once, as if its machine lost its power."""
    try:
        children = psutil.Process(server.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    for child in children:
        # A server's child lives for one session: it may have ended since the list was made.
        with suppress(psutil.NoSuchProcess):
            child.kill()
    server.kill()


def test_no_tracker_no_board() -> None:
    with pytest.raises(TuningError, match="none answers"):
        count_boards(HOST, 1, KEY)
    with pytest.raises(DeviceError, match="rpc-server"):
        remote_target(HOST, 1, KEY)


def test_a_key_that_nobody_has(tracker: Tracker, servers: list[subprocess.Popen[str]]) -> None:
    with pytest.raises(TuningError, match="a board with the key 'nuc' is needed"):
        count_boards(HOST, tracker.port, "nuc")


def test_a_server_that_is_brought_down_comes_back(tmp_path) -> None:
    from tvm_vision.tuning import rpc

    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            max(psutil.Process().children(), key=psutil.Process.create_time).kill()

    rpc.serve(key="k", port=9600, port_end=9700, tell=tell, stop=lambda: len(said) >= 3)
    assert [line.split()[0] for line in said] == ["serving", "the", "serving"]


def test_no_free_port() -> None:
    from tvm_vision.tuning import rpc

    with pytest.raises(TuningError, match="a free port"):
        rpc.serve(key="k", host="192.0.2.1", port=9600, port_end=9601)
