"""What was asked of GPUs that are not at hand, and what the model says: a table for static.md.

    python -m benchmarks.static squeezenet1_1 ... --precision fp32,fp16,int8 --json after.json
    python -m benchmarks.static_summary before.json after.json --document benchmarks/static.md

Of several files a frame that comes later takes the place of an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from scripts.markdown_tables import document, table
from tvm_vision.whole_files import write_whole

VEGA, PHOENIX, TGL = "renoir", "phoenix", "tgl"
# Milliseconds of a frame in fp32 on Vega 8 by the first prototype of the model, and the aim.
ASKED = {
    "squeezenet1_1": (2.9, 1.5),
    "mobilenet_v2": (3.2, 2.0),
    "resnet18": (7.2, 4.5),
    "demo": (24.4, 12.0),
    "yoeo": (28.2, 16.0),
}
HALF, QUARTER = 0.65, 0.5  # of fp32: fp16 where memory is not the bound, int8
HEADER = (
    "network | Vega 8 fp32, first | before → now | aim | fp16 | ÷ fp32 | 780M fp32 | fp16 | int8 | "
    "÷ fp32 | Iris Xe fp32 | fp16 | ÷ fp32 | int8 | ÷ fp32"
)
MARK = "asked"
Frames = dict[tuple[str, str, str], dict[str, Any]]


def read(paths: Sequence[Path]) -> Frames:
    """Frames by network, precision and device."""
    found = (frame for path in paths for frame in json.loads(path.read_text()))
    return {(f["network"], f["precision"], f["device"]): f for f in found}


def rows(before: Frames, after: Frames) -> Iterator[tuple[str, ...]]:
    """A line a network, below HEADER: "before → now" where both are known."""

    def both(network: str, precision: str, device: str) -> str:
        key = (network, precision, device)
        was, now = _number(before.get(key)), _number(after.get(key))
        return now if was in ("", now) else f"{was} → {now}"

    for network, (first, aim) in ASKED.items():
        yield (
            network, f"{first}", both(network, "fp32", VEGA), f"≤ {aim}",
            both(network, "fp16", VEGA), _ratio(after, network, "fp16", VEGA, HALF),
            both(network, "fp32", PHOENIX), both(network, "fp16", PHOENIX),
            both(network, "int8", PHOENIX), _ratio(after, network, "int8", PHOENIX, QUARTER),
            both(network, "fp32", TGL), both(network, "fp16", TGL),
            _ratio(after, network, "fp16", TGL, HALF), both(network, "int8", TGL),
            _ratio(after, network, "int8", TGL, QUARTER),
        )  # fmt: skip


def _number(frame: dict[str, Any] | None) -> str:
    seconds = _seconds(frame)
    return "" if seconds is None else f"{1e3 * seconds:.2f}"


def _seconds(frame: dict[str, Any] | None) -> float | None:
    """As modelled; None for frames of Intel's GPUs from before there was a model of these."""
    found = frame or {}
    return found.get("seconds", found.get("modelled_seconds"))


def _ratio(frames: Frames, network: str, precision: str, device: str, most: float) -> str:
    """To fp32, bold where it is more than was asked for."""
    some, whole = (_seconds(frames.get((network, each, device))) for each in (precision, "fp32"))
    if some is None or whole is None:
        return ""
    ratio = some / whole
    return f"{ratio:.2f}" if round(ratio, 2) <= most else f"**{ratio:.2f}**"


@click.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True))
@click.argument("after", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
@click.option("--document", "page", type=click.Path(path_type=Path, exists=True))
def main(before: Path, after: tuple[Path, ...], page: Path | None) -> None:
    """Compare frames of ``benchmarks.static --json`` with what was asked for."""
    made = table(HEADER, rows(read([before]), read(after)))
    if page is None:
        click.echo(made, nl=False)
        return
    text = document(page.read_text("utf-8"), {MARK: lambda: made}, page.name)
    write_whole(page, text.encode())


if __name__ == "__main__":
    main(prog_name="benchmarks.static_summary")
