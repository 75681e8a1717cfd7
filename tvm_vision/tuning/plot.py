"""Records as pictures, with matplotlib, which only this file needs."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from ..errors import InputError, TuningError
from .records import Record, Records

MOST_KERNELS = 12


def draw_records(records: Records, output: str | os.PathLike[str]) -> None:
    """A panel for each of the slowest kernels: every candidate's time, and the best so far.

    output: .png, .svg or .pdf.

    Raises InputError without matplotlib or for another ending, TuningError where nothing was
    measured.
    """
    path = Path(output)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a file that ends in .png, .svg or .pdf is needed, found '{path.name}'")
    pyplot = _pyplot()
    panels: dict[Any, list[Record]] = {}
    for record in records:
        if record.seconds:
            panels.setdefault((record.kernel, record.place), []).append(record)
    if not panels:
        raise TuningError("records with times are needed to draw, and there are none")
    slowest = sorted(panels.values(), key=lambda items: -max(r.best for r in items))[:MOST_KERNELS]
    columns = min(3, len(slowest))
    rows = math.ceil(len(slowest) / columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(5 * columns, 3 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(slowest) :]:
        axis.set_visible(False)
    for axis, items in zip(axes.flat, slowest, strict=False):
        _panel(axis, items)
    temporary = path.with_name(f".{path.name}{path.suffix}")
    figure.savefig(temporary, dpi=110)
    pyplot.close(figure)
    temporary.replace(path)


def _panel(axis: Any, records: list[Record]) -> None:
    times = [1e6 * record.best for record in records]
    best = [min(times[: number + 1]) for number in range(len(times))]
    axis.plot(times, ".", color="0.6", label="candidates")
    axis.step(range(len(best)), best, where="post", color="C0", label="best so far")
    axis.axhline(times[0], color="C3", linewidth=0.8, linestyle="--", label="default")
    axis.set_yscale("log")
    axis.set_title(f"{records[0].name[:40]}\n{records[0].place.device[:40]}", fontsize=8)
    axis.set_xlabel("candidate", fontsize=8)
    axis.set_ylabel("time, µs", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.legend(fontsize=6)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "drawing needs matplotlib, which is not installed: pip install matplotlib"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
