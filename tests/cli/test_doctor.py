"""The command, on this machine and on one without a native library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tvm_vision.doctor import examine as examination
from tvm_vision.doctor.finding import Finding
from tvm_vision.tools.cli import main

ROOT = Path(__file__).resolve().parents[2]
FOUND = [
    Finding("python", "ok", "3.11"),
    Finding("cache", "warn", "a long way " * 12, "a remedy " * 9),
]


def test_all_is_well_enough_here() -> None:
    """The whole self-test too, on the device of the tests."""
    result = CliRunner().invoke(main, ["doctor", "--json"])
    document = json.loads(result.output)
    states = {found["name"]: found["state"] for found in document["findings"]}
    # A machine may lack a GPU, memory or mains.
    wrong = {name for name in states if states[name] == "fail"}
    assert (result.exit_code, wrong) == (0, set()), document
    assert list(states)[-4:] == ["copy", "kernel", "timestamps", "network"]


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_the_exit_code(state: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding("x", state, "words", "" if state == "ok" else "do it")
    monkeypatch.setattr(examination, "examine", lambda *_: iter([found]))
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, result.output.split()[:2]) == (code, [state, "x"])


@pytest.mark.parametrize("columns", ["", "60", "80", "200"])
def test_it_keeps_to_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "examine", lambda *_: iter(FOUND))
    lines = CliRunner().invoke(main, ["doctor"], env={"COLUMNS": columns}).output.splitlines()
    if columns:
        assert max(map(len, lines)) <= int(columns)
        assert any(line.strip().startswith("remedy: a remedy") for line in lines)
    else:
        assert len(lines) == len(FOUND)


def test_no_word_is_lost_on_a_display_of_a_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "examine", lambda *_: iter(FOUND))
    output = CliRunner().invoke(main, ["doctor"], env={"COLUMNS": "16"}).output
    assert len(output.splitlines()) == len(FOUND)
    assert all(found.words in output and found.remedy in output for found in FOUND)


def test_without_the_native_library(tmp_path: Path) -> None:
    """As after a build that failed, and with none of the packages that Python has not itself but
    click: the command starts, and says what is missing."""
    without = shutil.ignore_patterns("*.so", "__pycache__", "csrc", "images")
    shutil.copytree(ROOT / "tvm_vision", tmp_path / "tvm_vision", ignore=without)
    shutil.copytree(ROOT / "tools", tmp_path / "tvm_vision" / "tools", ignore=without)
    missing = ("rich", "numpy", "packaging", "packaging.requirements", "packaging.specifiers")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
        f"sys.path.insert(0, {str(tmp_path)!r}); import tvm_vision.__main__"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1, done.stderr
    lines = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line[:4] == "fail"]
    assert [line[:17].strip() for line in lines] == [
        "python",
        "packages",
        "native library",
        "backend",
    ]
    assert "needs the package packaging, which is not there" in lines[1]
    assert f"{tmp_path}/tvm_vision/vulkan/libtvm_vision_vulkan.so is not there" in lines[2]
    assert "the native library libtvm_vision_vulkan.so was needed" in lines[3]
