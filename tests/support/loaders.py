"""Loaders of Vulkan between the library and the real one, for TVM_VISION_VULKAN_LOADER."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "vulkan" / "cpp"


def compile_loader(name: str, folder: Path) -> Path:
    """A library of tests/vulkan/cpp, compiled into a folder."""
    path = folder / f"lib{name}.so"
    compiler = os.environ.get("CXX") or "g++"
    command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    subprocess.run([*command, str(SOURCES / f"{name}.cc"), "-o", str(path), "-ldl"], check=True)
    return path
