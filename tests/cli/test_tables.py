"""Tables keep to the width of a terminal, of all commands that print any."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tvm_vision.tools.table import table

TOOLS = Path(__file__).resolve().parents[2] / "tools"
WIDTH = 80
HEADER = ("name", "kind", "bytes", "first ÷ this")
ROWS = [
    ("a_name_without_any_space_that_is_long", "of many words, one after the other", 123456, 1.25),
    ("b", "", 7, 0.5),
]


@pytest.mark.parametrize("columns", [50, 60, 80])
def test_texts_are_folded_and_numbers_are_not(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = table(HEADER, ROWS, left=2)
    assert max(map(len, lines)) <= columns
    assert any("123456" in line and "1.25" in line for line in lines)
    letters = re.sub(r"\s", "", "".join(line[:30] for line in lines))
    assert "a_name" in letters


@pytest.mark.parametrize("columns", ["", "200"])
def test_a_row_is_a_line_where_there_is_room(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert len(table(HEADER, ROWS, left=2)) == 1 + len(ROWS)


def test_a_terminal_that_is_too_narrow_for_all_ends_in_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    assert max(map(len, table(HEADER, ROWS))) <= 12


@pytest.fixture
def files(tiny_package: Path, model: Path, tmp_path: Path) -> dict[str, Path]:
    """In a folder whose name alone fills a column."""
    folder = tmp_path / "a-folder-with-a-name-that-is-longer-than-a-column"
    folder.mkdir()
    package = Path(shutil.copy(tiny_package, folder))
    return {"PACKAGE": package, "MODEL": model}


# Each with where its table begins: before it are sentences, which a terminal folds.
COMMANDS = (
    ("benchmark PACKAGE PACKAGE --repeat 3 --warmup 0", "package"),
    ("check PACKAGE MODEL", "output"),
    ("devices --known", "name"),
    ("inspect PACKAGE --kernels", "#"),
    ("profile PACKAGE --repeat 2 --warmup 0", "#"),
    ("run PACKAGE", "output"),
    ("tune MODEL --list-tasks --target vulkan", "kernel"),
)


# Records of a search, and a labelled set.
MEASURED = {"records", "evaluate"}


@pytest.mark.parametrize(("words", "begins"), COMMANDS)
def test_the_tables_of_commands(
    words: str, begins: str, files: dict[str, Path], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    result = command(*(files.get(word, word) for word in words.split()))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    starts = [n for n, line in enumerate(lines) if line.split()[:1] == [begins]]
    assert starts, result.stdout
    rows = lines[starts[0] :]
    rows = rows[: rows.index("")] if "" in rows else rows
    assert max(map(len, rows)) <= WIDTH, result.stdout


def test_all_commands_with_tables_are_tried() -> None:
    """Whoever calls ``table`` is among them, but for those whose rows take long to come by."""
    callers = set()
    for path in TOOLS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "table":
                callers.add(path.stem)
    assert callers - MEASURED == {words.split()[0] for words, _ in COMMANDS}


def test_columns_are_made_by_the_table_alone() -> None:
    makers = [
        p.name for p in TOOLS.glob("*.py") if re.search(r"\.[lr]just\(", p.read_text("utf-8"))
    ]
    assert makers == ["table.py"]
