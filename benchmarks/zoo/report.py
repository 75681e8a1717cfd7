"""The tables of the zoo: the networks where ours does worst beside PyTorch's CUDA graph, or its
compiler, first."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.reference_doc import table

PRECISIONS = ("fp32", "fp16")
OTHERS = {"cuda": "the CUDA graph", "inductor": "Inductor"}
Row = Mapping[str, Any]


def page(results: Mapping[str, Any]) -> str:
    """The device, what the medians are, and a row a network."""
    rows: Sequence[Row] = results["rows"]
    lines = [results["device"] + ".", ""]
    for precision, (other, name) in itertools.product(PRECISIONS, OTHERS.items()):
        ratios = [found for row in rows if (found := ratio(row, precision, other)) is not None]
        if ratios:
            behind = sum(found > 1 for found in ratios)
            lines.append(
                f"- {precision}: a frame takes {statistics.median(ratios):.2f} of {name}'s "
                f"(median of {len(ratios)} networks); slower in {behind}."
            )
    timed = [p for p in PRECISIONS if any(p in row for row in rows)]
    if len(timed) == len(PRECISIONS):
        worse = [r["name"] for r in rows if _slower_in_fp16(r)]
        lines.append(f"- slower in fp16 than in fp32 on the device: {', '.join(worse) or 'none'}.")
    seconds = [row["compile_s"] for row in rows if row.get("compile_s")]
    if seconds:
        lines.append(
            f"- a compilation: {statistics.median(seconds):.1f} s of processor time at the median, "
            f"{max(seconds):.1f} s at most."
        )
    others = [of for of in OTHERS if any(f"{of}_{p}" in row for p in PRECISIONS for row in rows)]
    header = ["network", "input"]
    for precision in timed:
        header.append(f"ours {precision}")
        for of in others:
            header += [OTHERS[of].removeprefix("the "), "ratio"]
    header.append("kernels")
    ordered = sorted(rows, key=_worst, reverse=True)
    cells = (_cells(row, timed, others) for row in ordered)
    failed = [f"- {r['name']}, {of}: {said}" for r in rows for of, said in r["failed"].items()]
    return "\n".join([*lines, "", table(" | ".join(header), cells), *failed]).rstrip() + "\n"


def ratio(row: Row, precision: str, other: str = "cuda") -> float | None:
    """Our frame over another's, a key of OTHERS; None where one of them is not known."""
    own, their = row.get(precision), row.get(f"{other}_{precision}")
    return own["frame"] / their["frame"] if own and their else None


def _worst(row: Row) -> float:
    """Of both precisions and others; a network that does not run is worst."""
    if any(precision in row["failed"] for precision in PRECISIONS):
        return float("inf")
    return max(ratio(row, *of) or 0.0 for of in itertools.product(PRECISIONS, OTHERS))


def _slower_in_fp16(row: Row) -> bool:
    full, half = row.get("fp32"), row.get("fp16")
    return bool(full and half and half["device"] > 1.01 * full["device"])


def _cells(row: Row, timed: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    cells = [row["name"], "×".join(map(str, row["shape"]))]
    for precision in timed:
        cells.append(_times(row.get(precision)))
        for other in others:
            found = ratio(row, precision, other)
            cells.append(_times(row.get(f"{other}_{precision}")))
            cells.append("–" if found is None else f"{found:.2f}")
    kernels = (row.get("fp16") or row.get("fp32") or {}).get("kernels")
    return (*cells, "–" if kernels is None else str(kernels))


def _times(found: Mapping[str, float] | None) -> str:
    return f"{found['frame']:.2f} ({found['device']:.2f})" if found else "–"
