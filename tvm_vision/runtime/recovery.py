"""What is done where a device fails: how often it is opened anew, and what runs after that."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import monotonic

from ..errors import InputError

MINUTE = 60.0
# Between two attempts, in seconds: the reset of a GPU takes about that long.
PAUSE = 1.0
MOST_A_MINUTE = 60


@dataclass(frozen=True)
class Recovery:
    """What ``load`` does for a network on Vulkan whose device is lost.

    frame_timeout: seconds that a call may wait for the device, which then counts as lost; 0: any
    time. It holds for what other networks have on the device, too. On the CPU it has no meaning.
    rebuilds_per_minute: how often at most the device is opened and the network loaded anew; 0:
    never.
    fallback: what runs where that did not help: "": nothing; "cpu": the variant for a processor
    of the same package; else the path of a package for a processor, of the same inputs and outputs.

    Raises InputError for numbers out of range.
    """

    frame_timeout: float = 0.0
    rebuilds_per_minute: int = 6
    fallback: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.frame_timeout) and self.frame_timeout >= 0):
            raise InputError(
                f"frame_timeout must be 0 or more seconds, found {self.frame_timeout}; 0 sets no "
                "limit"
            )
        if not 0 <= self.rebuilds_per_minute <= MOST_A_MINUTE:
            raise InputError(
                f"rebuilds_per_minute must be 0 to {MOST_A_MINUTE}, found "
                f"{self.rebuilds_per_minute}"
            )


@dataclass(frozen=True)
class Losses:
    """What became of an executor's device so far.

    lost: how often it was lost. rebuilt: how often the network was loaded anew on it. reason: of
    the last loss, in one line. seconds: that the last rebuild took. on_fallback: whether the
    fallback runs now. waiting: whether the network is not loaded, and the next call tries again.
    """

    lost: int = 0
    rebuilt: int = 0
    reason: str = ""
    seconds: float = 0.0
    on_fallback: bool = False
    waiting: bool = False

    def describe(self) -> str:
        """One line for people; "" where nothing was lost."""
        if not self.lost:
            return ""
        now = (
            "the fallback runs"
            if self.on_fallback
            else "it is not back yet"
            if self.waiting
            else f"loaded anew in {self.seconds:.2f} s"
        )
        times = "once" if self.lost == 1 else f"{self.lost} times"
        return f"the device was lost {times}, {now}: {self.reason}"


class Turn(Enum):
    """Whether it is time for another attempt."""

    NOW = "now"
    LATER = "later"
    SPENT = "spent"


class Attempts:
    """At most so many a minute, and not one right after the other."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        """clock: seconds that only grow."""
        self._most = per_minute
        self._clock = clock
        self._times: deque[float] = deque()

    def turn(self) -> Turn:
        """Whether one may be made now; NOW counts it."""
        now = self._clock()
        while self._times and now - self._times[0] >= MINUTE:
            self._times.popleft()
        if len(self._times) >= self._most:
            return Turn.SPENT
        if self._times and now - self._times[-1] < PAUSE:
            return Turn.LATER
        self._times.append(now)
        return Turn.NOW
