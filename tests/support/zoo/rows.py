"""Results that are kept: a JSON line a network and target, in the order of names.

A row has the network (``package``, ``version``, ``file``, ``exporter`` where the file names one,
``operators``: how many), the ``target``, what came of it (``outcome``, ``message``, ``error`` of
the worst output and the ``limit`` it is held to, ``same``: the share of equal arg maxima, ``ties``,
``seconds`` of importing and compiling) and what it was measured with (``reference``, ``device``,
``commit``: "+" behind it where tracked files differed). Numbers have three digits.
"""

from __future__ import annotations

import json
import math
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm_vision.vulkan
from tvm_vision.whole_files import write_whole

Row = dict[str, Any]
_NAMED = ("package", "version", "file", "exporter", "operators", "target")
_FOUND = ("outcome", "message", "error", "limit", "same", "ties", "seconds")
_KEPT = (*_NAMED, *_FOUND, "reference", "device", "commit")


def key(row: Row) -> str:
    """The network of a row in one line."""
    return " ".join(filter(None, place(row)))


def place(row: Row) -> tuple[str, str, str]:
    """Package, version and file of a row, the first two empty where it is no package's."""
    return row.get("package", ""), row.get("version", ""), row["file"]


def read(path: Path) -> list[Row]:
    """The rows of a file, of each network and target the last; a line that was cut off is none."""
    rows: dict[tuple[str, str], Row] = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[key(row), row["target"]] = row
    return in_order(rows.values())


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows by package, version, file and target."""
    return sorted(rows, key=lambda row: (*place(row), row["target"]))


def text(row: Row) -> str:
    """The line of a row."""
    # JSON has no infinity.
    kept = {name: row[name] for name in _KEPT if row.get(name) not in (None, "", math.inf)}
    rounded = {
        name: float(f"{value:.3g}") if isinstance(value, float) and name != "seconds" else value
        for name, value in kept.items()
    }
    return json.dumps(rounded, ensure_ascii=False) + "\n"


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows, whole or not at all."""
    write_whole(path, "".join(map(text, in_order(rows))).encode())


def measured_with(file: str, target: str) -> Row:
    """What a result of a file is measured with, here and now."""
    onnx = file.endswith(".onnx")
    engine, name = ("onnxruntime", "onnxruntime") if onnx else ("ai-edge-litert", "LiteRT")
    devices = tvm_vision.vulkan.devices()
    host = platform.machine()
    vulkan = devices[0].name if devices else "no Vulkan device"
    return {
        "reference": f"{name} {version(engine)}",
        "device": vulkan if target.startswith("vulkan") else host,
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit of this working tree; empty where it is none."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=7", "HEAD")
    return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
