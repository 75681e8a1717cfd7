"""Tables in Markdown, and the documents that have them between marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


def document(text: str, tables: dict[str, Callable[[], str]], name: str = "the document") -> str:
    """A document with its tables made anew."""
    for mark, make in tables.items():
        parts = re.split(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", text, flags=re.DOTALL)
        if len(parts) != 4:
            raise SystemExit(f"{name} needs the marks <!-- {mark} --> and <!-- end --> once")
        before, begin, end, after = parts
        text = f"{before}{begin}{make()}{end}{after}"
    return text


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown. head: its columns, with bars between them."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    # A bar within a cell would end it.
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
