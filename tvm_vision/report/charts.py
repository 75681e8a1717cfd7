"""Charts as SVG and HTML: bars, and the roofline. What is not in numbers is the style sheet's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .floors import Ceilings

WIDTH, HEIGHT = 1160.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 20.0, 24.0, 34.0
LEAST_BAR = 4.0  # pixels that a bar takes, so that a finger finds it
CHARACTER = 6.7  # pixels of a label's characters, about
SLANT = math.radians(50)  # of labels that are too long to lie below their bars


@dataclass(frozen=True)
class Bar:
    """One bar. height: in the chart's unit; line: a mark across it, such as a floor; key: see
    ``drawing.Box``; marks: classes of style; label: below it, in place of its number."""

    height: float
    hover: str
    key: str
    line: float | None = None
    marks: tuple[str, ...] = ()
    label: str = ""


def bar_chart(bars: Sequence[Bar], unit: str, about: str) -> str:
    """Bars side by side, in their order, over an axis from 0. about: for who cannot see it."""
    width = max(WIDTH, LEFT + RIGHT + LEAST_BAR * len(bars))
    shown = _labelled(len(bars))
    longest = CHARACTER * max((len(bars[index].label) for index in shown), default=0)
    slanted = longest > shown.step * (width - LEFT - RIGHT) / max(1, len(bars))
    left = max(LEFT, longest * math.cos(SLANT)) if slanted else LEFT
    below = longest * math.sin(SLANT) if slanted else 0.0
    inner, high = width - left - RIGHT, HEIGHT - TOP - BOTTOM
    most = max((bar.height for bar in bars), default=0.0) or 1.0
    step = inner / max(1, len(bars))
    thick = max(1.0, min(step * 0.8, 48.0))

    def y(value: float) -> float:
        return TOP + high * (1 - value / most)

    parts = [_open(width, HEIGHT + below, about)]
    for tick in ticks(most):
        parts.append(
            f'<line class="grid" x1="{left:.1f}" x2="{width - RIGHT}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/><text class="tick y" x="{left - 6:.1f}" y="{y(tick) + 4:.1f}">'
            f"{tick:g}</text>"
        )
    for index, bar in enumerate(bars):
        x = left + step * (index + 0.5) - thick / 2
        top = y(bar.height)
        line = ""
        if bar.line is not None:
            at = y(min(bar.line, most))
            line = (
                f'<line class="floor" x1="{x:.1f}" x2="{x + thick:.1f}" y1="{at:.1f}" '
                f'y2="{at:.1f}"/>'
            )
        parts.append(
            f'<g class="{escape(" ".join(("bar", *bar.marks)))}" data-k="{escape(bar.key)}">'
            f"<title>{escape(bar.hover)}</title>"
            f'<rect class="catch" x="{left + step * index:.1f}" y="{TOP}" width="{step:.2f}" '
            f'height="{high}"/><rect x="{x:.1f}" y="{top:.1f}" width="{thick:.2f}" '
            f'height="{max(0.5, TOP + high - top):.1f}"/>{line}</g>'
        )
    for index in shown:
        x, under = left + step * (index + 0.5), TOP + high + (12 if slanted else 16)
        turned = f"rotate({-math.degrees(SLANT):.0f} {x:.1f} {under:.1f})"
        how = f' style="text-anchor:end" transform="{turned}"' if slanted else ""
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{under:.1f}"{how}>'
            f"{escape(bars[index].label or str(index))}</text>"
        )
    parts.append(f'<text class="unit" x="4" y="13">{escape(unit)}</text></svg>')
    return "\n".join(parts)


def _labelled(count: int) -> range:
    return range(0, count, max(1, round(count / 20)))


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to ``most``, five or so."""
    raw = most / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw * 0.999)
    return [step * i for i in range(int(most / step + 1e-6) + 1)]


