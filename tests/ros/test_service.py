"""config/vision.service: what systemd is told of the node, tried without it where that can be."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support import ROOT
from support.ros import SURE
from tvm_vision.vulkan.device import OPENING_SECONDS
from tvm_vision_ros.main import PATIENCE_SECONDS, WRONG_START
from tvm_vision_ros.service_manager import ServiceManager

UNIT = ROOT / "config" / "vision.service"
HOME = "/home/robot"
NODE = "ros2_ws/install/tvm_vision/lib/tvm_vision/vision_node"


def setting(name: str) -> str:
    lines = UNIT.read_text("utf-8").splitlines()
    (found,) = (line.partition("=")[2] for line in lines if line.startswith(f"{name}="))
    return found


def test_it_knows_how_the_node_ends() -> None:
    assert int(setting("RestartPreventExitStatus")) == WRONG_START
    assert float(setting("TimeoutStopSec")) > PATIENCE_SECONDS
    assert setting("Type") == "notify" and setting("NotifyAccess") == "main"
    assert float(setting("WatchdogSec")) > OPENING_SECONDS
    assert setting("Restart") == "always" and setting("StartLimitIntervalSec") == "0"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_it(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(UNIT)], text=True, capture_output=True
    )
    # What it says of others' units is not ours.
    said = [line for line in (done.stdout + done.stderr).splitlines() if "vision" in line]
    assert said == []


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """A robot's folder, whose node tells its process and its words, and ends by a signal with 3."""
    node = tmp_path / NODE
    node.parent.mkdir(parents=True)
    node.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(3))\n"
        "print(os.getpid(), os.environ['SOURCED'], *sys.argv[1:], flush=True)\n"
        "signal.pause()\n"
    )
    node.chmod(0o755)
    (tmp_path / "ros2_ws/install/setup.bash").write_text("export SOURCED=yes\n")
    return tmp_path


def test_signals_go_to_the_node_in_the_workspace(robot: Path) -> None:
    words = shlex.split(setting("ExecStart").replace(HOME, str(robot)))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        told = service.stdout.readline().split()
        parameters = ["--ros-args", "--params-file", f"{robot}/vision.yaml"]
        assert told == [str(service.pid), "yes", *parameters]
        os.kill(service.pid, signal.SIGTERM)
        assert service.wait(10) == 3


@dataclass
class Node:
    up: bool = True
    frame_seconds: float = 0.0


class Listener:
    """systemd's side of a socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(0.0)

    def heard(self, seconds: float = 0.0) -> list[str]:
        """What was told by now, or within some time."""
        time.sleep(seconds)
        words: list[str] = []
        while True:
            try:
                words += self._socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return words

    def wait_for(self, word: str, seconds: float = 20.0) -> list[str]:
        end, words = time.monotonic() + seconds, list[str]()
        while word not in words:
            assert time.monotonic() < end, words
            words += self.heard(0.02)
        return words

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["file", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    of_this_test = f"@tvm_vision_{os.getpid()}_{time.monotonic_ns()}"
    address = str(tmp_path / "notify") if request.param == "file" else of_this_test
    listener = Listener(address)
    yield listener
    listener.close()


def surroundings(listener: Listener, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": listener.address, **more}


def test_systemd_is_told_once_that_all_are_up(listener: Listener) -> None:
    manager, nodes = ServiceManager(surroundings(listener)), [Node(), Node(up=False)]
    manager.attend(nodes)
    assert listener.heard() == []
    nodes[1].up = True
    manager.attend(nodes)
    nodes[0].up = False
    manager.attend(nodes)
    manager.attend(nodes)
    assert listener.heard() == ["READY=1"]
    manager.stopping()
    assert listener.heard() == ["STOPPING=1"]


def test_a_frame_that_hangs_is_no_sign_of_life(listener: Listener) -> None:
    manager = ServiceManager(surroundings(listener, WATCHDOG_USEC="2000000"))
    assert manager.watchdog_seconds == 2.0 and manager.seconds == 0.2
    nodes = [Node(up=False), Node(up=False, frame_seconds=1.9)]
    manager.attend(nodes)
    assert listener.heard() == ["WATCHDOG=1"]
    nodes[1].frame_seconds = 2.1
    manager.attend(nodes)
    assert listener.heard() == []
    nodes[0].up = nodes[1].up = True
    manager.attend(nodes)
    assert listener.heard() == ["READY=1"]


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "400000"}, 0.0),
        ({"NOTIFY_SOCKET": "/none", "WATCHDOG_USEC": "400000"}, 0.1),
        ({"NOTIFY_SOCKET": "/none", "WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}, 0.2),
        ({"NOTIFY_SOCKET": "/none", "WATCHDOG_USEC": "soon"}, 0.2),
    ],
)
def test_without_a_socket_or_with_one_that_is_gone_nothing_happens(environment, seconds) -> None:
    manager = ServiceManager(environment)
    assert manager.seconds == pytest.approx(seconds)
    manager.attend([Node()])
    manager.stopping()


def test_a_socket_that_is_full_holds_nobody_up(listener: Listener) -> None:
    manager = ServiceManager(surroundings(listener, WATCHDOG_USEC="2000000"))
    start = time.monotonic()
    for _ in range(5000):
        manager.attend([Node()])
    assert time.monotonic() - start < 10 and "WATCHDOG=1" in listener.heard()


@pytest.mark.parametrize("autostart", ["true", "false"])
def test_the_node_tells_of_its_start_its_life_and_its_end(
    graph, start, listener, monkeypatch, autostart
) -> None:
    for name, value in surroundings(listener, WATCHDOG_USEC="1000000").items():
        monkeypatch.setenv(name, value)
    process = start("model:=slow", f"autostart:={autostart}")
    said = listener.wait_for("READY=1")
    assert graph.state() == ("active" if autostart == "true" else "unconfigured")
    assert set(said) <= {"READY=1", "WATCHDOG=1"}
    said = listener.heard(2.0)
    assert len(said) > 4 and set(said) == {"WATCHDOG=1"}
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(20) == 0
    assert "STOPPING=1" in listener.heard()


def test_a_node_whose_frame_hangs_gives_no_sign(graph, start, listener, monkeypatch) -> None:
    for name, value in surroundings(listener, WATCHDOG_USEC="1000000").items():
        monkeypatch.setenv(name, value)
    start("model:=fake:6000", "lazy:=false", SURE)
    listener.wait_for("READY=1")
    with graph.camera() as camera:
        graph.wait_for_subscriber(camera)
        camera.publish(graph.image(np.full((48, 64, 3), 9, np.uint8)))
        # What it gives while the frame is young; and what it gives then.
        listener.heard(2.0)
        assert listener.heard(2.5) == []
        listener.wait_for("WATCHDOG=1")
