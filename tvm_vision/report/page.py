"""Pages of one file: style, script, pictures and data are in it, and nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..version import __version__
from ..whole_files import write_whole
from .assets import asset, style

# A browser holds the page to it: nothing from anywhere else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of a page. name: for links; words: a sentence below the title; body: HTML."""

    name: str
    title: str
    words: str
    body: str


@dataclass(frozen=True)
class Cell:
    """Of a table: text, and what it is sorted by, the text where None. marks: classes of style."""

    text: str
    value: float | None = None
    marks: str = ""
    hover: str = ""


def page(
    title: str, facts: Sequence[str], sections: Sequence[Section], data: Mapping[str, Any]
) -> str:
    """The whole text of a page.

    facts: lines below the title. data: documents that stand in the page as JSON, by name: the id is
    NAME-data.
    """
    links = "".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in sections)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="generator" content="tvm_vision {__version__}">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{style('page.css', 'graph.css')}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>",
        '<button id="theme" type="button">light / dark</button>',
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        f"<nav>{links}</nav></header><main>",
    ]
    for section in sections:
        parts.append(
            f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
            f"<p>{escape(section.words)}</p>\n{section.body}</section>"
        )
    parts.append('</main><aside id="detail" hidden></aside>')
    for name, document in data.items():
        # No "</script>" or "<!--" within.
        text = json.dumps(document, ensure_ascii=False).replace("<", "\\u003c")
        parts.append(f'<script type="application/json" id="{name}-data">{text}</script>')
    parts.append(f"<script>{asset('page.js')}</script></body></html>\n")
    return "\n".join(parts)


def write_page(path: Path, text: str) -> None:
    """Write a page. Raises InputError where that is not possible; it is whole or not there."""
    write_whole(path, text.encode(), InputError)


def sortable(name: str, header: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """A table whose columns sort by click. rows: key, see ``drawing.Box``, or "", and cells."""
    named = [cell.marks == "name" for cell in rows[0][1]] if rows else [False] * len(header)
    heads = "".join(
        f'<th aria-sort="none"{" class=name" if is_name else ""}><button type="button">'
        f"{escape(text)}</button></th>"
        for text, is_name in zip(header, named, strict=True)
    )
    parts = [
        f'<input class="filter" type="search" placeholder="filter" aria-label="filter {name}">'
        f'<div class="wide"><table class="sortable" id="{name}"><thead><tr>{heads}</tr></thead>'
        "<tbody>"
    ]
    for key, cells in rows:
        row_key = f' data-k="{escape(key)}"' if key else ""
        parts.append(f"<tr{row_key}>{''.join(map(_cell, cells))}</tr>")
    parts.append("</tbody></table></div>")
    return "\n".join(parts)


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-v="{cell.value:.9g}"'
    marks = f' class="{escape(cell.marks)}"' if cell.marks else ""
    hover = f' title="{escape(cell.hover)}"' if cell.hover else ""
    return f"<td{value}{marks}{hover}>{escape(cell.text)}</td>"


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Numbers with what they are, side by side."""
    return "".join(
        ['<dl class="tiles">']
        + [f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values]
        + ["</dl>"]
    )


def panned(svg: str) -> str:
    """A large picture in a window that scrolls, with buttons that zoom."""
    buttons = "".join(
        f'<button type="button" data-zoom="{zoom}" aria-label="{words}">{text}</button>'
        for zoom, text, words in (
            ("out", "−", "smaller"), ("in", "+", "larger"), ("width", "width", "fit the width"),
            ("all", "all", "fit all of it"),
        )
    )  # fmt: skip
    return (
        f'<div class="panned"><div class="zoom">{buttons}</div><div class="window">{svg}</div>'
        "</div>"
    )
