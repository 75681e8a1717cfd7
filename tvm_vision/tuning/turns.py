"""Building and measuring by turns, for a device that is the processor which builds.

What measures has all cores to itself; what builds goes on together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Who waits to measure comes before who waits to build, so that results do not pile up behind
    candidates that nobody has asked for yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._building = 0
        self._measuring = False
        self._waiting = 0

    @contextmanager
    def build(self) -> Iterator[None]:
        """While nobody measures."""
        with self._changed:
            self._changed.wait_for(lambda: not self._measuring and not self._waiting)
            self._building += 1
        try:
            yield
        finally:
            with self._changed:
                self._building -= 1
                self._changed.notify_all()

    @contextmanager
    def measure(self) -> Iterator[None]:
        """While nobody builds, nor another measures."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._measuring and not self._building)
            self._waiting -= 1
            self._measuring = True
        try:
            yield
        finally:
            with self._changed:
                self._measuring = False
                self._changed.notify_all()
