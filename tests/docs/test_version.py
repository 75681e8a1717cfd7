"""One version: tvm_vision.__version__ is what is built, what ROS reads and what the list of changes
names."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import tvm_vision

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_built_has_the_version() -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == tvm_vision.__version__


def test_what_is_installed_has_the_version() -> None:
    assert version("tvm_vision") == tvm_vision.__version__


def test_ros_reads_the_version() -> None:
    assert ET.parse(ROOT / "package.xml").findtext("version") == tvm_vision.__version__


def test_the_list_of_changes_begins_with_the_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first is not None and first[1] == tvm_vision.__version__


def test_no_second_source_of_the_version() -> None:
    """Neither setup.py, setup.cfg nor pyproject.toml has a number of its own."""
    for name in ("setup.py", "setup.cfg", "pyproject.toml"):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(r"^\s*version\s*=\s*['\"]", text, re.MULTILINE), name
