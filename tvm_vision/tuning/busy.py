"""Keeps a device busy between measurements, for an idle GPU clocks lower.

Loading a candidate takes longer than running it. A GPU that idles meanwhile runs the next one at
whatever clock it has reached by then: candidates of one kernel were off by a factor of two and more
that way, in either direction.

Several processes load candidates while one of them measures; a file's lock says whose device it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DeviceError
from .locks import take_lock

MOST_SECONDS = 5.0  # then the search waits for something else, and the device may rest
BURST_SECONDS = 1e-3  # of work that is handed over at a time
PAUSE_SECONDS = 2e-4  # in which another process may take the device
END_SECONDS = 10.0  # for the last burst, which takes a thousandth of one


@contextmanager
def device_to_itself(lock: str, patience: float) -> Iterator[bool]:
    """Whether this process has the device, waiting ``patience`` seconds for it at most.

    lock: path of a file that all processes of a search share; "" for a device that nobody shares.
    """
    if not lock:
        yield True
        return
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield take_lock(handle, patience, PAUSE_SECONDS / 2)
    finally:
        os.close(handle)


class Busy:
    """Runs a kernel over and over in a thread of its own, until it is stopped or for a while."""

    def __init__(
        self,
        run: Callable[[], Any],
        wait: Callable[[], Any],
        seconds: float,
        most: float,
        lock: str = "",
    ) -> None:
        """run: hands over one run of ``seconds``. wait: until all are done. most: seconds after
        which it ends by itself. lock: as of ``device_to_itself``; while another process has the
        device, it is busy anyway."""
        self._run, self._wait, self._lock = run, wait, lock
        self._burst = max(1, min(1000, int(BURST_SECONDS / max(seconds, 1e-7))))
        self._end = time.monotonic() + most
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._stopped.is_set() and time.monotonic() < self._end:
                with device_to_itself(self._lock, 0.0) as ours:
                    if ours:
                        for _ in range(self._burst):
                            self._run()
                        self._wait()
                time.sleep(PAUSE_SECONDS)
        except Exception:  # a device that is lost shows in the next measurement
            return

    def stop(self) -> None:
        """Returns when the device has done what it was given. Raises DeviceError where it does
        not end."""
        self._stopped.set()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            raise DeviceError(
                "a device that ends what it was given is needed to measure, and this one has not "
                f"for {END_SECONDS:g} s: end other programs on it, or restart the machine"
            )
