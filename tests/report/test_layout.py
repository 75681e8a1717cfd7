"""Where boxes of a drawing go."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_vision.report.drawing import Box, Drawing
from tvm_vision.report.layout import GAP, Size, lay_out


def drawn(count: int, edges: list[tuple[int, int]]) -> Drawing:
    drawing = Drawing()
    for i in range(count):
        drawing.add(Box(str(i)))
    for source, target in edges:
        drawing.connect(source, target)
    return drawing


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Drawing, list[Size]]:
    count = draw(st.integers(0, 24))
    pairs = list(itertools.combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=50)) if pairs else []
    widths = draw(st.lists(st.integers(10, 300), min_size=count, max_size=count))
    return drawn(count, edges), [Size(float(w), 20.0 + w % 7) for w in widths]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_boxes_are_apart_and_edges_go_down(case: tuple[Drawing, list[Size]]) -> None:
    drawing, sizes = case
    layout = lay_out(drawing, sizes)
    for (a, one), (b, other) in itertools.combinations(zip(layout.boxes, sizes, strict=True), 2):
        apart = (
            a[0] + one.width + GAP <= b[0] + 1e-6
            or b[0] + other.width + GAP <= a[0] + 1e-6
            or a[1] + one.height < b[1]
            or b[1] + other.height < a[1]
        )
        assert apart, (a, one, b, other)
    for (x, y), size in zip(layout.boxes, sizes, strict=True):
        assert -1e-6 <= x and x + size.width <= layout.width + 1e-6
        assert 0 <= y and y + size.height <= layout.height + 1e-6
    for edge, way in zip(drawing.edges, layout.ways, strict=True):
        corner, size = layout.boxes[edge.source], sizes[edge.source]
        assert way[0] == (pytest.approx(corner[0] + size.width / 2), corner[1] + size.height)
        corner, size = layout.boxes[edge.target], sizes[edge.target]
        assert way[-1] == (pytest.approx(corner[0] + size.width / 2), corner[1])
        assert len(way) % 2 == 0
        assert [y for _, y in way] == sorted(y for _, y in way)


def test_a_chain_with_ways_round_it_stays_straight() -> None:
    """As of residual networks: what lies beside the chain gives way."""
    count = 300
    edges = [(i, i + 1) for i in range(count - 1)] + [(i, i + 3) for i in range(0, count - 3, 4)]
    layout = lay_out(drawn(count, edges), [Size(100.0, 40.0)] * count)
    assert max(x for x, _ in layout.boxes) - min(x for x, _ in layout.boxes) < 100


def test_ways_of_one_box_are_shared() -> None:
    """A box that all others read, as in networks that are densely connected."""
    edges = [(0, i) for i in range(1, 40)] + [(i, i + 1) for i in range(39)]
    layout = lay_out(drawn(40, edges), [Size(100.0, 40.0)] * 40)
    assert layout.width < 400


def test_what_crosses_without_need_does_not() -> None:
    layout = lay_out(drawn(6, [(0, 3), (0, 2), (1, 5), (1, 4)]), [Size(50.0, 20.0)] * 6)
    left = {box: layout.boxes[box][0] for box in range(6)}
    assert (max(left[2], left[3]) < min(left[4], left[5])) == (left[0] < left[1])


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="without circles"):
        lay_out(drawn(3, [(0, 1), (1, 2), (2, 1)]), [Size(9.0, 9.0)] * 3)
