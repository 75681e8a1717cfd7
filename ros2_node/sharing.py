"""Several cameras, one network: loaded once, and used by one after the other. Without ROS."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from .model_loader import ModelRequest

Load = Callable[[ModelRequest], Any]


@dataclass(frozen=True)
class Turn:
    """again: nobody else had one since the last of the same. waited: for it, in seconds."""

    again: bool
    waited: float


class Turns:
    """Who uses the network: one at a time, in the order in which they asked. From any thread.

    So no camera has a second turn while another one waits, however fast its images come.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._last: object = None

    @contextmanager
    def take(self, who: object) -> Iterator[Turn]:
        """Wait for the turn of ``who``."""
        ticket, waited = object(), 0.0
        with self._changed:
            self._waiting.append(ticket)
            if self._waiting[0] is not ticket:
                asked = monotonic()
                self._changed.wait_for(lambda: self._waiting[0] is ticket)
                waited = monotonic() - asked
        again, self._last = self._last is who, who
        try:
            yield Turn(again, waited)
        finally:
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()


@dataclass
class _Loaded:
    model: weakref.ref[Any]
    users: set[object] = field(default_factory=set)


class SharedNetworks:
    """Networks of several nodes in a process. What one has loaded the others get as well."""

    def __init__(self, load: Load) -> None:
        """load: makes a network of a request."""
        self._load = load
        self._lock = threading.Lock()
        self._loaded: dict[ModelRequest, _Loaded] = {}

    def loader(self) -> Load:
        """For one node, to be called from any thread.

        Who asks for what it was given already wants it anew: its device failed, or the file has
        changed. The others, asking then, get the new one.
        """
        user = object()
        return lambda request: self._get(request, user)

    def _get(self, request: ModelRequest, user: object) -> Any:
        # Held while it loads: who asks for the same meanwhile waits for it.
        with self._lock:
            found = self._loaded.get(request)
            model = None if found is None or user in found.users else found.model()
            if found is None or model is None:
                model = self._load(request)
                found = self._loaded[request] = _Loaded(weakref.ref(model))
            found.users.add(user)
            return model
