"""What happened to the frames: counts since the start, rates and latencies of the last seconds."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

WINDOW_SECONDS = 5.0
# At 1000 frames a second the window is shorter, not the memory larger.
MOST_SAMPLES = 2000

LOST = "lost"  # on the way here, as the middleware tells
# What can become of a frame that came in: one of these, once.
DONE = "done"
DROPPED = "dropped"  # a newer one came before its turn
STALE = "stale"  # older than max_frame_age when its turn came
LIMITED = "limited"  # max_rate
UNREADABLE = "unreadable"
FAILED = "failed"  # the network or a publisher raised an error
UNHEARD = "unheard"  # nobody listened to results when its turn came
STOPPED = "stopped"  # the node was stopped before its turn, or had no network
OUTCOMES = (DONE, DROPPED, STALE, LIMITED, UNREADABLE, FAILED, UNHEARD, STOPPED)


@dataclass(frozen=True)
class Snapshot:
    """Numbers at one moment.

    counts: frames by outcome, and "received", "lost", "device errors", "time jumps", since the
    start. lately: outcomes other than done in the last seconds.
    rate_in, rate_out, rate_lost: in Hz. silence: seconds since the last frame came, None before the
    first. latency, age: milliseconds by percentile (50, 95) of frames done lately; empty without
    any. clock_offset: by how many seconds the images' stamps are behind this node's clock, where
    that is more than a delay, else 0. clock_problem: words for that, with what to do.
    """

    counts: dict[str, int]
    rate_in: float
    rate_out: float
    silence: float | None
    latency: dict[int, float] = field(default_factory=dict)
    age: dict[int, float] = field(default_factory=dict)
    rate_lost: float = 0.0
    clock_offset: float = 0.0
    clock_problem: str = ""
    lately: dict[str, int] = field(default_factory=dict)

    @property
    def in_hand(self) -> int:
        """Frames that came in and have no outcome yet: one that waits, one that is handled."""
        ended = sum(self.counts.get(outcome, 0) for outcome in OUTCOMES)
        return self.counts.get("received", 0) - ended


class Statistics:
    """Counts frames; every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """clock: seconds that only grow."""
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._arrivals: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._done: deque[tuple[float, float, float]] = deque(maxlen=MOST_SAMPLES)
        self._losses: deque[tuple[float, int]] = deque(maxlen=MOST_SAMPLES)
        self._start = clock()
        self._passed: deque[tuple[float, str]] = deque(maxlen=MOST_SAMPLES)
        self._clock_offset, self._clock_problem = 0.0, ""

    def received(self) -> None:
        """A frame came in."""
        with self._lock:
            self._counts["received"] += 1
            self._arrivals.append(self._clock())

    def lost(self, number: int) -> None:
        """So many more frames were sent and did not arrive."""
        with self._lock:
            self._counts[LOST] += number
            self._losses.append((self._clock(), number))

    def count(self, outcome: str) -> None:
        """One more of ``outcome``; frames that are done go through ``finished``."""
        with self._lock:
            self._counts[outcome] += 1
            self._passed.append((self._clock(), outcome))

    def tell_clock(self, offset: float, problem: str) -> None:
        """How the clock of the stamps and this node's go together, as Snapshot has it."""
        with self._lock:
            self._clock_offset, self._clock_problem = offset, problem

    def finished(self, latency_ms: float, age_ms: float) -> None:
        """A frame's results were published; latency of the network's three stages, age before."""
        with self._lock:
            self._counts[DONE] += 1
            self._done.append((self._clock(), latency_ms, age_ms))

    def silence(self) -> float | None:
        """Seconds since the last frame came, None before the first."""
        with self._lock:
            return self._clock() - self._arrivals[-1] if self._arrivals else None

    def snapshot(self) -> Snapshot:
        """The numbers now."""
        with self._lock:
            now = self._clock()
            since = now - WINDOW_SECONDS
            arrivals = [moment for moment in self._arrivals if moment > since]
            done = [sample for sample in self._done if sample[0] > since]
            losses = sum(number for moment, number in self._losses if moment > since)
            span = max(min(WINDOW_SECONDS, now - self._start), 1e-3)
            return Snapshot(
                counts=dict(self._counts),
                rate_in=len(arrivals) / span,
                rate_out=len(done) / span,
                silence=now - self._arrivals[-1] if self._arrivals else None,
                latency=_percentiles([sample[1] for sample in done]),
                age=_percentiles([sample[2] for sample in done]),
                rate_lost=losses / span,
                clock_offset=self._clock_offset,
                clock_problem=self._clock_problem,
                lately=Counter(outcome for moment, outcome in self._passed if moment > since),
            )


def _percentiles(values: list[float]) -> dict[int, float]:
    if not values:
        return {}
    return {share: float(np.percentile(values, share)) for share in (50, 95)}
