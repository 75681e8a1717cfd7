"""Loaders of Vulkan between the library and the real one, for TVM_VISION_VULKAN_LOADER."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support import SUPPORT

SOURCES = Path(__file__).resolve().parents[1] / "vulkan" / "cpp"


def compile_loader(name: str, folder: Path) -> Path:
    """A library of tests/vulkan/cpp, compiled into a folder."""
    path = folder / f"lib{name}.so"
    compiler = os.environ.get("CXX") or "g++"
    command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    subprocess.run([*command, str(SOURCES / f"{name}.cc"), "-o", str(path), "-ldl"], check=True)
    return path


def run_with_faults(program: str, folder: Path, **environment: str) -> Any:
    """What a program of this folder prints as JSON with the loader that fails, which ``folder`` has
    from ``compile_loader``, in place of Vulkan's."""
    done = subprocess.run(
        [sys.executable, SUPPORT / program, folder],
        env={
            **os.environ,
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            "TVM_VISION_VULKAN_LOADER": str(folder / "libfaulty_loader.so"),
            **environment,
        },
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
