"""What a terminal shows of a search while it goes on; without one, a line now and then."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .verbosity import is_quiet, note

if TYPE_CHECKING:
    from rich.table import Table

    from tvm_vision.tuning import TuningState

SECONDS_BETWEEN_LINES = 30.0


@contextlib.contextmanager
def tuning_display(title: str) -> Iterator[Callable[[TuningState], None]]:
    """The block gets a function that shows a TuningState."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal or is_quiet():
        yield _lines()
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda state: live.update(state_table(title, state))


def _lines() -> Callable[[TuningState], None]:
    last = time.monotonic()

    def tell(state: TuningState) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            note(state_line(state))

    return tell


def state_line(state: TuningState) -> str:
    """The state as one line."""
    return (
        f"{state.tried} tried, {state.finished} of {state.kernels} kernels done, network "
        f"{milliseconds(state.network_seconds)} (at the start "
        f"{milliseconds(state.network_start)}), {clock(state.time_left)} left"
    )


def state_table(title: str, state: TuningState) -> Table:
    """The state as a table with a row for the network and one for the kernel of the moment."""
    from rich.table import Table

    shown = Table(title=f"tuning {title}", title_justify="left")
    for name in ("", "now", "at the start", "gain"):
        shown.add_column(name, justify="left" if not name else "right")
    rows = (
        (f"network, {state.kernels} kernels", state.network_seconds, state.network_start),
        (state.kernel[:48], state.kernel_seconds, state.kernel_start),
    )
    for name, now, start in rows:
        shown.add_row(name, milliseconds(now), milliseconds(start), percent(now, start))
    shown.caption = (
        f"{state.tried} tried, {state.failed} failed, {state.finished} kernels done, "
        f"{clock(state.time_left)} left"
    )
    return shown


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.4f} ms" if math.isfinite(seconds) else "-"


def percent(now: float, start: float) -> str:
    known = math.isfinite(now) and math.isfinite(start) and start > 0
    return f"{100.0 * (1.0 - now / start):.0f} %" if known else "-"


def clock(seconds: float) -> str:
    """12:05, or no limit."""
    if not math.isfinite(seconds):
        return "no limit"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
