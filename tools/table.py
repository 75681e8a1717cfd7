"""Columns of text that people and grep can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2


def terminal() -> Console | None:
    """Standard output where it has a width to keep to: a terminal's, or that of COLUMNS."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return None
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def table(header: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> list[str]:
    """Lines of a table: the first ``left`` columns flush left, the others flush right.

    What is wider than the terminal is folded within its columns, the widest first; where there is
    no terminal, a row is a line, for grep.
    """
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    console = terminal()
    if console is not None and sum(widths) + GAP * (len(widths) - 1) > console.width:
        return _folded(console, cells, left)
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _folded(console: Console, cells: Sequence[Sequence[str]], left: int) -> list[str]:
    from rich.table import Table

    folded = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    for column in range(len(cells[0])):
        folded.add_column(justify="left" if column < left else "right", overflow="fold")
    for row in cells:
        folded.add_row(*row)
    with console.capture() as captured:
        console.print(folded)
    return [line.rstrip() for line in captured.get().splitlines()]


def data_size(count: float) -> str:
    """Bytes in the unit that gives at most four digits before the point: "12.3 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