@dataclass(frozen=True)
class Point:
    """A kernel in the roofline. intensity: operations a byte; rate: operations a second; share: of
    the time, 0 to 1; key, marks: as of a Bar."""

    intensity: float
    rate: float
    share: float
    hover: str
    key: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spot:
    """A thing in a scatter: x and y in the chart's units; name: beside it; hover, key: as of a
    Bar."""

    x: float
    y: float
    name: str
    hover: str
    key: str


def scatter(spots: Sequence[Spot], x_unit: str, y_unit: str, about: str) -> str:
    """Spots over two axes, x from 0, y from 0 to 1 in percent."""
    height = 360.0
    most = 1.15 * max((spot.x for spot in spots), default=1.0) or 1.0
    low = max(0.0, min((spot.y for spot in spots), default=0.0) - 0.1)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most

    def y(value: float) -> float:
        return TOP + (height - TOP - BOTTOM) * (1 - (value - low) / (1.0 - low))

    parts = [_open(WIDTH, height, about)]
    for below in ticks(1.0 - low):
        value = 1.0 - below
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/><text class="tick y" x="{LEFT - 6}" y="{y(value) + 4:.1f}">'
            f"{100 * value:.4g} %</text>"
        )
    for tick in ticks(most):
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{height - BOTTOM + 16}">{tick:g}</text>'
        )
    places = [(x(spot.x), y(spot.y), spot.name) for spot in spots]
    labels = _labels(places, height - BOTTOM)
    for spot, (at_x, at_y, name), (label_x, label_y) in zip(spots, places, labels, strict=True):
        parts.append(
            f'<g class="point" data-k="{escape(spot.key)}"><title>{escape(spot.hover)}</title>'
            f'{_leader(at_x, at_y, label_x, label_y)}<circle cx="{at_x:.1f}" cy="{at_y:.1f}" '
            f'r="7"/><text class="start name" x="{label_x:.1f}" y="{label_y:.1f}">'
            f"{escape(name)}</text></g>"
        )
    parts.append(
        f'<text class="unit" x="4" y="13">{escape(y_unit)}</text><text class="tick" '
        f'x="{(LEFT + WIDTH) / 2:.0f}" y="{height - 3}">{escape(x_unit)}</text></svg>'
    )
    return "\n".join(parts)


def _labels(spots: Sequence[tuple[float, float, str]], bottom: float) -> list[tuple[float, float]]:
    """Where names begin: right of their spots, left where the chart ends, and as far up or down as
    another name or spot is in the way."""
    placed = [(x - 9, y + 4, x + 9) for x, y, _ in spots]
    found = []
    for x, y, name in spots:
        long = 7 * len(name)
        begin = x + 11 if x + 11 + long < WIDTH else max(0.0, x - 11 - long)
        tried = [y + 4 + side * away for away in range(0, int(bottom), 2) for side in (1, -1)]
        free = (
            at
            for at in tried
            if TOP <= at <= bottom
            and not any(abs(at - b) < 14 and begin < c and a < begin + long for a, b, c in placed)
        )
        at = next(free, y + 4)
        placed.append((begin, at, begin + long))
        found.append((begin, at))
    return found


def _leader(x: float, y: float, label_x: float, label_y: float) -> str:
    """A line from a spot to its name, where that stands elsewhere than beside it."""
    if abs(label_y - 4 - y) < 12:
        return ""
    end = label_x - 2 if label_x > x else x - 9
    return f'<path class="leader" d="M{x:.1f} {y:.1f}L{end:.1f} {label_y - 4:.1f}"/>'


class _Axis:
    """Powers of ten between two pixels."""

    def __init__(self, least: float, most: float, begin: float, end: float) -> None:
        self.low = math.floor(math.log10(least))
        self.high = max(self.low + 1, math.ceil(math.log10(most)))
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)

    def powers(self) -> range:
        return range(self.low, self.high + 1)


