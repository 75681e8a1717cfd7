"""The runner without Python, cpp/, built for tests, and its programs run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tvm_vision.vulkan.device import LIBRARY_NAME

ROOT = Path(__file__).resolve().parents[2]
BACKEND = ROOT / "tvm_vision" / "vulkan" / LIBRARY_NAME
SITE = Path(sys.modules["tvm"].__file__ or "").parents[1]
SANITIZER = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"


def run(*command: Any) -> subprocess.CompletedProcess[str]:
    """Leaks are the drivers' and TVM's affair: what lives until the process ends is not sought."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "2"}
    # It came to use another one's names first, or not at all.
    return subprocess.run(
        [str(word) for word in command], text=True, capture_output=True, env=environment
    )


def refused(built: Path, *words: Any) -> str:
    done = run(built / "run_model", *words)
    assert done.returncode in (1, 2), done.stderr
    assert "AddressSanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("run_model: ")
    return line.removeprefix("run_model: ")
