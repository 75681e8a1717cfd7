"""Copies between host and device as a card needs them, on any device.

Where host and device share memory, as integrated GPUs and lavapipe do, no test would reach them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.usefixtures("device_info")


# How inputs come concerns networks alone, not tensors.
FILES = {
    "mapped": ("vulkan/test_device.py", "runtime/test_graph_executor.py"),
    "staged": ("runtime/test_graph_executor.py",),
}


@pytest.mark.parametrize("inputs", FILES)
def test_networks_and_tensors_through_copies(inputs: str) -> None:
    # The validation layer's messages fail them, as they do here.
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-k", "not wrong_environment",
            *(str(TESTS / name) for name in FILES[inputs]),
        ],
        env={
            **os.environ,
            "TVM_VISION_VULKAN_MEMORY": "separate",
            "TVM_VISION_VULKAN_INPUT": inputs,
        },
        cwd=TESTS.parent, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "failed" not in done.stdout and " passed" in done.stdout
