"""One thread that always handles the newest item; older ones that had to wait are dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Worker(Generic[Item]):
    """Keeps the newest item and handles it in its own thread.

    So a callback that delivers an item returns at once, however long handling takes.
    """

    def __init__(
        self,
        handle: Callable[[Item], object],
        *,
        dropped: Callable[[Item], object],
        let_go: Callable[[Item], object],
        failed: Callable[[Exception], object],
    ) -> None:
        """handle: runs in the thread. dropped: gets each item that a newer one replaced.

        let_go: gets each item that waited when it was stopped, or came while it was not started.
        failed: gets what ``handle`` raised; the thread goes on. So each item that is offered goes
        to just one of handle, dropped and let_go.
        """
        self._handle = handle
        self._dropped = dropped
        self._let_go = let_go
        self._failed = failed
        self._condition = threading.Condition()
        self._newest: Item | None = None
        self._running = False
        self._thread: threading.Thread | None = None
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has been at its item; 0 while it waits for one."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Begin to handle items; does nothing where it runs already."""
        if self._thread is not None:
            return
        self._running = True
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def offer(self, item: Item) -> None:
        """Keep an item as the newest; let go at once while not started."""
        with self._condition:
            running = self._running
            if running:
                replaced, self._newest = self._newest, item
                self._condition.notify()
        if not running:
            self._let_go(item)
        elif replaced is not None:
            self._dropped(replaced)

    def stop(self, timeout: float | None = None) -> bool:
        """Finish the item in hand and end the thread; what still waits is let go.

        Returns False where that took longer than ``timeout`` seconds.
        """
        thread = self._thread
        if thread is None:
            return True
        with self._condition:
            self._running = False
            waiting, self._newest = self._newest, None
            self._condition.notify()
        if waiting is not None:
            self._let_go(waiting)
        thread.join(timeout)
        if thread.is_alive():
            return False
        self._thread = None
        return True

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._newest is not None or not self._running)
                if not self._running:
                    return
                item, self._newest = self._newest, None
            assert item is not None
            self._since = time.monotonic()
            try:
                self._handle(item)
            except Exception as error:
                self._failed(error)
            finally:
                self._since = None
            # Not kept until the next one comes: it may hold a megabyte, or the node.
            del item
