"""Style sheets and the script of the pages, as files of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def asset(name: str) -> str:
    """The text of a file of this folder."""
    return (Path(__file__).parent / name).read_text("utf-8")


def style(*names: str) -> str:
    """A style sheet of files, after the colours: light or dark as the reader's system is, or as the
    attribute ``data-theme`` of the document says."""
    light, dark = asset("light.css"), asset("dark.css")
    colours = (
        f":root {{\n{light}}}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{\n{dark}}} }}\n'
        f':root[data-theme="dark"] {{\n{dark}}}\n'
    )
    return "".join((colours, *map(asset, names)))
