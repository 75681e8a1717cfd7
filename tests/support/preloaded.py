"""Libraries of tests/runtime/cpp that a process is started with (LD_PRELOAD)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "runtime" / "cpp"


def compile_preloaded(name: str, folder: Path) -> Path:
    """One of them, compiled into a folder."""
    library = folder / f"{name}.so"
    compiler = os.environ.get("CXX") or "g++"
    words: list[str | Path] = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library]
    subprocess.run([*words, SOURCES / f"{name}.cc", "-ldl"], check=True)
    return library
