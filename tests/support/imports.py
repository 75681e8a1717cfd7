"""What the modules of tvm_vision import of each other, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Folder of the repository -> the package that it is installed as.
FOLDERS = {"tvm_vision": "tvm_vision", "tools": "tvm_vision.tools", "ros2_node": "tvm_vision_ros"}


def modules() -> dict[str, Path]:
    """The file of each module by its full name; a package is its __init__.py."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *parts]).removesuffix(".__init__")] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """For each module those that it imports: within functions and for types alone, too."""
    files = modules()
    return {name: {*_imported(name, path, files)} - {name} for name, path in files.items()}


def _imported(name: str, path: Path, files: dict[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            stem = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{stem}.{alias.name}"
                if whole in files or stem in files:
                    yield whole if whole in files else stem


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What is left of a graph when all that leads to no circle is taken away, in order of name."""
    left = {name: set(others) for name, others in graph.items()}
    while ends := [name for name, others in left.items() if not others & left.keys()]:
        for name in ends:
            del left[name]
    # What only leads to a circle is none of its own.
    while starts := [n for n in left if not any(n in others for others in left.values())]:
        for name in starts:
            del left[name]
    return [sorted(left)] if left else []
