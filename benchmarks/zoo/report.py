"""The tables of the zoo: the networks where ours does worst beside PyTorch's CUDA graph first."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.reference_doc import table

HEADER = (
    "network | input | ours fp32 | CUDA graph | ratio | ours fp16 | CUDA graph | ratio | kernels"
)
PRECISIONS = ("fp32", "fp16")
Row = Mapping[str, Any]


def page(results: Mapping[str, Any]) -> str:
    """The device, what the medians are, and a row a network."""
    rows: Sequence[Row] = results["rows"]
    lines = [results["device"] + ".", ""]
    for precision in PRECISIONS:
        ratios = [found for row in rows if (found := ratio(row, precision)) is not None]
        if ratios:
            behind = sum(found > 1 for found in ratios)
            lines.append(
                f"- {precision}: a frame takes {statistics.median(ratios):.2f} of the CUDA graph's "
                f"(median of {len(ratios)} networks); slower in {behind}."
            )
    worse = [r["name"] for r in rows if _slower_in_fp16(r)]
    lines.append(f"- slower in fp16 than in fp32 on the device: {', '.join(worse) or 'none'}.")
    seconds = [row["compile_s"] for row in rows if row.get("compile_s")]
    if seconds:
        lines.append(
            f"- a compilation: {statistics.median(seconds):.1f} s of processor time at the median, "
            f"{max(seconds):.1f} s at most."
        )
    ordered = sorted(rows, key=_worst, reverse=True)
    failed = [f"- {r['name']}, {of}: {said}" for r in rows for of, said in r["failed"].items()]
    return "\n".join([*lines, "", table(HEADER, map(_cells, ordered)), *failed]).rstrip() + "\n"


def ratio(row: Row, precision: str) -> float | None:
    """Our frame over the CUDA graph's; None where one of them is not known."""
    own, other = row.get(precision), row.get(f"cuda_{precision}")
    return own["frame"] / other["frame"] if own and other else None


def _worst(row: Row) -> float:
    """Of both precisions; a network that does not run is worst."""
    if any(precision in row["failed"] for precision in PRECISIONS):
        return float("inf")
    return max((ratio(row, precision) or 0.0 for precision in PRECISIONS), default=0.0)


def _slower_in_fp16(row: Row) -> bool:
    full, half = row.get("fp32"), row.get("fp16")
    return bool(full and half and half["device"] > 1.01 * full["device"])


def _cells(row: Row) -> tuple[str, ...]:
    cells = [row["name"], "×".join(map(str, row["shape"]))]
    for precision in PRECISIONS:
        cells += [_times(row.get(precision)), _times(row.get(f"cuda_{precision}"))]
        found = ratio(row, precision)
        cells.append("–" if found is None else f"{found:.2f}")
    kernels = (row.get("fp16") or row.get("fp32") or {}).get("kernels")
    return (*cells, "–" if kernels is None else str(kernels))


def _times(found: Mapping[str, float] | None) -> str:
    return f"{found['frame']:.2f} ({found['device']:.2f})" if found else "–"
