"""Results of networks as lines, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .rows import Row, key, place

FAULTS = ("wrong", "failed", "crashed", "timeout")
OUTCOMES = {
    "right": "within the tolerance of `check`, or what the reference differs from itself by",
    "wrong": "ran, with another result",
    "beyond": "has values beyond the range of fp16: for fp32, or layers chosen by their error",
    "ran": "ran; there is nothing to compare: no reference, or the same result for every input",
    "refused": "not compiled: one line says why, and what to do",
    "failed": "an error that is no refusal",
    "crashed": "the process died",
    "timeout": "took too long",
}


def summary_line(row: Row) -> str:
    """A line for one result."""
    words = [row["target"], row["outcome"], key(row)]
    words += [f"error {row['error']:.1e}"] if "error" in row else []
    words += [f"{row['seconds']} s"] if "seconds" in row else []
    words += [row["message"]] if row.get("message") else []
    words += [f"near tie: {row['ties']}"] if "ties" in row else []
    return "  ".join(words)


def markdown(rows: Sequence[Row]) -> str:
    """The page of rows in order: outcomes by target, a table of networks, and what each refusal
    says."""
    kinds = {row["target"] for row in rows}
    targets = sorted(kinds, key=lambda kind: (not kind.startswith("vulkan"), kind))
    by_network: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        by_network.setdefault(place(row), {})[row["target"]] = row
    parts = [
        "# Networks of public packages",
        "",
        "Generated; do not edit. To try more networks, or one again (`--again`), and to draw it:",
        "",
        "    python -m tests.support.zoo build/wheels/*.whl \\",
        "        --results tests/support/zoo/networks.jsonl --report docs/reference/networks.md",
        "",
        "Each file is run on random inputs and, where it takes one, on a photo, and held to",
        "onnxruntime without optimisations, or to LiteRT's plain kernels. *Error* is the largest",
        "of an output, relative to its largest value (of integers the share that differs); *same*",
        "the least share of places whose arg max is the same; seconds are those of importing and",
        "compiling. Right is within the tolerance of `tvm-vision check`, or within what the",
        "reference differs from itself by, with optimisations and without, and with inputs a",
        "millionth away, where networks that sort or choose may change; of quantized networks",
        "within twice that, as each of three may be that far from the exact result. A network that",
        "chooses (sorts, compares, suppresses) otherwise than the reference is compared once more",
        "with the reference choosing by our numbers: right then is a near tie. Streaming networks",
        "are held to it in their first frame. In fp16 (`vulkan-fp16`) the tolerance is that of",
        "fp16, or what the reference moves by when its inputs are rounded to it.",
        "",
        *_settings(rows),
        *_counts(rows, targets),
        *_table(by_network, targets),
        *_messages(by_network, targets),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _settings(rows: Sequence[Row]) -> list[str]:
    """What results are held to, on which devices, and how many each."""
    counts = Counter((row["reference"], row["device"]) for row in rows)
    lines = [f"- {count} held to {one}, on {device}" for (one, device), count in counts.items()]
    return ["Results; seconds are of processors shared with other work:", "", *sorted(lines), ""]


def _counts(rows: Sequence[Row], targets: Sequence[str]) -> list[str]:
    lines = []
    for outcome, meaning in OUTCOMES.items():
        counts = [
            sum(row["target"] == target and row["outcome"] == outcome for row in rows)
            for target in targets
        ]
        lines += [_row(outcome, *counts, meaning)] if any(counts) else []
    return [_row("outcome", *targets, "meaning"), _rule(len(targets) + 2), *lines, ""]


def _table(by_network: dict[tuple[str, ...], dict[str, Row]], targets: Sequence[str]) -> list[str]:
    columns = [f"{target}{what}" for target in targets for what in ("", ": error", ": seconds")]
    rows = []
    for (package, version, file), found in sorted(by_network.items()):
        cells: list[Any] = []
        for target in targets:
            result = found.get(target, {})
            cells += [
                result.get("outcome", "-"),
                f"{result['error']:.1e}" if "error" in result else "-",
                result.get("seconds", "-"),
            ]
        same = [result["same"] for result in found.values() if "same" in result]
        cells.append(f"{100 * min(same):.1f} %" if same else "-")
        cells.append(" ".join(dict.fromkeys(result["commit"] for result in found.values())))
        one = next(iter(found.values()))
        made = [one.get("exporter", "-"), one.get("operators", "-")]
        rows.append(_row(f"{package} {version}".strip(), file, *made, *cells))
    header = _row("package", "file", "written by", "operators", *columns, "same", "commit")
    return ["## Networks", "", header, _rule(len(columns) + 6), *rows, ""]


def _messages(
    by_network: dict[tuple[str, ...], dict[str, Row]], targets: Sequence[str]
) -> list[str]:
    rows = []
    for (package, _, file), found in sorted(by_network.items()):
        said: dict[str, list[str]] = {}
        for target in targets:
            message = found.get(target, {}).get("message", "")
            said.setdefault(message, []).append(target)
        rows += [
            f"- {package} `{file}` ({', '.join(those)}): {message}"
            for message, those in said.items()
            if message
        ]
    return ["## What is said of the others", "", *rows, ""] if rows else []


def _row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
