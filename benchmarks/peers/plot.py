"""A plot of a results file: each network a group of bars, an engine a colour, shorter is faster."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .engine import PRECISIONS
from .networks import NETWORKS

COLOURS = {
    "tvm_vision": "#d1495b", "ncnn": "#00798c", "iree": "#66a182", "ort_webgpu": "#edae49",
    "ort_cuda": "#8d6a9f", "torch_graph": "#4c566a", "ort_cpu": "#b0b7c3",
}  # fmt: skip
BAR = 0.8
NETWORK_INCHES = 1.2
TITLE_LETTERS = 14  # in a line


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Write the plot as PNG. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    networks = {row["network"] for row in results["rows"]}
    size = (max(8.0, NETWORK_INCHES * len(networks)), 8)
    figure, axes = pyplot.subplots(2, 1, figsize=size, sharex=True, layout="constrained")
    for axis, precision in zip(axes, PRECISIONS, strict=True):
        _bars(axis, results, precision)
    axes[0].legend(ncols=4, fontsize=8, frameon=False, loc="upper left")
    figure.suptitle(f"One frame, numpy to numpy, batch 1\n{results['device']}", fontsize=10)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _bars(axis: Any, results: Mapping[str, Any], precision: str) -> None:
    rows = [r for r in results["rows"] if r["precision"] == precision and "median_ms" in r]
    networks = [n for n in NETWORKS if any(r["network"] == n for r in rows)]
    engines = [e for e in COLOURS if any(r["engine"] == e for r in rows)]
    width = BAR / max(len(engines), 1)
    for place, engine in enumerate(engines):
        known = {r["network"]: r["median_ms"] for r in rows if r["engine"] == engine}
        offset = (place - (len(engines) - 1) / 2) * width
        at = [i + offset for i, n in enumerate(networks) if n in known]
        heights = [known[n] for n in networks if n in known]
        title = results["engines"][engine]["title"]
        bars = axis.bar(at, heights, width, color=COLOURS[engine], label=title)
        axis.bar_label(bars, fmt="%.2g", fontsize=6, rotation=90, padding=2)
    axis.set_yscale("log")
    axis.margins(y=0.25)
    axis.set_ylabel(f"{precision}: median, ms")
    titles = [textwrap.fill(NETWORKS[n].title, TITLE_LETTERS) for n in networks]
    axis.set_xticks(range(len(networks)), titles, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)
