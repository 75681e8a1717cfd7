"""Every example runs, prints something and leaves nothing behind; on Vulkan where there is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Imported by the others.
HELPERS = ("small_network.py",)
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in HELPERS)
# Seconds; the longest took 32 on a busy machine of two cores.
LIMIT = 240


def run(script: Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    assert run(script, tmp_path).strip()
    # onnxruntime since 1.30 counts its sessions in a file of $TMPDIR, whatever is asked of it.
    left = [path for path in tmp_path.iterdir() if path.name != ".ses"]
    assert not left, "it leaves files in the working folder or in $TMPDIR"


def test_an_example_needs_no_vulkan(tmp_path: Path) -> None:
    script = EXAMPLES / "former_graph_executor.py"
    assert "cpu" in run(script, tmp_path, TVM_VISION_VULKAN_LOADER="/nowhere.so")


def test_all_are_listed() -> None:
    linked = re.findall(r"\]\((\w+\.py)\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(linked) == sorted(path.name for path in EXAMPLES.glob("*.py"))
