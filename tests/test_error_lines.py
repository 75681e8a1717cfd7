"""The line of others' exceptions that is shown, and that one place picks it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tvm_vision
from tvm_vision.error_lines import first_line, last_line
from tvm_vision.errors import InputError
from tvm_vision.whole_files import writing

PACKAGE = Path(tvm_vision.__file__).parent
# It takes every line apart, not one.
OTHERS = {"error_lines.py", "graph_executor.py"}


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("one", "one", "one"),
        ("\n  first \n\n last\n", "first", "last"),
        ("", "OSError", "OSError"),
        (" \n\t\n", "OSError", "OSError"),
    ],
)
def test_the_line_of_an_error_is_never_empty(text, first, last):
    error = OSError(text)
    assert (first_line(error), last_line(error)) == (first, last)


def test_nobody_else_takes_errors_apart():
    """Each place that did had its own answer to an error without words, one an IndexError."""
    pattern = re.compile(r"str\(error\)[\w.() ]*splitlines")
    found = [p.name for p in PACKAGE.rglob("*.py") if pattern.search(p.read_text("utf-8"))]
    assert set(found) <= OTHERS


ROOT = Path(__file__).resolve().parents[1]
SOURCES = [p for room in ("tvm_vision", "tools", "ros2_node") for p in (ROOT / room).rglob("*.py")]
# Of a message, up to which it says what is wrong.
FAILED = re.compile(r"cannot be (?:written|made|read|opened|created|loaded|started)\b")


def _text(node: ast.expr) -> str:
    """A message as it is written, values in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    return _text(node.left) + _text(node.right) if isinstance(node, ast.BinOp) else "{}"


def test_what_cannot_be_done_is_told_with_a_remedy():
    """Behind the reason in brackets there is what to do; ``why_not`` has both."""
    without, seen = [], 0
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            text = ": ".join(map(_text, node.exc.args))
            if (failed := FAILED.search(text)) is None:
                continue
            seen += 1
            rest = re.sub(r"\{(?!why_not)[^}]*\}", "{}", text[failed.end() :])
            if "why_not" not in rest and not re.search(r"[:;?] ?\S", rest):
                without.append(f"{path.name}:{node.lineno}: {text}")
    assert not without and seen > 25


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "name a folder that you may write to"),
        (OSError(28, "No space left on device"), "free some room, or name another place"),
        (OSError("odd"), "(odd): name another place"),
    ],
)
def test_why_a_file_is_not_written(error, words):
    with pytest.raises(InputError, match=r"^'x' cannot be written \(") as found, writing(Path("x")):
        raise error
    assert str(found.value).endswith(words)
