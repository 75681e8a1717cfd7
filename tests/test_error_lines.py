"""The line of others' exceptions that is shown, and that one place picks it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tvm_vision
from tvm_vision.error_lines import first_line, last_line

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
