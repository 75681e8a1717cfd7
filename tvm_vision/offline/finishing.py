"""Other programs are waited for with a limit: a mirror, a compiler or a driver may never answer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from ..errors import TvmVisionError


def finished(
    command: Sequence[str],
    patience: float,
    error: TvmVisionError,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a program said, once it has ended; it is ended after ``patience`` seconds.

    error: what is raised then, which says what was needed and what to do. environment: its
    variables, where they are not this process's. text: its input.
    """
    try:
        return subprocess.run(
            command, input=text, text=True, capture_output=True, env=environment, timeout=patience
        )
    except subprocess.TimeoutExpired:
        raise error from None
