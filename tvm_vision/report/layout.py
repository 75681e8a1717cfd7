"""Where boxes of a drawing go: in layers from top to bottom, as Sugiyama, Tagawa and Toda have it
("Methods for visual understanding of hierarchical system structures", 1981).

Layers by the longest way from a beginning; an edge over several layers passes through a place in
each, which all edges of one box share; within a layer an order of few crossings, by barycentres;
then positions near those of neighbours, which least squares gives exactly.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from .drawing import Drawing

GAP = 24.0  # between boxes of a layer
LAYER_GAP = 34.0  # between layers
PLACE_WIDTH = 6.0  # that an edge takes where it passes a layer
SWEEPS = 8
# How much an edge wants to be straight: on its way past layers, between neighbouring boxes, and
# where it leaves or enters a box on such a way, so that what lies beside a chain gives way to it.
PASSING, DIRECT, LEAVING = 8.0, 4.0, 0.5


@dataclass(frozen=True)
class Size:
    """Of a box, in pixels."""

    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Where all is, in pixels from the upper left corner.

    Attributes:
        boxes: the upper left corner of each.
        sizes: of each.
        ways: for each edge the points that it goes through, from the lower edge of a box to the
            upper one of another.
        width, height: of all.
    """

    boxes: list[tuple[float, float]]
    sizes: list[Size]
    ways: list[list[tuple[float, float]]]
    width: float
    height: float


@dataclass
class _Place:
    """A box in its layer, or where edges of one pass through another."""

    layer: int
    width: float
    box: int | None = None
    x: float = 0.0  # of its middle
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def lay_out(drawing: Drawing, sizes: Sequence[Size]) -> Layout:
    """Places for boxes of the given sizes. Raises ValueError where edges go in a circle."""
    layer_of = _layers(drawing)
    places, through = _places(drawing, sizes, layer_of)
    layers = _ordered(places)
    _position(places, layers)
    return _finish(drawing, sizes, places, through, layers)


def _layers(drawing: Drawing) -> list[int]:
    """The layer of each box: one below the lowest that it comes from."""
    into: dict[int, list[int]] = defaultdict(list)
    waits = [0] * len(drawing.boxes)
    for edge in drawing.edges:
        into[edge.source].append(edge.target)
        waits[edge.target] += 1
    layers = [0] * len(drawing.boxes)
    ready = [box for box, count in enumerate(waits) if count == 0]
    for box in ready:  # grows as it is gone through
        for target in into[box]:
            layers[target] = max(layers[target], layers[box] + 1)
            waits[target] -= 1
            if waits[target] == 0:
                ready.append(target)
    if len(ready) < len(drawing.boxes):
        raise ValueError("a drawing without circles is needed")
    # What comes from nowhere stands just above what needs it.
    came = {edge.target for edge in drawing.edges}
    for box, targets in into.items():
        if targets and box not in came:
            layers[box] = min(layers[target] for target in targets) - 1
    return layers


def _places(
    drawing: Drawing, sizes: Sequence[Size], layer_of: Sequence[int]
) -> tuple[list[_Place], dict[tuple[int, int], int]]:
    """Places of boxes first, then those that edges pass: (box they come from, layer) -> place."""
    places = [
        _Place(layer, size.width, box)
        for box, (layer, size) in enumerate(zip(layer_of, sizes, strict=True))
    ]
    through: dict[tuple[int, int], int] = {}
    for edge in drawing.edges:
        last = edge.source
        for layer in range(layer_of[edge.source] + 1, layer_of[edge.target]):
            key = (edge.source, layer)
            if key not in through:
                through[key] = len(places)
                places.append(_Place(layer, PLACE_WIDTH))
                _join(places, last, through[key])
            last = through[key]
        _join(places, last, edge.target)
    return places, through


def _join(places: list[_Place], above: int, below: int) -> None:
    places[above].below.append(below)
    places[below].above.append(above)


