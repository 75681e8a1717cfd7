"""Times single operators at the sizes that networks have, the worst beside its floor first.

    python -m benchmarks.operators --device renoir --precision fp16
    python -m benchmarks.operators --target vulkan --jobs 8 --json operators.json
    python -m benchmarks.operators --device tgl --only scatter --compare before.json

With --device by the model of a GPU that is not here (benchmarks.static has more of it), else on the
device itself, where results are held to those of ONNX Runtime. The floor of an operator is the
longest of moving what it takes and gives, of the products that it cannot go without, and of one
launch: an operator far above it makes a network slow that no list of networks has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tvm_vision.errors import InputError, TvmVisionError
from tvm_vision.offline import machines
from tvm_vision.tools.table import table
from tvm_vision.whole_files import write_whole

from .cases import CASES, Case
from .measure import Row, measure

PATH = click.Path(path_type=Path)
PRECISIONS = ("fp32", "fp16")
HEADER = ("operator", "us", "floor us", "by", "ratio", "launches", "error", "longest", "us")
COMPARED = ("operator", "us before", "us", "now / before")


def lines(rows: Iterable[Row]) -> list[str]:
    """The table, the worst ratio first, and what stood in the way of others."""
    rows = sorted(rows, key=lambda row: (-row.ratio, row.name))
    body = [
        (
            row.name, f"{row.us:.1f}", f"{row.floor_us:.1f}", row.bound, f"{row.ratio:.1f}",
            str(row.launches), "-" if row.error is None else f"{row.error:.1e}", row.longest[:60],
            f"{row.longest_us:.1f}",
        )
        for row in rows
        if row.us is not None
    ]  # fmt: skip
    problems = [f"{row.name}: {row.problem}" for row in rows if row.problem]
    return [*table(HEADER, body), *problems]


def compare(before: Iterable[Row], rows: Iterable[Row]) -> list[str]:
    """What takes another time than before, by more than a tenth; what gained most comes first."""
    earlier = {row.name: row.us for row in before if row.us is not None}
    both = [
        (row.us / earlier[row.name], row.name, earlier[row.name], row.us)
        for row in rows
        if row.us is not None and row.name in earlier
    ]
    body = [
        (name, f"{was:.1f}", f"{us:.1f}", f"{ratio:.2f}")
        for ratio, name, was, us in sorted(both)
        if abs(ratio - 1) > 0.1
    ]
    return table(COMPARED, body) if body else ["nothing takes another time than before"]


def read(path: Path) -> list[Row]:
    """Rows of a file of --json. Raises InputError for another file."""
    try:
        return [Row(**each) for each in json.loads(path.read_text())["rows"]]
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise InputError(f"a file of --json is needed, found '{path}': {problem}") from None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--device", type=click.Choice(tuple(machines.MODELLED)), help="Model a GPU that is not here."
)
@click.option("--target", help="Time a device that is here, such as vulkan or llvm.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True,
    help="As of 'tvm-vision compile'.",
)  # fmt: skip
@click.option("--only", multiple=True, help="Operators with that in their name; several times.")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Compile so many at once."
)
@click.option("--json", "output", type=PATH, help="Write all numbers to this file.")
@click.option("--compare", "earlier", type=PATH, help="Show what changed since this file.")
def main(
    device: str | None,
    target: str | None,
    precision: str,
    only: tuple[str, ...],
    jobs: int,
    output: Path | None,
    earlier: Path | None,
) -> None:
    """Time single operators at the sizes that networks have."""
    if (device is None) == (target is None):
        raise click.UsageError("either --device or --target is needed")
    try:
        chosen = [i for i, case in enumerate(CASES) if _is_chosen(case, only)]
        if not chosen:
            raise InputError(f"no operator has {' or '.join(only)} in its name")
        before = read(earlier) if earlier else []
        rows = measure(chosen, device, target, precision, jobs)
    except TvmVisionError as error:
        raise SystemExit(f"benchmarks.operators: {error}") from None
    click.echo("\n".join(lines(rows)))
    if earlier:
        click.echo("\n".join(["", f"since {earlier}", *compare(before, rows)]))
    if output is not None:
        place = {"device": device, "target": target, "precision": precision}
        content = {**place, "rows": [asdict(row) for row in rows]}
        write_whole(output, json.dumps(content, indent=1).encode())


def _is_chosen(case: Case, only: Sequence[str]) -> bool:
    return not only or any(part in case.name for part in only)


if __name__ == "__main__":
    main(prog_name="benchmarks.operators")
