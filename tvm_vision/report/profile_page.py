"""A profile as a page: where the time of a frame goes, kernel by kernel, beside the floors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..package import PlannedGraph
from .charts import Bar, Point, bar_chart, roofline
from .compare import Change, how_fast
from .drawing import Box
from .floors import FLAGGED, Ceilings
from .network_graph import kernel_drawing, kernel_words
from .page import Cell, Section, page, panned, sortable, tiles
from .profile_document import SavedProfile
from .svg import svg_of

SHADES = 7
MOST_CHANGES = 40
_STAGES = (("upload", "c0"), ("span", "c1"), ("readback", "c2"), ("unexplained", "c3"))
_WORDS = {"span": "kernels", "readback": "read-back"}
Document = Mapping[str, Any]


def profile_page(
    document: Document,
    info: Document,
    ceilings: Ceilings,
    changes: Sequence[Change] = (),
    before: SavedProfile | None = None,
) -> str:
    """The page of a profile.

    document: of ``profile_document``. info: mod.json of the package. changes: beside ``before``,
    where that is given.
    """
    kernels = document["kernels"]
    graph = PlannedGraph.from_json(info["graph"])
    errors = {error["index"]: error["max_rel"] for error in document.get("layer_errors", ())}
    words = ["\n".join([kernel_words(graph, k["index"]), *_facts(k, errors)]) for k in kernels]
    sections = [_frame(document)]
    if before is not None:
        sections.append(_changes(changes, before, document))
    sections += [
        _bars(kernels, words, ceilings),
        _roofline(kernels, words, ceilings),
        _graph(graph, info, kernels, words, changes),
        _table(kernels, errors, ceilings),
    ]
    data = {"profile": document}
    if before is not None:
        data["changes"] = {"before": before.name, "changes": [c.to_dict() for c in changes]}
    facts = [
        f"{document['device_description']}; {document['precision']}, {len(kernels)} kernels, "
        f"medians of {document['repeat']} frames",
        f"What the device can do is {ceilings.line()}.",
    ]
    return page(f"Profile of {document['network']}", facts, sections, data)


def _facts(kernel: Document, errors: Mapping[int, float]) -> list[str]:
    """What was measured of a kernel, in lines."""
    told = [
        f"time: {kernel['median_us']:.1f} µs, p95 {kernel['p95_us']:.1f} µs, {_percent(kernel)}"
    ]
    work = f"work: {_amount(kernel['bytes'], 'B')}"
    if kernel["operations"] is not None:
        work += f", {_amount(kernel['operations'], 'op')} in {kernel['arithmetic']}"
    told.append(work)
    if kernel["floor_us"] is not None:
        told.append(
            f"floor: {kernel['floor_us']:.2f} µs by its {kernel['bound']}; it takes "
            f"{kernel['median_us'] / kernel['floor_us']:.1f} times as long"
        )
    if kernel["index"] in errors:
        told.append(f"largest error: {errors[kernel['index']]:.1e} of the largest value")
    return told


def _frame(document: Document) -> Section:
    kernels = document["kernels"]
    flagged = sum(kernel["flagged"] for kernel in kernels)
    values = [
        ("frame, wall", _time(document["wall_us"])),
        ("span of its kernels", _time(document["span_us"])),
        ("sum of kernels", _time(document["sum_us"])),
        ("upload", _time(document["upload_us"])),
        ("read-back", _time(document["readback_us"])),
        ("unexplained", _time(document["unexplained_us"])),
    ]
    if document["ceilings"]["source"] != "unknown":
        floor = sum(kernel["floor_us"] for kernel in kernels)
        values += [("sum of floors", _time(floor)), (f"above {FLAGGED:g} × floor", str(flagged))]
    whole = sum(document[f"{name}_us"] for name, _ in _STAGES) or 1.0
    parts, legend = [], []
    for name, colour in _STAGES:
        share = document[f"{name}_us"] / whole
        text = f"{_WORDS.get(name, name)} {100 * share:.1f} %"
        parts.append(f'<span class="{colour}" style="flex:{share:.4f} 0 0" title="{text}"></span>')
        legend.append(f'<span><i class="{colour}"></i>{text}</span>')
    body = (
        f'{tiles(values)}<div class="parts">{"".join(parts)}</div>'
        f'<div class="legend">{"".join(legend)}</div>'
    )
    words = (
        "Span: first to last kernel as they run in production; sum: each kernel alone between two "
        "timestamps. Unexplained: what the host waited beyond that, for driver, queue and itself."
    )
    return Section("frame", "A frame", words, body)


def _bars(kernels: Sequence[Document], words: Sequence[str], ceilings: Ceilings) -> Section:
    most = max((k["median_us"] for k in kernels), default=0.0)
    unit, scale = ("ms", 1e-3) if most > 1e4 else ("µs", 1.0)
    bars = [
        Bar(
            scale * k["median_us"],
            told,
            str(k["index"]),
            None if k["floor_us"] is None else scale * k["floor_us"],
            _warn(k),
        )
        for k, told in zip(kernels, words, strict=True)
    ]
    floors = f" The mark is the floor; a colour of its own: above {FLAGGED:g} times it."
    text = f"In the order of running.{floors if ceilings.known else ''}"
    about = f"times of {len(kernels)} kernels in {unit}"
    return Section(
        "kernels", "Kernels", text, f'<div class="wide">{bar_chart(bars, unit, about)}</div>'
    )


def _roofline(kernels: Sequence[Document], words: Sequence[str], ceilings: Ceilings) -> Section:
    points = [
        Point(
            k["operations"] / max(1, k["bytes"]),
            k["operations"] / (1e-6 * k["median_us"]) if k["median_us"] else 0.0,
            k["share"],
            told,
            str(k["index"]),
            _warn(k),
        )
        for k, told in zip(kernels, words, strict=True)
        if k["operations"]
    ]
    drawn = roofline(points, ceilings, "operations a second over operations a byte")
    text = (
        "The area is the share of the time. Operations are those of the network's layers, without "
        f"what a tile computes beyond an edge. Roofs: {ceilings.line()}."
    )
    none = (
        "<p>The package does not say how many operations its kernels have: compile the network "
        "again.</p>"
    )
    return Section(
        "roofline", "Roofline", text, f'<div class="wide">{drawn}</div>' if drawn else none
    )


def _graph(
    graph: PlannedGraph,
    info: Document,
    kernels: Sequence[Document],
    words: Sequence[str],
    changes: Sequence[Change],
) -> Section:
    most = max((k["median_us"] for k in kernels), default=0.0) or 1.0
    verdicts = {index: change.verdict for change in changes for index in change.now}

    def box(index: int) -> Box:
        kernel = kernels[index]
        shade = min(SHADES - 1, int(SHADES * math.sqrt(kernel["median_us"] / most)))
        marks = [f"h{shade}", *_warn(kernel), *([verdicts[index]] if index in verdicts else [])]
        lines = (" ".join(kernel["nodes"]), f"#{index}  {_time(kernel['median_us'])}")
        return Box(kernel["function"], lines, words[index], tuple(marks), str(index))

    names = [[tensor["name"] for tensor in info[key]] for key in ("inputs", "outputs")]
    drawn = panned(svg_of(kernel_drawing(graph, names[0], names[1], box)))
    scale = "".join(f'<i class="g{shade}"></i>' for shade in range(SHADES))
    legend = f'<div class="legend"><span class="scale">0 {scale} {_time(most)}</span></div>'
    if changes:
        legend += (
            '<div class="zoom"><button type="button" data-colours="by-time" aria-pressed="true">'
            'time</button><button type="button" data-colours="by-change">change</button></div>'
        )
    text = "Colours: the time of each kernel. Ctrl and the wheel zoom; a click tells more."
    return Section("network", "The network", text, legend + drawn)


def _table(kernels: Sequence[Document], errors: Mapping[int, float], ceilings: Ceilings) -> Section:
    header = ["#", "kernel", "nodes", "median µs", "p95 µs", "share", "MB", "Mop"]
    header += ["floor µs", "÷ floor", "bound"] if ceilings.known else []
    header += ["max rel error"] if errors else []
    rows = []
    for k in kernels:
        nodes = " ".join(k["nodes"])
        cells = [
            Cell(str(k["index"]), k["index"]),
            Cell(k["function"], marks="name", hover=k["function"]),
            Cell(nodes, marks="name", hover=nodes),
            _number(k["median_us"], ".1f"),
            _number(k["p95_us"], ".1f"),
            Cell(_percent(k), k["share"]),
            _number(k["bytes"] / 1e6, ".3f"),
            _number(None if k["operations"] is None else k["operations"] / 1e6, ".2f"),
        ]
        if ceilings.known:
            times = k["median_us"] / k["floor_us"]
            cells += [_number(k["floor_us"], ".2f")]
            cells += [Cell(f"{times:.1f}", times, "warn" if k["flagged"] else "")]
            cells += [Cell(k["bound"])]
        if errors:
            cells.append(_number(errors.get(k["index"]), ".1e"))
        rows.append((str(k["index"]), cells))
    text = "A click on a head sorts; a click on a line shows the kernel in the network."
    return Section("table", "All kernels", text, sortable("all-kernels", header, rows))


def _changes(changes: Sequence[Change], before: SavedProfile, document: Document) -> Section:
    times = how_fast(changes, document["span_us"], before.span_us)
    text = (
        f"{before.name} ({before.device_description}) took {_time(before.span_us)} for the "
        f"kernels of a frame, this takes {_time(document['span_us'])}: {times}. "
        "Groups of kernels that compute the same nodes, the largest difference first."
    )
    shown = [change for change in changes if change.verdict != "same"][:MOST_CHANGES]
    # Each side is as wide as its longest bar.
    longer = [max((side * c.difference_us for c in shown), default=0.0) for side in (1, -1)]
    slower, faster = (max(0.0, part) for part in longer)
    whole = slower + faster or 1.0
    zero = 100 * faster / whole
    parts = []
    for change in shown:
        name = " ".join(change.nodes)
        width = 100 * abs(change.difference_us) / whole
        left = zero if change.difference_us > 0 else zero - width
        key = f' data-k="{change.now[0]}"' if change.now else ""
        parts.append(
            f'<span class="what"{key} title="{escape(name)}">{escape(name)}</span>'
            f'<span class="track"><i class="{change.verdict}" style="left:{left:.2f}%;'
            f'width:{width:.2f}%"></i></span><span class="much">{_moved(change)}</span>'
        )
    rest = len(changes) - len(shown)
    legend = (
        '<div class="legend"><span><i class="slower"></i>slower</span><span><i class="faster"></i>'
        f"faster</span><span>{rest} more: as before, or smaller</span></div>"
    )
    return Section(
        "changes", "What changed", text,
        f'{legend}<div class="changes" style="--zero:{zero:.2f}%">{"".join(parts)}</div>',
    )  # fmt: skip


def _warn(kernel: Document) -> tuple[str, ...]:
    return ("warn",) if kernel["flagged"] else ()


def _number(value: float | None, form: str) -> Cell:
    return Cell("–") if value is None else Cell(f"{value:{form}}", value)


def _percent(kernel: Document) -> str:
    return f"{100 * kernel['share']:.1f} %"


def _moved(change: Change) -> str:
    """The times before and now; a layer that one of the two has not, has none there."""
    if not change.now:
        return f"{_time(change.before_us)} → gone"
    return f"{_time(change.before_us) if change.before else 'new'} → {_time(change.now_us)}"


def _time(microseconds: float) -> str:
    if abs(microseconds) < 1000:
        return f"{microseconds:.1f} µs"
    if abs(microseconds) < 1e6:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds / 1e6:.2f} s"


def _amount(count: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {prefix}{unit}"
        count /= 1000
    return f"{count:.3g} T{unit}"