def _ordered(places: list[_Place]) -> list[list[int]]:
    """The places of each layer from left to right."""
    layers: list[list[int]] = [[] for _ in range(max((p.layer for p in places), default=-1) + 1)]
    for index in _depth_first(places):
        layers[places[index].layer].append(index)
    best, fewest = [list(layer) for layer in layers], _crossings(places, layers)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        rank = {index: i for layer in layers for i, index in enumerate(layer)}
        for layer in layers if down else reversed(layers):
            wanted = {}
            for index in layer:
                near = places[index].above if down else places[index].below
                ranks = [rank[other] for other in near]
                wanted[index] = sum(ranks) / len(ranks) if ranks else rank[index]
            layer.sort(key=wanted.__getitem__)
            rank.update({index: i for i, index in enumerate(layer)})
        if (found := _crossings(places, layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], found
    return best


def _depth_first(places: list[_Place]) -> list[int]:
    """All places, each before what lies below it alone: neighbours come beside each other."""
    seen: set[int] = set()
    order = []
    stack = [i for i in reversed(range(len(places))) if not places[i].above]
    while stack:
        index = stack.pop()
        if index in seen:
            continue
        seen.add(index)
        order.append(index)
        stack.extend(reversed(places[index].below))
    return order


def _crossings(places: list[_Place], layers: list[list[int]]) -> int:
    """How many pairs of edges between neighbouring layers cross."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        rank = {index: i for i, index in enumerate(lower)}
        passed: list[int] = []
        for index in upper:
            targets = sorted(rank[other] for other in places[index].below)
            total += sum(len(passed) - bisect_left(passed, target + 1) for target in targets)
            for target in targets:
                insort(passed, target)
    return total


def _position(places: list[_Place], layers: list[list[int]]) -> None:
    """Give each place its x, by turns from above, from below and from both."""
    for layer in layers:
        _spread(places, layer, [0.0] * len(layer), [1.0] * len(layer))
    for turn in range(2 * SWEEPS):
        down = turn % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted, weights = [], []
            for index in layer:
                place = places[index]
                near = place.above if down else place.below
                if turn >= SWEEPS:
                    near = [*place.above, *place.below]
                pulls = [(_pull(place, places[other]), places[other].x) for other in near]
                weight = sum(pull for pull, _ in pulls)
                wanted.append(sum(pull * x for pull, x in pulls) / weight if near else place.x)
                weights.append(weight or 0.1)
            _spread(places, layer, wanted, weights)
    left = min((p.x - p.width / 2 for p in places), default=0.0)
    for place in places:
        place.x -= left


def _pull(one: _Place, other: _Place) -> float:
    boxes = (one.box is not None) + (other.box is not None)
    return (PASSING, LEAVING, DIRECT)[boxes]


def _spread(
    places: list[_Place], layer: list[int], wanted: Sequence[float], weights: Sequence[float]
) -> None:
    """The positions nearest to those ``wanted``, by weighted squares, that keep order and gaps.

    Without the gaps that is isotonic regression, which pooling neighbours solves.
    """
    offsets = [0.0]
    for one, other in itertools.pairwise(layer):
        offsets.append(offsets[-1] + (places[one].width + places[other].width) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, count = want - offset, 1
        while pools and pools[-1][0] >= mean:
            before, heavy, members = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + members
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    for index, mean, offset in zip(layer, means, offsets, strict=True):
        places[index].x = mean + offset


def _finish(
    drawing: Drawing,
    sizes: Sequence[Size],
    places: list[_Place],
    through: dict[tuple[int, int], int],
    layers: list[list[int]],
) -> Layout:
    tops, heights, y = [], [], 0.0
    for layer in layers:
        inside = [sizes[box].height for i in layer if (box := places[i].box) is not None]
        tops.append(y)
        heights.append(max(inside, default=0.0))
        y += heights[-1] + LAYER_GAP
    corners = [
        (places[i].x - size.width / 2, tops[places[i].layer]) for i, size in enumerate(sizes)
    ]
    ways = []
    for edge in drawing.edges:
        first, last = places[edge.source], places[edge.target]
        way = [(first.x, tops[first.layer] + sizes[edge.source].height)]
        for passed in range(first.layer + 1, last.layer):
            x = places[through[edge.source, passed]].x
            way += [(x, tops[passed]), (x, tops[passed] + heights[passed])]
        ways.append([*way, (last.x, tops[last.layer])])
    width = max((p.x + p.width / 2 for p in places), default=0.0)
    return Layout(corners, list(sizes), ways, width, max(0.0, y - LAYER_GAP))
