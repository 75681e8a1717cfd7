"""Commands killed at their writes, and without room: a few of what ``make kills`` does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--kills 12", "--full 2", "--signals 3"])
def test_nothing_half_written_and_nothing_left(words: str) -> None:
    command = [sys.executable, "-m", "support.durability", *words.split()]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "TVM_VISION_VULKAN_VALIDATION": "0",
    }
    done = subprocess.run(
        [*command, "--only", "compile,records,repack,bag"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("0 faults\n")
