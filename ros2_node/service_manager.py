"""What systemd is told of the process, in datagrams to $NOTIFY_SOCKET: sd_notify(3) has the words.

Without that variable, as anywhere but in a service of ``Type=notify``, nothing is told.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

# So often within the time that systemd waits for a sign of life.
SIGNS = 4
READY_SECONDS = 0.2


class Attended(Protocol):
    """What is known of a node here."""

    @property
    def up(self) -> bool: ...
    @property
    def frame_seconds(self) -> float: ...


class ServiceManager:
    """Tells systemd when all nodes of the process are up, and again and again that they live."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]  # which no file stands for
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environment.get("WATCHDOG_USEC", "")
        self.watchdog_seconds = 1e-6 * int(microseconds) if own and microseconds.isdigit() else 0.0
        """Within which systemd wants a sign of life; 0: it wants none."""
        self._ready = False

    @property
    def seconds(self) -> float:
        """How often :meth:`attend` is to be called; 0: never."""
        if not self._address:
            return 0.0
        return min(self.watchdog_seconds / SIGNS or READY_SECONDS, READY_SECONDS)

    def attend(self, nodes: Sequence[Attended]) -> None:
        """Tell what there is to tell; from the thread that runs the nodes' callbacks, whose life it
        is a sign of. None is given while a frame takes longer than systemd waits."""
        words = []
        if not self._ready and all(node.up for node in nodes):
            self._ready = True
            words.append("READY=1")
        limit = self.watchdog_seconds
        if limit and all(node.frame_seconds < limit for node in nodes):
            words.append("WATCHDOG=1")
        if words:
            self.tell(*words)

    def stopping(self) -> None:
        """The process is about to end by itself."""
        self.tell("STOPPING=1")

    def tell(self, *words: str) -> None:
        """One datagram. Who does not take it, or not now, is no reason to wait or to end."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto("\n".join(words).encode(), self._address)
        except OSError:
            pass


def attend_in_executor(manager: ServiceManager, nodes: Sequence[Any]) -> None:
    """By a timer of the first node's, on a clock that no simulation holds up."""
    from rclpy.clock import Clock, ClockType

    if manager.seconds:
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        nodes[0].create_timer(manager.seconds, lambda: manager.attend(nodes), clock=steady)
