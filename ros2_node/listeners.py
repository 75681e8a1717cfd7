"""Results for functions in the node's own process: nothing is copied, nothing passes DDS. Without
ROS."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_vision.models.results import VisionResult

from .images import Image
from .pipeline import Log, Sink, Times
from .reasons import one_line


@dataclass(frozen=True)
class SeenImage:
    """One image with its results.

    header: of the image, a std_msgs/Header. image: uint8 [height, width, 3] in BGR, to be read
    only: it may be the message's own memory.
    """

    header: Any
    image: Image
    result: VisionResult
    times: Times


Listener = Callable[[SeenImage], object]


class Listeners:
    """Who listens within the process. All methods may be called from any thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}
        self._warned: set[str] = set()

    def add(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each result, in the thread that infers: it should return soon.

        Returns what ends that. What it raises is logged, once a kind, and harms nobody else.
        """
        key = object()
        with self._lock:
            self._listeners[key] = listener

        def remove() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return remove

    def __len__(self) -> int:
        return len(self._listeners)

    def tell(self, seen: SeenImage) -> None:
        """Call all of them."""
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            try:
                listener(seen)
            except Exception as error:
                reason = one_line(error)
                if reason not in self._warned and len(self._warned) < 100:
                    self._warned.add(reason)
                    self._log.error(f"a listener to results failed: {reason}")


@dataclass(frozen=True)
class BothSinks:
    """Results for those in the process first, then for all others."""

    listeners: Listeners
    others: Sink

    def wanted(self) -> bool:
        """As of a Sink."""
        return bool(self.listeners) or self.others.wanted()

    def publish(self, header: Any, image: Image, result: VisionResult, times: Times) -> None:
        """As of a Sink."""
        self.listeners.tell(SeenImage(header, image, result, times))
        self.others.publish(header, image, result, times)
