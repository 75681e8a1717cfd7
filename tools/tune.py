"""``tvm-vision tune``."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_vision.options import CompileOptions

from .options import (
    PATH,
    chosen_target,
    compile_options,
    host_option,
    input_shapes_option,
    input_values_option,
    interruptible,
    named_options,
)
from .table import table
from .trackers import KEY, TRACKER, tracker_of
from .tuning_display import tuning_display

if TYPE_CHECKING:
    from tvm_vision.tuning import TuningOutcome

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType):
    """Seconds, spelled 90, 90s, 10m or 2h."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value).strip())
        seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
        if seconds <= 0:
            self.fail(f"a time above 0 such as 90s, 10m or 2h is needed, found '{value}'")
        return seconds


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--records", "-r", type=PATH,
    help="File of records: what is in it counts, what is measured is appended. Needed but with "
    "--list-tasks.",
)  # fmt: skip
@click.option(
    "--prior-records", type=PATH, multiple=True,
    help="More records to start from, of other devices too; repeatable.",
)  # fmt: skip
@click.option(
    "--time-budget", type=Duration(), default="10m", show_default=True,
    help="How long to search: 90s, 10m, 2h.",
)  # fmt: skip
@click.option("--trials", type=click.IntRange(min=0), help="Most candidates to measure.")
@click.option(
    "--task", "tasks", multiple=True, metavar="NAME",
    help="Only kernels with NAME in their name or their nodes' names; repeatable.",
)  # fmt: skip
@click.option("--list-tasks", is_flag=True, help="List the kernels that can be tuned, and stop.")
@click.option(
    "--search", type=click.Choice(["templates", "metaschedule"]), default="templates",
    show_default=True,
    help="templates: few, well chosen candidates; metaschedule: TVM's deep search, for a night, on "
    "GPUs.",
)  # fmt: skip
@click.option(
    "--static", is_flag=True,
    help="Measure nothing: rank candidates by a model of the target, such as --target renoir.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), default=3, show_default=True,
    help="Measurements of a candidate, of which the median counts.",
)  # fmt: skip
@click.option(
    "--number", type=click.IntRange(min=1), default=1, show_default=True,
    help="Least runs in each measurement.",
)  # fmt: skip
@click.option(
    "--min-repeat-ms", type=click.IntRange(min=0), default=5, show_default=True,
    help="Least length of each measurement.",
)  # fmt: skip
@click.option("--target", default="auto", show_default=True, help="As for compile.")
@host_option
@input_shapes_option()
@input_values_option()
@named_options
@compile_options
@TRACKER
@KEY
def tune(
    model: Path,
    records: Path | None,
    prior_records: tuple[Path, ...],
    time_budget: float,
    trials: int | None,
    tasks: tuple[str, ...],
    list_tasks: bool,
    search: str,
    static: bool,
    repeat: int,
    number: int,
    min_repeat_ms: int,
    target: str,
    host: str | None,
    input_shapes: dict[str, tuple[int, ...]],
    input_values: dict[str, Any],
    opt_level: str | None,
    precision: str | None,
    layout: str | None,
    options: dict[str, Any],
    tracker: tuple[str, int] | None,
    key: str | None,
) -> None:
    """Search for a network's fastest kernels.

    Measures candidates on the device, a GPU or a processor, those kernels first that take the most
    time, and keeps each result in the file of records as soon as it is there. Ctrl-C ends it at any
    time; the same command then goes on where it was. Compile with --tuning-records to use them.

    \b
    Example:
      tvm-vision tune yoeo.onnx --list-tasks
      tvm-vision tune yoeo.onnx --records yoeo.jsonl --time-budget 10m
      tvm-vision compile yoeo.onnx -o yoeo.tar --tuning-records yoeo.jsonl
      tvm-vision tune yoeo.onnx -r cpu.jsonl --target llvm
      tvm-vision tune yoeo.onnx -r yoeo.jsonl --tracker 10.0.0.1:9190 --key nuc
      tvm-vision tune yoeo.onnx -r vega8.jsonl --static --target renoir
    """
    if records is None and not list_tasks:
        raise click.UsageError("--records FILE is needed, where what is measured is kept")
    boards = tracker_of(tracker, key)
    if boards is not None and host is not None:
        raise click.UsageError("boards tell their processor: --tracker without --host")
    if static and (boards is not None or search != "templates"):
        raise click.UsageError("--static measures nothing: without --tracker and --search")
    from tvm_vision.tuning import TuningOptions, list_kernels
    from tvm_vision.tuning.worker import MeasureRuns

    network = {
        # Where boards measure, one of them tells it.
        "target": chosen_target(target, model, host) if boards is None else target,
        "input_shapes": input_shapes,
        "input_values": input_values,
        "options": CompileOptions.of(
            options, opt_level=opt_level, precision=precision, layout=layout
        ),
    }
    if list_tasks or records is None:
        rows = [
            (kernel.name, kernel.calls, kernel.candidates, ", ".join(kernel.nodes))
            for kernel in list_kernels(model, only=tasks, **network)
        ]
        for line in table(("kernel", "calls", "candidates", "nodes"), rows, texts=[3]):
            click.echo(line)
        return
    search_schedules(
        model,
        records,
        prior=prior_records,
        tuning=TuningOptions(time_budget=time_budget, trials=trials, only=tasks),
        timing=MeasureRuns(repeat, number, min_repeat_ms),
        tracker=boards,
        search="static" if static else search,
        **network,
    )
    if static:
        click.echo("these times are a model's, which was not calibrated: no device has run it")
    click.echo(f"wrote {records}: compile with --tuning-records {records}")


def search_schedules(model: Path, records: Path, **arguments: Any) -> None:
    """Tune with a display, and say what came of it; Ctrl-C is a message, too.

    arguments: of ``tvm_vision.tuning.tune_model``.
    """
    from tvm_vision.tuning import tune_model

    with tuning_display(model.name) as tell:
        with interruptible(f"what was measured is in {records}, and the same command goes on"):
            outcome = tune_model(model, records=records, tell=tell, **arguments)
    click.echo(summary(outcome))


def summary(outcome: TuningOutcome) -> str:
    """One line: what was tried and what came of it."""
    gain = ""
    if outcome.before > 0 and math.isfinite(outcome.before):
        before, after = 1e3 * outcome.before, 1e3 * outcome.after
        share = 100.0 * (1.0 - after / before)
        gain = f"; kernels together {before:.3f} ms before, {after:.3f} ms now ({share:.0f} % less)"
    return (
        f"{outcome.tried} candidates, {outcome.failed} failed; {outcome.improved} of "
        f"{outcome.kernels} kernels improved{gain}; ended: {outcome.reason}"
    )
