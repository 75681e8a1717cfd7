"""What the system refuses, and names that are no text: one line each, or taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from support import handmade
from support.onnx_models import relu_model

LONG = "/".join(["d" * 200] * 25)
# As of a shell on a robot that was never told a language.
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def command(*words: str | bytes, output: int = subprocess.PIPE) -> tuple[int, str]:
    """Exit code and what is said, of a process of its own in the language C."""
    done = subprocess.run(
        [sys.executable, "-m", "tvm_vision", *words],
        env={**os.environ, **PLAIN},
        stdout=output,
        stderr=subprocess.PIPE,
    )
    said = done.stderr if output != subprocess.PIPE else done.stdout + done.stderr
    return done.returncode, said.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", f"{LONG}/x.tar"),
        ("run", f"{LONG}/x.tar"),
        ("check", f"{LONG}/x.tar", f"{LONG}/x.onnx"),
        ("detect", f"{LONG}/x.tar", f"{LONG}/x.png"),
    ],
)
def test_a_name_that_is_too_long_is_refused_in_one_line(words: tuple[str, ...]) -> None:
    code, said = command(*words)
    assert code == 1 and len(said.splitlines()) == 1, said
    assert "File name too long" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_behind_the_output_is_told_in_one_line(tmp_path: Path) -> None:
    package = handmade.write_package_file(tmp_path / "package")
    with open("/dev/full", "wb") as full:
        code, said = command("inspect", str(package), output=full.fileno())
    assert code == 1 and said.startswith("Error: ") and len(said.splitlines()) == 1, said
    assert "No space left on device" in said


@pytest.mark.parametrize("name", [b"n\xff\xfe", "größe 中 😀".encode()])
def test_files_of_any_name_are_compiled_and_read(tmp_path: Path, name: bytes) -> None:
    folder = os.fsencode(tmp_path)
    model, package = folder + b"/" + name + b".onnx", folder + b"/" + name + b".tar"
    Path(os.fsdecode(model)).write_bytes(relu_model((1, 4)).SerializeToString())
    assert onnx.load(os.fsdecode(model))
    code, said = command("compile", model, "-o", package, "--target", "llvm")
    assert code == 0, said
    code, said = command("run", package)
    assert code == 0, said
