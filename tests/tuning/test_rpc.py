"""A tracker and two servers on loopback: measured and evaluated in parallel, one of them killed in
the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import cv2
import numpy as np
import onnx
import psutil
import pytest
import tvm
from onnx import TensorProto
from tvm import te, topi
from tvm.rpc.tracker import Tracker

from support import onnx_models
from support.networks import Builder
from tvm_vision.compiler import parse_target
from tvm_vision.errors import DeviceError, TuningError
from tvm_vision.evaluate import board_session
from tvm_vision.evaluate.datasets import DataSet, read_data_set
from tvm_vision.evaluate.variants import Evaluation, Variant
from tvm_vision.package import ModelInfo, Preprocessing
from tvm_vision.schedules import TargetLimits, choices, kernel_key
from tvm_vision.tuning import TuningOptions, read_records, tune_model
from tvm_vision.tuning.measure import DeviceMeasurer, MeasureJob
from tvm_vision.tuning.places import ProcessorHere, place_of
from tvm_vision.tuning.rpc import count_boards, remote_processor, remote_target
from tvm_vision.tuning.worker import Argument, Board, MeasureRuns

KEY = "board"
NAMES = ("red", "green", "blue")
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
    listening = [psutil.Process(s.pid).children() for s in started if s.poll() is None]
    for server in started:
        server.terminate()
        server.wait()
    # Whatever ends the command ends what it started.
    assert psutil.wait_procs([child for each in listening for child in each], PATIENCE)[1] == []


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
    assert remote_processor(HOST, tracker.port, KEY) == ProcessorHere.ask()


@pytest.mark.slow
def test_boards_measure_for_processors(
    tracker: Tracker, servers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Their records are those of the processor that they say they have."""
    builder = Builder(3)
    model = builder.model(9, [(builder.conv("input", 3, 8, 3), TensorProto.FLOAT)])
    path = tmp_path / "r.jsonl"
    outcome = tune_model(
        model, records=path, target="llvm", tracker=(HOST, tracker.port, KEY),
        tuning=TuningOptions(trials=4, batch=2), timing=MeasureRuns(1, 1, 0),
    )  # fmt: skip
    assert outcome.tried > 1 and outcome.failed == 0
    assert {r.place for r in read_records(path)} == {place_of(parse_target("llvm"), "fp32")}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> tuple[Path, DataSet, ModelInfo]:
    """A network whose classes are the channels by their mean, and six images of one colour each."""
    folder = tmp_path_factory.mktemp("evaluated")
    for i in range(6):
        image = np.zeros((12, 16, 3), np.uint8)
        image[..., 2 - i % 3] = 200
        (folder / "set" / NAMES[i % 3]).mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / "set" / NAMES[i % 3] / f"{i}.png"), image)
    onnx.save(onnx_models.mean_of_channels(), folder / "colours.onnx")
    info = ModelInfo(
        "colours", "classifier", labels=NAMES, preprocessing=Preprocessing(std=(255.0,) * 3)
    )
    return folder / "colours.onnx", read_data_set(folder / "set"), info


def on_boards(tracker: Tracker, evaluated, folder: Path, told=print, remark=print) -> Evaluation:
    model, data, info = evaluated
    where = (HOST, tracker.port, KEY)
    return Evaluation(
        model, data, folder, info=info, tracker=where, tell=told, remark=remark
    )  # fmt: skip


def test_an_evaluation_on_boards_is_that_of_this_machine(
    tracker: Tracker, servers: list[subprocess.Popen[str]], evaluated, tmp_path: Path
) -> None:
    variants = [Variant("vulkan", opt_level=0), Variant("llvm"), Variant("nonsense")]
    rows = on_boards(tracker, evaluated, tmp_path / "there").rows(variants)
    model, data, info = evaluated
    here = Evaluation(model, data, tmp_path / "here", info=info).rows(variants[:2])
    for row, other in zip(rows, here, strict=False):
        assert row["scores"] == other["scores"] and row["scores"]["top1"] == 1.0
        assert row["variant"] == {**other["variant"], "board": KEY}
        assert 0 < row["latency_ms"]["median"] <= row["latency_ms"]["p95"]
        assert row["device"] == other["device"]
    assert "nonsense" in rows[2]["error"]


def session_of(server: subprocess.Popen[str]) -> psutil.Process | None:
    """The process of a server's session, where it has one: a child of the child that listens."""
    with suppress(psutil.NoSuchProcess):
        for listening in psutil.Process(server.pid).children():
            for child in listening.children():
                return child
    return None


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_board_that_vanishes_in_the_middle_of_an_evaluation(
    tracker: Tracker, servers: list[subprocess.Popen[str]], evaluated, tmp_path: Path,
    monkeypatch, how: signal.Signals,
) -> None:  # fmt: skip
    """Killed, its connection breaks; stopped, nothing ever comes back."""
    monkeypatch.setattr(board_session, "LOOKING", 1.0)
    wait_for(lambda: boards(tracker) == 2)
    said: list[str] = []
    ended: list[psutil.Process] = []

    def told(words: str) -> None:
        if words.endswith("2 of 6") and not ended:
            # That of another client may not have ended yet.
            found = [each for each in map(session_of, servers) if each is not None]
            ended.append(max(found, key=psutil.Process.create_time))
            ended[0].send_signal(how)

    evaluation = on_boards(tracker, evaluated, tmp_path, told, said.append)
    (row,) = evaluation.rows([Variant("llvm")])
    for process in ended:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert row["scores"]["top1"] == 1.0
    assert len(said) == 1 and said[0].startswith(f"a board '{KEY}' was lost during llvm fp32 O3")
    kept = json.loads((tmp_path / "llvm-fp32-O3.json").read_text())
    assert kept == row == evaluation.rows([Variant("llvm")])[0]


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


def test_a_server_whose_session_crashes_comes_back() -> None:
    from tvm_vision.tuning import rpc

    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            port = int(line.rpartition(":")[2])
            with pytest.raises(Exception, match="key"):
                tvm.rpc.connect(HOST, port, "other")
            session = tvm.rpc.connect(HOST, port, "k")
            assert session.cpu().exist
            server = max(psutil.Process().children(), key=psutil.Process.create_time)
            server.children()[0].kill()

    rpc.serve(key="k", port=9600, port_end=9700, tell=tell, stop=lambda: len(said) >= 3)
    assert [line.split()[0] for line in said] == ["serving", "the", "serving"]


def test_no_free_port() -> None:
    from tvm_vision.tuning import rpc

    with socket.create_server((rpc.LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TuningError, match=f"a free port from {port} to {port} at"):
            rpc.serve(key="k", port=port, port_end=port)


def test_the_last_port_is_tried() -> None:
    from tvm_vision.tuning import rpc

    said: list[str] = []
    with socket.create_server((rpc.LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    rpc.serve(key="k", port=port, port_end=port, tell=said.append, stop=lambda: bool(said))
    assert said == [f"serving 'k' at {rpc.LOOPBACK}:{port}"]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-board.invalid"])
def test_no_address_of_this_machine(host: str) -> None:
    from tvm_vision.tuning import rpc

    with pytest.raises(TuningError, match=f"an address of this machine is needed .*'{host}' is no"):
        rpc.serve(key="k", host=host, port=9600, port_end=9601)
