"""A drawing as SVG: boxes with text, and curves between them. Colours are the style sheet's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .assets import style
from .drawing import Box, Drawing
from .layout import Size, lay_out

CHARACTER, LINE = 7.3, 16.0  # pixels of the fixed font's characters and lines
PADDING = 9.0
MARGIN = 16.0
MOST_CHARACTERS = 44
ROUND = 7.0


def svg_of(drawing: Drawing, *, alone: bool = False) -> str:
    """The drawing as an ``svg`` element, in pixels.

    alone: with the style sheet in it, as a file of its own needs it.
    """
    sizes = [_size(box) for box in drawing.boxes]
    layout = lay_out(drawing, sizes)
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph by-time" role="img" '
        f'aria-label="the network as a graph" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:.0f} {-MARGIN:.0f} {width:.0f} {height:.0f}">'
    ]
    if alone:
        parts.append(f"<style>{style('graph.css')}</style>")
        parts.append(
            f'<rect class="paper" x="{-MARGIN:.0f}" y="{-MARGIN:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}"/>'
        )
    for edge, way in zip(drawing.edges, layout.ways, strict=True):
        parts.append(_edge(way, edge.hover))
    for box, corner, size in zip(drawing.boxes, layout.boxes, sizes, strict=True):
        parts.append(_box(box, corner, size))
    return "\n".join([*parts, "</svg>"])


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text of at most so many characters, with … for what is left out at its end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _size(box: Box) -> Size:
    longest = max(len(shortened(line)) for line in (box.title, *box.lines))
    return Size(
        max(60.0, longest * CHARACTER + 2 * PADDING), (1 + len(box.lines)) * LINE + 1.4 * PADDING
    )


def _box(box: Box, corner: tuple[float, float], size: Size) -> str:
    x, y = corner
    key = f' data-k="{escape(box.key)}" tabindex="0"' if box.key else ""
    radius = size.height / 2 if "end" in box.marks else ROUND
    lines = [
        f'<text class="{"line" if i else "title"}" x="{x + size.width / 2:.1f}" '
        f'y="{y + PADDING + LINE * (i + 0.72):.1f}">{escape(shortened(line))}</text>'
        for i, line in enumerate((box.title, *box.lines))
    ]
    marks = escape(" ".join(("box", *box.marks)))
    return (
        f'<g class="{marks}"{key}><title>{escape(box.hover)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size.width:.1f}" height="{size.height:.1f}" '
        f'rx="{radius:.1f}"/>{"".join(lines)}</g>'
    )


def _edge(way: Sequence[tuple[float, float]], hover: str) -> str:
    """Straight beside boxes, and in a curve from layer to layer."""
    (x, y), *rest = way
    path = [f"M{x:.1f} {y:.1f}"]
    for i, (to_x, to_y) in enumerate(rest):
        if i % 2 == 1:  # beside the boxes of a layer
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    head = f"M{x - 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 7:.1f}"
    return (
        f'<g class="edge"><title>{escape(hover)}</title><path d="{"".join(path)}"/>'
        f'<path d="{head}"/></g>'
    )
