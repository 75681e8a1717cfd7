"""An error as the one line that logs, services and /diagnostics have room for. Without ROS."""

from __future__ import annotations

import re

from tvm_vision.errors import TvmVisionError


def one_line(error: BaseException) -> str:
    """What it says; with its type where it is none of ours, for then the words alone may not do."""
    words = str(error) if isinstance(error, TvmVisionError) else f"{type(error).__name__}: {error}"
    return " ".join(words.split())


def without_places(words: str) -> str:
    """An error of rcl without the places in C where it was met."""
    return re.sub(r", at \S+:\d+", "", words)
