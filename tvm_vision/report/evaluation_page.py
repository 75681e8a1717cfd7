"""What ``tvm-vision evaluate`` found as a page: accuracy beside latency and size, confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .charts import Bar, Spot, bar_chart, scatter
from .page import Cell, Section, page, sortable

MOST_CLASSES = 60  # in a confusion matrix that is drawn
SHADES = 7
MIB = 1 << 20
Row = Mapping[str, Any]
# What the first measure of pictures is of one class.
OF_A_CLASS = {"boxes": "AP50-95", "masks": "IoU"}
# Measure of a kind of set -> what it is called; the first one is that of pictures.
MEASURES = {
    "classes": {"top1": "top 1", "top5": "top 5"},
    "boxes": {"ap50_95": "AP50-95", "ap50": "AP50"},
    "masks": {"miou": "mean IoU", "pixels": "pixels"},
}


def evaluation_page(rows: Sequence[Row], kind: str, names: Sequence[str], title: str) -> str:
    """The page of an evaluation.

    rows: of ``evaluate.variants``. kind, names: of the set.
    """
    good = [row for row in rows if "error" not in row]
    images = good[0]["images"] if good else 0
    measure, words = next(iter(MEASURES[kind].items()))
    spots = [
        Spot(
            row["latency_ms"]["median"],
            row["scores"][measure] or 0.0,
            row["name"],
            f"{row['name']}\n{words} {_score(row['scores'][measure]).text}\n"
            f"{row['latency_ms']['median']:.2f} ms",
            row["name"],
        )
        for row in good
    ]
    drawn = scatter(spots, "ms", words, f"{words} over latency")
    sections = [
        Section("table", "Variants", "A click on a head sorts.", _table(rows, kind)),
        Section(
            "trade", f"{words[:1].upper()}{words[1:]} and latency",
            "Medians of whole frames, from the image to the result, by the host's clock. Further "
            "left is faster, further up is better.", f'<div class="wide">{drawn}</div>',
        ),
        Section(
            "sizes", "Sizes", "Of packages, in MiB.", f'<div class="wide">{_sizes(good)}</div>'
        ),
    ]  # fmt: skip
    if kind == "classes":
        more = f" The {MOST_CLASSES} with most errors." if len(names) > MOST_CLASSES else ""
        text = f"Rows: what an image shows; columns: what was found.{more}"
        matrices = "".join(_confusion(row, names) for row in good)
        body = f'<div class="matrices">{matrices}</div>'
        sections.append(Section("confusions", "Confusions", text, body))
    else:
        sections.append(_by_class(good, OF_A_CLASS[kind]))
    warned = [(row["name"], line) for row in good for line in row["warnings"]]
    warned += [(row["name"], row["error"]) for row in rows if "error" in row]
    if warned:
        body = "".join(f"<li><b>{escape(n)}</b>: {escape(line)}</li>" for n, line in warned)
        sections.append(Section("warnings", "Warnings and errors", "", f"<ul>{body}</ul>"))
    classes = len(good[0]["scores"]["classes"]) if good else len(names)
    counts = [
        _counted(len(rows), "variant"), _counted(images, "image"), _counted(classes, "class", "es"),
    ]  # fmt: skip
    facts = ["{} over {} of {}".format(*counts)]
    return page(title, facts, sections, {"evaluation": list(rows)})


def _table(rows: Sequence[Row], kind: str) -> str:
    header = [
        "variant",
        *MEASURES[kind].values(),
        "median ms",
        "p95 ms",
        "package MiB",
        "memory MiB",
    ]
    header += ["device"]
    body = []
    for row in rows:
        if "error" in row:
            blank = [Cell("–")] * (len(header) - 2)
            cells = [Cell(row["name"], marks="name"), *blank]
            cells.append(Cell(row["error"], marks="name warn", hover=row["error"]))
        else:
            memory = row["memory_bytes"]
            cells = [
                Cell(row["name"], marks="name"),
                *(_score(row["scores"][measure]) for measure in MEASURES[kind]),
                _number(row["latency_ms"]["median"], ".2f"),
                _number(row["latency_ms"]["p95"], ".2f"),
                _number(row["package_bytes"] / MIB, ".2f"),
                Cell("–") if memory is None else _number(memory / MIB, ".2f"),
                Cell(row["device"], marks="name", hover=row["device"]),
            ]
        body.append((row["name"], cells))
    return sortable("variants", header, body)


def _sizes(rows: Sequence[Row]) -> str:
    bars = [
        Bar(
            row["package_bytes"] / MIB,
            f"{row['name']}: {row['package_bytes'] / MIB:.2f} MiB",
            row["name"],
            label=row["name"],
        )
        for row in rows
    ]
    return bar_chart(bars, "MiB", "sizes of packages")


def _confusion(row: Row, names: Sequence[str]) -> str:
    """The matrix of a variant: a row for what an image shows, a column for what was found."""
    matrix = row["scores"]["confusion"]
    shown = range(len(names))
    if len(names) > MOST_CLASSES:
        wrong = {i: sum(matrix[i]) - matrix[i][i] for i in shown}
        shown = sorted(sorted(wrong, key=lambda i: -wrong[i])[:MOST_CLASSES])  # type: ignore[assignment]
    heads = "".join(f"<th>{escape(names[i])}</th>" for i in shown)
    lines = []
    for i in shown:
        whole = sum(matrix[i]) or 1
        columns = [*(matrix[i][j] for j in shown), matrix[i][-1]]
        cells = "".join(
            f'<td class="g{min(SHADES - 1, round((SHADES - 1) * n / whole))}">{n or ""}</td>'
            for n in columns
        )
        lines.append(f'<tr><td class="name">{escape(names[i])}</td>{cells}</tr>')
    return (
        f'<div><h3>{escape(row["name"])}</h3><div class="wide"><table class="matrix"><thead><tr>'
        f"<th></th>{heads}<th>other</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        "</div>"
    )


def _by_class(rows: Sequence[Row], words: str) -> Section:
    """The first measure of each class, in words, in each variant."""
    header = ["class", *(row["name"] for row in rows)]
    names = rows[0]["scores"]["classes"] if rows else ()
    body = []
    for name in names:
        found = [row["scores"]["classes"][name] for row in rows]
        values = [each["ap50_95"] if isinstance(each, Mapping) else each for each in found]
        body.append(("", [Cell(name, marks="name"), *map(_score, values)]))
    return Section(
        "classes", "By class", f"{words} in each variant.", sortable("by-class", header, body)
    )


def _counted(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{'' if count == 1 else ending}"


def _score(value: float | None) -> Cell:
    return Cell("–") if value is None else Cell(f"{100 * value:.1f} %", value)


def _number(value: float, form: str) -> Cell:
    return Cell(f"{value:{form}}", value)
