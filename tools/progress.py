"""A sign of life for what takes more than two seconds, on a terminal only and gone afterwards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from .verbosity import is_quiet, is_verbose, note

PATIENCE_SECONDS = 2.0


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show ``text`` with the time gone by on standard error, while the block runs.

    The block gets a function that shows another text. With --verbose each text is a line; with
    --quiet there is none.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if is_verbose():
        note(text)
        yield note
        return
    if not console.is_terminal or is_quiet():
        yield lambda text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    display = Progress(*columns, console=console, transient=True)
    task = display.add_task(text, total=None)
    timer = threading.Timer(PATIENCE_SECONDS, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: display.update(task, description=text)
    finally:
        timer.cancel()
        timer.join(PATIENCE_SECONDS)  # a terminal that was stopped takes nothing
        display.stop()
