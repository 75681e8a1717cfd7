"""Records as images."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TuningError
from ..runtime.figures import figure_path, pyplot, save
from .records import Record, Records

MOST_KERNELS = 12
# Times that are so many times apart are drawn by their logarithm, others from 0.
WIDE = 10.0


def draw_records(records: Records, output: str | os.PathLike[str]) -> None:
    """A panel for each of the slowest kernels: every candidate's time, and the best so far.

    output: .png, .svg or .pdf.

    Raises InputError without matplotlib or for another ending, TuningError where nothing was
    measured.
    """
    path = figure_path(output)
    panels: dict[Any, list[Record]] = {}
    for record in records:
        if record.seconds:
            panels.setdefault((record.kernel, record.place), []).append(record)
    if not panels:
        raise TuningError("records with times are needed to draw, and there are none")
    slowest = sorted(panels.values(), key=lambda items: -max(r.best for r in items))[:MOST_KERNELS]
    columns = min(3, len(slowest))
    rows = math.ceil(len(slowest) / columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(5 * columns, 3 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(slowest) :]:
        axis.set_visible(False)
    for axis, items in zip(axes.flat, slowest, strict=False):
        _panel(axis, items)
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3,
        fontsize=8, frameon=False,
    )  # fmt: skip
    save(figure, path, TuningError)


def draw_curves(
    curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    output: str | os.PathLike[str],
) -> None:
    """A panel for each network: its time against that of the search, a line for each search.

    curves: network, search, points of (seconds since the start, seconds of the network).
    output: .png, .svg or .pdf.

    Raises InputError without matplotlib or for another ending, TuningError without points.
    """
    path = figure_path(output)
    if not curves:
        raise TuningError("points of a search are needed to draw, and there are none")
    figure, axes = pyplot().subplots(
        1, len(curves), figsize=(5.5 * len(curves), 3.6), squeeze=False, layout="constrained"
    )
    for axis, (network, lines) in zip(axes.flat, curves.items(), strict=True):
        for number, (search, points) in enumerate(lines.items()):
            minutes = [second / 60 for second, _ in points]
            times = [1e3 * seconds for _, seconds in points]
            axis.step(minutes, times, where="post", color=f"C{number}", label=search)
            axis.annotate(f"{times[-1]:.3g}", (minutes[-1], times[-1]), fontsize=8)
        axis.set_title(network, fontsize=10)
        axis.set_xlabel("minutes of tuning")
        axis.set_ylabel("all kernels together, ms")
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    save(figure, path, TuningError)


def _panel(axis: Any, records: list[Record]) -> None:
    from matplotlib.ticker import LogLocator

    times = [1e6 * record.best for record in records]
    best = [min(times[: number + 1]) for number in range(len(times))]
    axis.plot(times, ".", color="0.6", label="candidates")
    axis.step(range(len(best)), best, where="post", color="C0", label="best so far")
    axis.axhline(times[0], color="C3", linewidth=0.8, linestyle="--", label="default")
    if max(times) > WIDE * min(times):
        axis.set_yscale("log", subs=(2, 5))
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
    else:
        axis.set_ylim(bottom=0)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_title(f"{records[0].name[:40]}\n{records[0].place.device[:40]}", fontsize=8)
    axis.set_xlabel("candidate", fontsize=8)
    axis.set_ylabel("time, µs", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)
