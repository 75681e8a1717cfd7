"""config/vision.service: what systemd is told of the node, tried without it where that can be."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT
from tvm_vision_ros.main import PATIENCE_SECONDS, WRONG_START

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
