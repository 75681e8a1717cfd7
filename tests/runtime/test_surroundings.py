"""What happens around a program on a robot: support/robot_program.py has the scenes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import SUPPORT
from support.faults import write_to_lose
from support.robot_program import SCENES

pytestmark = pytest.mark.usefixtures("device_info")
PACKAGES = ["network.tar", "cpu.tar"]
# Ways to start Python. Other libraries have warnings of their own for developers.
WAYS = {
    "without assertions": ["-O"],
    "without docstrings": ["-OO"],
    "isolated": ["-I"],
    "warnings are errors": ["-W", "error"],
    "developer": ["-X", "dev", "-W", "error"],
    "bytes are no text": ["-bb"],
}
# The locale of a service that nobody gave one, without Python's own remedies.
BARE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ONE_LINE = re.compile(r"[^\n]{20,}; or .*|[^\n]{20,}: .*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("robot")
    write_to_lose(folder)
    return folder


def play(folder: Path, package: str, scene: str, *way: str, **given: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *way, SUPPORT / "robot_program.py", folder, package, scene],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            **given,
        },
        text=True,
        capture_output=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    *told, last = done.stdout.splitlines()
    assert last == "right", done.stdout
    return told


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("scene", SCENES)
def test_a_network_runs_through_it(folder: Path, package: str, scene: str) -> None:
    told = play(folder, package, scene)
    if scene == "stopped_in_a_frame":
        assert told == ["0 lost, stopped"]
    if scene == "few_descriptors_to_load":
        assert told and all("(ulimit -n)" in line for line in told), told
    assert all(line == "0 lost, stopped" or ONE_LINE.fullmatch(line) for line in told), told


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("way", WAYS)
def test_however_python_is_started(folder: Path, package: str, way: str) -> None:
    assert play(folder, package, "plain", *WAYS[way]) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_without_a_locale(folder: Path, package: str) -> None:
    assert play(folder, package, "plain", **BARE) == []


@pytest.mark.parametrize("given", [{}, BARE], ids=["utf-8", "c"])
def test_names_that_are_no_text(folder: Path, given: dict[str, str]) -> None:
    """A command reads and writes files whose names no encoding has."""
    place = os.fsencode(folder) + b"/n\xff\xe9"
    os.makedirs(place, exist_ok=True)
    package, output = place + b"/p\xfe.tar", place + b"/y\xfe.npz"
    with open(package, "wb") as stream:
        stream.write((folder / "cpu.tar").read_bytes())
    words = [os.fsencode(sys.executable), b"-m", b"tvm_vision", b"run", package, b"-o", output]
    done = subprocess.run(words, env={**os.environ, **given}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert os.path.getsize(output)
    words[4] += b"x"
    done = subprocess.run(words, env={**os.environ, **given}, capture_output=True)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert done.stderr.startswith(b"Error: a package is needed, and '")
