"""``tvm-vision doctor``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from .options import json_option
from .progress import progress
from .table import terminal

if TYPE_CHECKING:
    from tvm_vision.doctor.finding import Finding

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}

# Of a terminal: in less nothing would be left to a finding's words.
LEAST_WIDTH = 36


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=1.0), default=90.0, show_default=True,
    help="How long a driver may take to answer.",
)  # fmt: skip
@json_option("the findings")
def doctor(seconds: float, as_json: bool) -> None:
    """Say whether this machine is well, and what mends it.

    The first thing to run when something is wrong: what is installed, its versions, the Vulkan
    loader and its drivers, device nodes and groups, caches, memory, power and clocks, then a
    self-test of the device: a copy, a kernel, its clock, and a tiny network against the
    processor's results. A line for each: ok, warn or fail, and then what to do. What calls drivers
    runs in a process of its own, which a damaged one may end.

    The exit code is 1 where something fails, and 0 where all is well or only warned of.

    \b
    Example:
      tvm-vision doctor
      tvm-vision doctor --json > findings.json
    """
    from tvm_vision import __version__
    from tvm_vision.doctor.examine import examine
    from tvm_vision.doctor.finding import Machine, worst

    findings = []
    with shown("looking at the machine") as tell:
        for finding in examine(Machine(), seconds):
            tell(finding.name)
            findings.append(finding)
    state = worst(findings)
    if as_json:
        listed = [finding.as_json() for finding in findings]
        document = {"version": __version__, "worst": state, "findings": listed}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(findings)
    click.get_current_context().exit(int(state == "fail"))


@contextlib.contextmanager
def shown(text: str) -> Iterator[Callable[[str], None]]:
    """A sign of life, where what it is drawn with is installed: to say so is for a check."""
    try:
        import rich  # noqa: F401
    except ImportError:
        yield lambda text: None
        return
    with progress(text) as tell:
        yield tell


def show(findings: list[Finding]) -> None:
    """A line for each; on a terminal in colour, and within its width."""
    console = terminal()
    if console is None or console.width < LEAST_WIDTH:
        for found in findings:
            remedy = f"  remedy: {found.remedy}" if found.remedy else ""
            click.echo(f"{found.state:<4}  {found.name:<15}  {found.words}{remedy}")
        return
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ({"no_wrap": True}, {"no_wrap": True}, {"overflow": "fold"}):
        rows.add_column(**column)
    for found in findings:
        words = Text(found.words)
        if found.remedy:
            words.append(f"\nremedy: {found.remedy}", "bold")
        rows.add_row(Text(found.state, COLORS[found.state]), found.name, words)
    console.print(rows)
