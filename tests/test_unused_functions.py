"""Functions that nobody but tests calls are dead: found by their names, over all our sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tvm_vision

ROOT = Path(tvm_vision.__file__).resolve().parent.parent
CALLERS = ("tvm_vision", "tools", "ros2_node", "scripts", "benchmarks", "training")
# Called by name by others, or offered to those who use the library.
KNOWN = {
    "_check_for_unsupported_ops",  # TVM's importer
    "from_dense",  # masks of another source
    "get_next",  # onnxruntime's calibration
    "save_darknet_weights",  # for those who train
    "should_run",  # TVM's pass instruments
    "set_range",  # onnxruntime's calibration
    "transform_module",  # TVM's pass
    "validate",  # each shader of the tests
}

pytestmark = pytest.mark.skipif(
    not all((ROOT / folder).is_dir() for folder in CALLERS), reason="installed, without sources"
)


def names_in(tree: ast.AST) -> Iterator[str]:
    """Every name that a source uses, in any way, but for those of what it defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_function_has_a_caller():
    defined: set[str] = set()
    used: set[str] = set()
    for folder in CALLERS:
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            used.update(names_in(tree))
            if folder == "tvm_vision":
                functions = (ast.FunctionDef, ast.ClassDef)
                defined.update(n.name for n in ast.walk(tree) if isinstance(n, functions))
    ours = {name for name in defined if not name.startswith(("__", "visit"))}
    assert ours - used == KNOWN
