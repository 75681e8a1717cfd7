"""Completion in shells, as the guide says to set it up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tvm_vision.tools.cli import main

VARIABLE = "_TVM_VISION_COMPLETE"
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "networks.md"


def completed(words: str) -> list[str]:
    """What a shell is offered for the last of some words."""
    count = str(len(words.split(" ")) - 1)
    environment = {VARIABLE: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
    result = CliRunner().invoke(main, [], prog_name="tvm-vision", env=environment)
    return [line.partition(",")[2] for line in result.output.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tvm-vision de", {"detect", "demo", "demo-classifier", "devices"}),
        ("tvm-vision doc", {"doctor"}),
        ("tvm-vision detect --save-", {"--save-json", "--save-txt", "--save-crop", "--save-masks"}),
        ("tvm-vision run p.tar --device ", {"auto", "vulkan", "cpu"}),
        ("tvm-vision records ", {"merge", "draw"}),
        ("tvm-vision compile --qu", {"--quiet"}),
    ],
)
def test_what_is_offered(words: str, offered: set[str]) -> None:
    assert offered <= set(completed(words))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_for_each_shell_is_the_guide_s(shell: str) -> None:
    line = f"{VARIABLE}={shell}_source tvm-vision"
    assert line in GUIDE.read_text("utf-8")
    environment = {**os.environ, VARIABLE: f"{shell}_source"}
    command = Path(sys.executable).with_name("tvm-vision")
    done = subprocess.run([command], env=environment, capture_output=True, text=True, check=False)
    if shell == "bash" and "Couldn't detect Bash version" in done.stderr:
        pytest.skip("click asks bash for its version, and there is none")
    assert f"{shell}_complete" in done.stdout, done.stderr
