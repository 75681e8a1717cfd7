"""The tables of the zoo, one a precision; where ours does worst beside others comes first."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.markdown_tables import table

PRECISIONS = ("fp32", "fp16", "int8")
PYTORCH = {"cuda": "the CUDA graph", "inductor": "Inductor"}
VULKAN = {"ncnn": "ncnn", "webgpu": "WebGPU"}
OTHERS = {**PYTORCH, **VULKAN}
Row = Mapping[str, Any]


def page(results: Mapping[str, Any]) -> str:
    """The device, what the medians are, and a row a network in a table for each precision."""
    rows: Sequence[Row] = results["rows"]
    lines = [results["device"] + ".", ""]
    for precision in PRECISIONS:
        for other, name in OTHERS.items():
            found = [of for row in rows if (of := ratio(row, precision, other)) is not None]
            if found:
                behind = sum(of > 1 for of in found)
                lines.append(
                    f"- {precision}: a frame takes {statistics.median(found):.2f} of {name}'s "
                    f"(median of {len(found)} networks); slower in {behind}."
                )
    lines += _slower_than(rows, "fp16", "fp32") + _slower_than(rows, "int8", "fp16")
    seconds = [row["compile_s"] for row in rows if row.get("compile_s")]
    if seconds:
        lines.append(
            f"- a compilation: {statistics.median(seconds):.1f} s of processor time at the median, "
            f"{max(seconds):.1f} s at most."
        )
    for precision in PRECISIONS:
        lines += _table(rows, precision)
    return "\n".join([*lines, *_failures(rows)]).rstrip() + "\n"


def ratio(row: Row, precision: str, other: str = "cuda") -> float | None:
    """Our frame over another's, a key of OTHERS; None where one of them is not known."""
    own, their = row.get(precision), row.get(f"{other}_{precision}")
    return own["frame"] / their["frame"] if own and their else None


def _table(rows: Sequence[Row], precision: str) -> list[str]:
    """What was timed in a precision. Of int8, which no other engine here has, beside our fp16."""
    mine = [row for row in rows if precision in row or precision in row["failed"]]
    if not any(precision in row for row in mine):
        return []
    others = [of for of in OTHERS if any(f"{of}_{precision}" in row for row in mine)]
    header = ["network", "input", f"ours {precision}"]
    if precision == "int8":
        header += ["ours fp16", "int8 / fp16"]
    for other in others:
        header += [OTHERS[other].removeprefix("the "), "ratio"]
    if any("error" in row.get(precision, {}) for row in mine):
        header.append("error")
    header.append("kernels")
    ordered = sorted(mine, key=lambda row: _worst(row, precision, others), reverse=True)
    cells = (_cells(row, precision, others, header) for row in ordered)
    return ["", table(" | ".join(header), cells)]


def _worst(row: Row, precision: str, others: Sequence[str]) -> float:
    """Of all others; a network that does not run is worst. Half of a Vulkan engine's time is our
    aim, all of PyTorch's."""
    if precision in row["failed"]:
        return float("inf")
    if precision == "int8":
        return _of_fp16(row) or 0.0
    weights = {**dict.fromkeys(PYTORCH, 1.0), **dict.fromkeys(VULKAN, 2.0)}
    return max(((ratio(row, precision, of) or 0.0) * weights[of] for of in others), default=0.0)


def _of_fp16(row: Row) -> float | None:
    """The device's time of int8 over that of fp16."""
    of = [row.get(precision) for precision in ("int8", "fp16")]
    return of[0]["device"] / of[1]["device"] if of[0] and of[1] else None


def _slower_than(rows: Sequence[Row], quicker: str, slower: str) -> list[str]:
    pairs = [(row["name"], row[quicker], row[slower]) for row in rows
             if quicker in row and slower in row]  # fmt: skip
    worse = [name for name, a, b in pairs if a["device"] > 1.01 * b["device"]]
    names = ", ".join(worse) or "none"
    return [f"- slower in {quicker} than in {slower} on the device: {names}."] if pairs else []


def _cells(
    row: Row, precision: str, others: Sequence[str], header: Sequence[str]
) -> tuple[str, ...]:
    own = row.get(precision, {})
    cells = [row["name"], "×".join(map(str, row["shape"])), _times(own)]
    if precision == "int8":
        found = _of_fp16(row)
        cells += [_times(row.get("fp16")), "–" if found is None else f"{found:.2f}"]
    for other in others:
        found = ratio(row, precision, other)
        cells.append(_times(row.get(f"{other}_{precision}")))
        cells.append("–" if found is None else f"{found:.2f}")
    if "error" in header:
        cells.append("–" if own.get("error") is None else f"{own['error']:.1e}")
    return (*cells, str(own.get("kernels", "–")))


def _times(found: Mapping[str, float] | None) -> str:
    if not found:
        return "–"
    device = f" ({found['device']:.2f})" if "device" in found else ""
    return f"{found['frame']:.2f}{device}"


def _failures(rows: Sequence[Row]) -> list[str]:
    """Who could not run what, and why; the networks of one reason in one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for of, said in row["failed"].items():
            found.setdefault((of, said), []).append(row["name"])
    return ["", *(f"- {of}: {said} ({', '.join(names)})" for (of, said), names in found.items())]
