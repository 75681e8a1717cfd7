"""Tables of a results file, in Markdown.

Usage: python -m benchmarks.peers.report benchmarks/results/DEVICE.json
    [--docs docs/performance/results.md]
With --docs, the tables replace what stands there between the two comments that name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from .engine import PRECISIONS
from .frames import STAGES
from .networks import NETWORKS
from .work import Work, floor_ms

Results = Mapping[str, Any]
OURS = "tvm_vision"
# Those that run on the same Vulkan driver; the others are CUDA or the CPU.
VULKAN_PEERS = ("ncnn", "iree", "ort_webgpu")
SLOWED = "† taken when the device had clocked down: longer than a frame with its copies."
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def tables(results: Results) -> str:
    """Latency for each precision, then what is known of our own time."""
    parts = [conditions(results)]
    for precision in PRECISIONS:
        parts.append(f"### {precision}: median (p95), ms")
        parts.append(latency_table(results, precision))
    if any("stages_ms" in row for row in results["rows"]):
        parts.append("### From a photo to boxes and a mask: medians, ms")
        parts.append(stages_table(results))
    parts.append("### Where our time goes")
    parts.append(floor_table(results))
    return "\n\n".join(parts) + "\n"


def conditions(results: Results) -> str:
    """What was measured, where and when."""
    settings = results["settings"]
    lines = [
        f"{results['device']}. {results['host']}. {results['date']}, commit {results['commit']}. "
        f"Up to {settings['runs']} frames in {settings['rounds']} rounds of at most "
        f"{settings['round_seconds']} s, after {settings['warm_seconds']} s of warm-up.",
        "",
    ]
    for engine in results["engines"].values():
        state = engine.get("version") or f"not installed ({engine['not_installed']})"
        lines.append(f"- {engine['title']}: {state}")
    return "\n".join(lines)


def latency_table(results: Results, precision: str) -> str:
    """A row a network, a column an engine; the last column: best Vulkan peer over ours."""
    engines = results["engines"]
    found = _by_key(results)
    rows = []
    for network in _networks(results):
        cells = [_latency(found.get((network, precision, e)), engines[e]) for e in engines]
        rows.append([NETWORKS[network].title, *cells, _gain(found, network, precision)])
    header = ["network", *(e["title"] for e in engines.values()), "Vulkan peers ÷ ours"]
    notes = _notes(results, precision)
    return "\n".join([_markdown(header, rows), *([""] if notes else []), *notes])


def stages_table(results: Results) -> str:
    """The stages of a frame for each engine and form of the demo's network."""
    rows = []
    for row in results["rows"]:
        if "stages_ms" in row:
            cells = [NETWORKS[row["network"]].title, row["precision"]]
            times = [*row["stages_ms"].values(), row["median_ms"]]
            cells += [results["engines"][row["engine"]]["title"]]
            rows.append([*cells, *(f"{ms:.3f}" for ms in times)])
    return _markdown(["network", "precision", "engine", *STAGES, "frame"], rows, 3)


def floor_table(results: Results) -> str:
    """Our device time against what its kernels sum up to and what the device allows.

    What a run did not get to is a dash.
    """
    ceilings = results["ceilings"]
    rows = []
    slowed = False
    for row in results["rows"]:
        if row["engine"] != OURS or "problem" in row:
            continue
        network, precision, details = row["network"], row["precision"], row["details"]
        span, total = details["span_ms"], details.get("sum_ms")
        first = results["first_result_s"].get(f"{network} {precision}")
        slow = span > row["median_ms"]
        slowed |= slow
        shown = f"{span:.3f} †" if slow else f"{span:.3f}"
        cells = [NETWORKS[network].title, precision, f"{row['median_ms']:.3f}", shown]
        cells += ["–", "–"] if total is None else _busy(span, total)
        cells += [str(details["kernels"]), str(details["chain"])]
        if ceilings:
            work = Work(**results["work"][f"{network} {precision}"])
            floor = floor_ms(work, details["chain"], ceilings, precision)
            cells += [f"{floor:.3f}", "–" if slow else f"{span / floor:.1f}"]
        else:
            cells += ["–", "–"]
        cells += [
            f"{row['error']:.1e}", f"{details['memory_bytes'] / 1e6:.1f}",
            f"{details['package_bytes'] / 1e6:.1f}", "–" if first is None else f"{first:.2f}",
        ]  # fmt: skip
        rows.append(cells)
    header = [
        "network", "precision", "frame, ms", "span, ms", "busy", "gaps, µs", "kernels", "chain",
        "floor, ms", "span ÷ floor", "error", "memory, MB", "package, MB", "first result, s",
    ]  # fmt: skip
    named = ", ".join(f"{name} {value:g}" for name, value in ceilings.items())
    bare = results.get("bare_process_s")
    beside = (
        "" if bare is None else " A process that imports numpy, then opens a Vulkan device, and no "
        f"more, takes {bare:.2f} s there."
    )  # fmt: skip
    head = f"Ceilings of the device: {named or 'not measured'}.{beside}"
    note = f"\n\n{SLOWED}" if slowed else ""
    return f"{head}\n\n{_markdown(header, rows, 2)}{note}"


def _busy(span: float, total: float) -> list[str]:
    """Share of the span that kernels take, and microseconds between them."""
    return [f"{100 * min(total / span, 1):.0f} %", f"{1e3 * max(span - total, 0):.0f}"]


def _networks(results: Results) -> list[str]:
    return [n for n in NETWORKS if any(row["network"] == n for row in results["rows"])]


def _by_key(results: Results) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    return {(r["network"], r["precision"], r["engine"]): r for r in results["rows"]}


def _latency(row: Mapping[str, Any] | None, engine: Mapping[str, str]) -> str:
    if "not_installed" in engine:
        return "not installed"
    if row is None:
        return "–"
    if "problem" in row:
        return "not measured" if row["problem"].startswith("not measured") else "fails"
    return f"{row['median_ms']:.3f} ({row['p95_ms']:.3f})"


def _gain(found: Mapping[tuple[str, str, str], Any], network: str, precision: str) -> str:
    ours = found.get((network, precision, OURS), {}).get("median_ms")
    theirs = [found.get((network, precision, e), {}).get("median_ms") for e in VULKAN_PEERS]
    known = [value for value in theirs if value is not None]
    return f"{min(known) / ours:.2f}" if ours and known else "–"


def _notes(results: Results, precision: str) -> list[str]:
    """Why cells have no number, and which results are not close to the reference."""
    notes: dict[tuple[str, str], list[str]] = {}
    for row in results["rows"]:
        engine = results["engines"][row["engine"]]
        if row["precision"] != precision or "not_installed" in engine:
            continue
        note = row.get("problem", "")
        if not note and row["error"] > (1e-4 if precision == "fp32" else 2e-2):
            note = f"off by {row['error']:.1e} from the reference"
        if note:
            title = NETWORKS[row["network"]].title
            notes.setdefault((engine["title"], note), []).append(title)
    return [f"- {engine}: {', '.join(names)}: {note}" for (engine, note), names in notes.items()]


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def replace_block(document: str, block: str) -> str:
    """The document with ``block`` between its two comments. Raises ValueError without them."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected the comments {BEGIN} and {END} in the document")
    return f"{head}{BEGIN}\n{block}{END}{tail}"


@click.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--docs", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(results: Path, docs: Path | None) -> None:
    """Print the tables of RESULTS, or put them into a document."""
    text = tables(json.loads(results.read_text()))
    if docs is None:
        click.echo(text)
    else:
        docs.write_text(replace_block(docs.read_text(), text))


if __name__ == "__main__":
    main()
