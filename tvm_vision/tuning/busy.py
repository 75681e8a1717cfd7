"""Keeps a device busy between measurements, for an idle GPU clocks lower.

Loading a candidate takes longer than running it. A GPU that idles meanwhile runs the next one at
whatever clock it has reached by then: candidates of one kernel were off by a factor of two and more
that way, in either direction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

MOST_SECONDS = 5.0  # then the search waits for something else, and the device may rest
BURST_SECONDS = 1e-3  # of work that is handed over at a time


class Busy:
    """Runs a kernel over and over in a thread of its own, until it is stopped or for a while."""

    def __init__(
        self, run: Callable[[], Any], wait: Callable[[], Any], seconds: float, most: float
    ) -> None:
        """run: hands over one run of ``seconds``. wait: until all are done. most: seconds after
        which it ends by itself."""
        self._run, self._wait = run, wait
        self._burst = max(1, min(1000, int(BURST_SECONDS / max(seconds, 1e-7))))
        self._end = time.monotonic() + most
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._stopped.is_set() and time.monotonic() < self._end:
                for _ in range(self._burst):
                    self._run()
                self._wait()
        except Exception:  # a device that is lost shows in the next measurement
            return

    def stop(self) -> None:
        """Returns when the device has done what it was given."""
        self._stopped.set()
        self._thread.join()
