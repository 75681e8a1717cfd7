"""Figures with matplotlib, which is there for whoever draws, and imported by this file alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, TvmVisionError
from ..file_kinds import need_ending
from ..whole_files import need_place, whole
from .benchmark import BenchmarkResult
from .choices import FIGURES

# Dots in an inch: a panel of 5 inches is as wide as a page's text.
DENSITY = 110
# Measurements above so many times the 95th percentile are counted and not drawn.
BEYOND = 2.0


def figure_path(output: str | os.PathLike[str]) -> Path:
    """Where a figure is written. Raises InputError for another ending, a place where none can be,
    or without matplotlib: to be asked before anything that takes long."""
    path = need_ending(Path(output), *FIGURES)
    need_place(path)
    pyplot()
    return path


def pyplot() -> Any:
    """matplotlib.pyplot, without a window. Raises InputError where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "drawing needs matplotlib, which is not installed: pip install matplotlib"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as module

    return module


def save(figure: Any, path: Path, error: type[TvmVisionError] = InputError) -> None:
    """Write a figure, whole or not at all."""
    try:
        with whole(path, error) as fresh:
            figure.savefig(fresh, dpi=DENSITY)
    finally:
        figure.clear()


def draw_times(
    times: Sequence[tuple[str, BenchmarkResult]], output: str | os.PathLike[str]
) -> None:
    """Frames as they were timed, one after the other, and beside that how many were how fast.

    times: of each network its name, and what was measured. output: .png, .svg or .pdf.

    Raises InputError without matplotlib, for another ending, or where it cannot be written.
    """
    path = figure_path(output)
    # What other programs of the machine held up once would press all else together.
    slowest = max(found.max_ms for _, found in times)
    shown = min(BEYOND * max(found.p95_ms for _, found in times), 1.05 * slowest)
    # The names stand above both, a line for each.
    size = (10, 3.4 + 0.18 * len(times))
    figure, (run, shares) = pyplot().subplots(1, 2, figsize=size, layout="constrained")
    for number, (name, found) in enumerate(times):
        values, color = 1e3 * np.array(found.seconds), f"C{number}"
        label = f"{name}: median {found.median_ms:.3g}, p95 {found.p95_ms:.3g} ms"
        if left_out := int(np.count_nonzero(values > shown)):
            label += f"; {left_out} not shown, up to {found.max_ms:.3g} ms"
        run.plot(np.arange(1, len(values) + 1), values, ".", color=color, markersize=4)
        run.axhline(found.median_ms, color=color, linewidth=0.8)
        parts = 100 * np.arange(1, len(values) + 1) / len(values)
        shares.step(np.sort(values), parts, where="post", color=color, label=label)
    run.set(xlabel="measurement", ylabel="a frame, ms", ylim=(0, shown))
    run.xaxis.get_major_locator().set_params(integer=True)
    shares.set(xlabel="a frame takes at most, ms", ylabel="measurements, %", xlim=(0, shown))
    shares.set(yticks=(0, 25, 50, 75, 95), ylim=(0, 101))
    shares.axhline(95, color="0.7", linewidth=0.8, linestyle="--")
    figure.legend(loc="outside upper center", fontsize=8, frameon=False)
    for axis in (run, shares):
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)