def roofline(points: Sequence[Point], ceilings: Ceilings, about: str) -> str:
    """Operations a second over operations a byte, both as powers of ten, below the device's roofs.

    Points whose intensity or rate is 0 are not in it. Without known ceilings it has no roofs.
    """
    shown = [p for p in points if p.intensity > 0 and p.rate > 0]
    rates = dict(ceilings.rates or {}) if ceilings.known else {}
    if not shown:
        return ""
    height = 420.0
    intensities = [p.intensity for p in shown]
    knees = [rate / ceilings.bandwidth for rate in rates.values()] if rates else []
    x = _Axis(min(intensities), max([*intensities, *(3 * k for k in knees)]), LEFT, WIDTH - RIGHT)
    tops = [p.rate for p in shown]
    y = _Axis(min(tops), max([*tops, *rates.values()]), height - BOTTOM, TOP)
    parts = [_open(WIDTH, height, about)]
    for power in y.powers():
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(10.0**power):.1f}" '
            f'y2="{y(10.0**power):.1f}"/><text class="tick y" x="{LEFT - 6}" '
            f'y="{y(10.0**power) + 4:.1f}">{_giga(power)}</text>'
        )
    for power in x.powers():
        parts.append(
            f'<line class="grid" x1="{x(10.0**power):.1f}" x2="{x(10.0**power):.1f}" y1="{TOP}" '
            f'y2="{height - BOTTOM}"/><text class="tick" x="{x(10.0**power):.1f}" '
            f'y="{height - BOTTOM + 16}">{10.0**power:g}</text>'
        )
    if rates:
        parts += _roofs(rates, ceilings.bandwidth, x, y)
    for p in sorted(shown, key=lambda p: -p.share):
        radius = 3.5 + 22 * math.sqrt(p.share)
        parts.append(
            f'<g class="{escape(" ".join(("point", *p.marks)))}" data-k="{escape(p.key)}">'
            f'<title>{escape(p.hover)}</title><circle cx="{x(p.intensity):.1f}" '
            f'cy="{y(p.rate):.1f}" r="{radius:.1f}"/></g>'
        )
    parts.append('<text class="unit" x="4" y="13">Gop/s</text>')
    parts.append(
        f'<text class="tick" x="{(LEFT + WIDTH) / 2:.0f}" y="{height - 3}">operations a byte</text>'
        "</svg>"
    )
    return "\n".join(parts)


def _roofs(rates: dict[str, float], bandwidth: float, x: _Axis, y: _Axis) -> list[str]:
    """The slope of the memory up to the highest roof, and each roof from where it meets it."""
    least, most = 10.0**x.low, 10.0**x.high
    floor, top = 10.0**y.low, max(rates.values())
    begin, end = max(least, floor / bandwidth), min(most, top / bandwidth)
    parts = []
    if begin < end:
        # Above the slope, where no kernel is, and away from the corner, where axes have numbers.
        named = begin * (end / begin) ** 0.75
        parts.append(
            f'<path class="roof" d="M{x(begin):.1f} {y(begin * bandwidth):.1f}'
            f'L{x(end):.1f} {y(end * bandwidth):.1f}"/><text class="roof end" '
            f'x="{x(named) - 8:.1f}" y="{y(named * bandwidth) - 2:.1f}">'
            f"memory {bandwidth / 1e9:.3g} GB/s</text>"
        )
    for name, rate in rates.items():
        knee = min(most, max(least, rate / bandwidth))
        parts.append(
            f'<path class="roof" d="M{x(knee):.1f} {y(rate):.1f}L{x(most):.1f} {y(rate):.1f}"/>'
            f'<text class="roof end" x="{x(most) - 4:.1f}" y="{y(rate) - 5:.1f}">'
            f"{escape(name)} {rate / 1e9:.4g} Gop/s</text>"
        )
    return parts


def _giga(power: int) -> str:
    return f"{10.0 ** (power - 9):g}"


def _open(width: float, height: float, about: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'aria-label="{escape(about)}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="min-width:{max(620.0, width * 0.62):.0f}px">'
    )
