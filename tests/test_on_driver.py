"""Python on a driver of another Debian: scripts/on_driver.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.scripts import load_script

LINKERS = sorted(Path("/lib64").glob("ld-linux-*.so.*")) or sorted(Path("/lib").glob("ld-linux-*"))


@pytest.mark.skipif(not LINKERS, reason="needs the GNU C library")
def test_it_is_this_python_with_its_own_library(tmp_path: Path) -> None:
    """Not with another release's, which lies in the system's folders: both have to be of one."""
    libraries = next(Path("/usr/lib").glob("*-linux-gnu*"))
    found = SimpleNamespace(root=tmp_path / "root", libraries=libraries, linker=LINKERS[0])
    python = load_script("scripts/on_driver.py").interpreter(found)
    code = "import sys; print(sys.version, sys.prefix != sys.base_prefix)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == f"{sys.version} True", done.stderr
