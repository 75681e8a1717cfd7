"""Columns of text that people and grep can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
# Characters of a column of texts that are left to it.
LEAST = 12


def terminal() -> Console | None:
    """Standard output where it has a width to keep to: a terminal's, or that of COLUMNS. None else,
    and where the package that draws there is not installed."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(highlight=False, markup=False, emoji=False)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    left: int = 1,
    texts: Sequence[int] = (),
) -> list[str]:
    """Lines of a table: the first ``left`` columns and ``texts`` flush left, the others right.

    What is wider than the terminal is folded within its columns, the widest first; where there is
    no terminal, a row is a line, for grep.
    """
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    flush_left = {*range(left), *texts}
    console = terminal()
    if console is not None and sum(widths) + GAP * (len(widths) - 1) > console.width:
        return _folded(console, cells, flush_left)
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if column in flush_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _folded(console: Console, cells: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    from rich.table import Table

    folded = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    for column, width in enumerate(_narrowed(cells, left, console.width)):
        justify: Literal["left", "right"] = "left" if column in left else "right"
        folded.add_column(justify=justify, width=width, overflow="fold")
    for row in cells:
        folded.add_row(*row)
    with console.capture() as captured:
        console.print(folded)
    return [line.rstrip() for line in captured.get().splitlines()]


def _narrowed(cells: Sequence[Sequence[str]], left: Collection[int], room: int) -> list[int]:
    """Widths of columns that fit into ``room``: the widest texts are folded first, within words
    where they must; then headings over numbers, between words; numbers stay whole."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max((len(w) for cell in c for w in cell.split()), default=1) for c in columns]
    room -= GAP * (len(columns) - 1)
    numbers = {i: words[i] for i in range(len(columns)) if i not in left}
    for least in (dict.fromkeys(left, LEAST), numbers, dict.fromkeys(left, LEAST // 3)):
        while sum(widths) > room and any(widths[i] > n for i, n in least.items()):
            widest = max((i for i, n in least.items() if widths[i] > n), key=lambda i: widths[i])
            widths[widest] -= 1
    return widths


def data_size(count: float) -> str:
    """Bytes in the unit that gives at most four digits before the point: "12.3 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
