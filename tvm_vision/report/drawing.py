"""What is drawn of a network: boxes with a few lines of text, and what flows between them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Box:
    """One box.

    Attributes:
        title: its first line; lines: those below.
        hover: what is shown when a pointer rests on it.
        marks: classes of style, such as "input" or "h3".
        key: what the page calls it; boxes of the same thing elsewhere on the page have it too.
    """

    title: str
    lines: tuple[str, ...] = ()
    hover: str = ""
    marks: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True)
class Edge:
    """From one box to another, by position; hover: of the tensor."""

    source: int
    target: int
    hover: str = ""


@dataclass
class Drawing:
    """Boxes and edges; nothing goes in a circle."""

    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    _joined: set[tuple[int, int]] = field(default_factory=set)

    def add(self, box: Box) -> int:
        """Append a box; its position."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def connect(self, source: int, target: int, hover: str = "") -> None:
        """Append an edge; between two boxes there is one, that of the first tensor."""
        if (source, target) not in self._joined:
            self._joined.add((source, target))
            self.edges.append(Edge(source, target, hover))
