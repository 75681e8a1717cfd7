"""rclpy's executor in a thread of its own, which always ends when it is told to."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from rclpy.executors import (
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
)


class Spinning:
    """``executor`` runs callbacks in a thread, from now until :meth:`end`.

    Not by its ``spin`` and ``shutdown``: shutting down triggers the guard condition that wakes an
    executor and takes it away at once, so that one that is just about to wait waits for ever, for
    a guard that is no more. A task stays until it is run.
    """

    def __init__(
        self, executor: SingleThreadedExecutor, at_end: Callable[[], None] = lambda: None
    ) -> None:
        """executor: spun and shut down by nobody else.

        at_end: called in the thread when it ends, whyever it does.
        """
        self.fault = ""
        """The traceback of an error of a callback that nobody handled, which ends it."""
        self._executor = executor
        self._at_end = at_end
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="executor")
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._ended:
                self._executor.spin_once()
        except (ExternalShutdownException, ShutdownException):
            pass
        except Exception:
            self.fault = traceback.format_exc()
        finally:
            self._at_end()

    def end(self) -> None:
        """Wait for the callback that runs, end the thread, and shut the executor down."""
        self._ended = True
        self._executor.create_task(lambda: None)
        self._thread.join()
        self._executor.shutdown()
