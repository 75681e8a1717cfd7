"""``tvm-vision records``: list, merge, prune and draw tuning records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tvm_vision.runtime.choices import FIGURES

from .options import PATH, OutputFile
from .table import table

FILES = click.argument("files", type=PATH, nargs=-1, required=True)
OUTPUT = click.option("--output", "-o", type=PATH, required=True, help="File to write.")


@click.group()
def records() -> None:
    """Work with the records that tune writes.

    \b
    Example:
      tvm-vision records list yoeo.jsonl
    """


@records.command("list")
@FILES
def list_records(files: tuple[Path, ...]) -> None:
    """List the best of each kernel.

    A line for each device, driver and precision that the records are of.

    \b
    Example:
      tvm-vision records list yoeo.jsonl
    """
    from tvm_vision.tuning import merge

    found = merge(files)
    rows = []
    for key, place in dict.fromkeys((record.kernel, record.place) for record in found):
        here = [r for r in found if r.kernel == key and r.place == place]
        winner = found.winner(key, place)
        failed = sum(bool(record.error) for record in here)
        time = f"{1e6 * winner.best:.1f}" if winner and math.isfinite(winner.best) else "-"
        words = decision_words(winner.decision) if winner else "-"
        where = f"{place.device}, {place.driver}, {place.precision}"
        rows.append((here[-1].name, where, words, time, len(here), failed))
    header = ("kernel", "place", "decision", "best, us", "tried", "failed")
    for line in table(header, rows, left=3):
        click.echo(line)


def decision_words(decision: Mapping[str, Any]) -> str:
    """A decision in a few words; of MetaSchedule's, that it is one."""
    template, parameters = decision.get("template"), decision.get("parameters")
    if template == "trace" or not isinstance(parameters, dict):
        return str(template)
    return " ".join([str(template), *(f"{name}={value}" for name, value in parameters.items())])


@records.command()
@FILES
@OUTPUT
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Put the records of several files into one, each once.

    \b
    Example:
      tvm-vision records merge nuc1.jsonl nuc2.jsonl -o nucs.jsonl
    """
    from tvm_vision.tuning import merge as merge_files
    from tvm_vision.tuning import write_records

    merged = merge_files(files)
    write_records(output, merged)
    click.echo(f"wrote {output}: {len(merged)} records of {len(files)} files")


@records.command()
@FILES
@OUTPUT
@click.option(
    "--chosen", is_flag=True, help="Only winners of a search's last comparison, one for each."
)
def prune(files: tuple[Path, ...], output: Path, chosen: bool) -> None:
    """Keep only what compiling needs.

    That is the winner and the best of each kernel and device.

    \b
    Example:
      tvm-vision records prune yoeo.jsonl -o yoeo-best.jsonl
    """
    from tvm_vision.tuning import merge as merge_files
    from tvm_vision.tuning import write_records

    found = merge_files(files)
    pruned = found.chosen() if chosen else found.pruned()
    write_records(output, pruned)
    click.echo(f"wrote {output}: {len(pruned)} of {len(found)} records")


@records.command()
@FILES
@click.option(
    "--output", "-o", type=OutputFile(*FIGURES), required=True, metavar="FILE.png",
    help="Where to; .svg and .pdf as well.",
)  # fmt: skip
def draw(files: tuple[Path, ...], output: Path) -> None:
    """Draw each kernel's candidates over time.

    In the order they were measured, with the best so far.

    \b
    Example:
      tvm-vision records draw yoeo.jsonl -o yoeo.png
    """
    from tvm_vision.tuning import merge as merge_files
    from tvm_vision.tuning.plot import draw_records

    draw_records(merge_files(files), output)
    click.echo(f"wrote {output}")
