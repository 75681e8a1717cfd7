"""A sign of life for what takes more than two seconds, on a terminal only and gone afterwards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

PATIENCE_SECONDS = 2.0


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Show ``text`` with the time gone by on standard error, while the block runs."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    display = Progress(*columns, console=console, transient=True)
    display.add_task(text, total=None)
    timer = threading.Timer(PATIENCE_SECONDS, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        display.stop()
