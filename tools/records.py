"""``tvm-vision records``: list, merge, prune and draw tuning records."""

from __future__ import annotations

import math
from pathlib import Path

import click

from .options import PATH
from .table import table

FILES = click.argument("files", type=PATH, nargs=-1, required=True)
OUTPUT = click.option("--output", "-o", type=PATH, required=True, help="File to write.")


@click.group()
def records() -> None:
    """List, merge, prune and draw the records that tune writes.

    \b
    Example:
      tvm-vision records list yoeo.jsonl
    """


@records.command("list")
@FILES
def list_records(files: tuple[Path, ...]) -> None:
    """List the best of each kernel, for each device, driver and precision.

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
        cut = winner.decision if winner else {}
        words = " ".join(f"{name}={value}" for name, value in cut.items() if name != "trace")
        where = f"{place.device}, {place.driver}, {place.precision}"
        rows.append((here[-1].name, where, words, time, len(here), failed))
    header = ("kernel", "place", "decision", "best, us", "tried", "failed")
    for line in table(header, rows, left=3):
        click.echo(line)


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
def prune(files: tuple[Path, ...], output: Path) -> None:
    """Keep only what compiling needs: the winner and the best of each kernel and device.

    \b
    Example:
      tvm-vision records prune yoeo.jsonl -o yoeo-best.jsonl
    """
    from tvm_vision.tuning import merge as merge_files
    from tvm_vision.tuning import write_records

    found = merge_files(files)
    pruned = found.pruned()
    write_records(output, pruned)
    click.echo(f"wrote {output}: {len(pruned)} of {len(found)} records")


@records.command()
@FILES
@OUTPUT
def draw(files: tuple[Path, ...], output: Path) -> None:
    """Draw each kernel's candidates in the order they were measured, and the best so far.

    \b
    Example:
      tvm-vision records draw yoeo.jsonl -o yoeo.png
    """
    from tvm_vision.tuning import merge as merge_files
    from tvm_vision.tuning.plot import draw_records

    draw_records(merge_files(files), output)
    click.echo(f"wrote {output}")
