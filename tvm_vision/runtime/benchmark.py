"""How long something takes: repeated measurements by the host's clock, and their statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError

ROUNDS = 5
# Measurements that are taken however long they take.
LEAST = 3
# How long a device works before it is measured: one that was idle clocks low at first, an H200 at
# 345 MHz of 1,980, and takes five times as long.
WARM_SECONDS = 0.25


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of one run, one value a repetition: the mean over the ``number`` runs in it."""

    seconds: tuple[float, ...]
    number: int = 1

    def __post_init__(self) -> None:
        if not self.seconds or self.number < 1:
            raise ValueError(
                f"expected times and a number of at least 1, got {self.seconds} and {self.number}"
            )

    @property
    def mean_ms(self) -> float:
        return self._milliseconds(np.mean)

    @property
    def median_ms(self) -> float:
        return self._milliseconds(np.median)

    @property
    def min_ms(self) -> float:
        return self._milliseconds(np.min)

    @property
    def max_ms(self) -> float:
        return self._milliseconds(np.max)

    @property
    def std_ms(self) -> float:
        return self._milliseconds(np.std)

    @property
    def p95_ms(self) -> float:
        return self._milliseconds(lambda times: np.percentile(times, 95))

    def _milliseconds(self, statistic: Callable[[Any], Any]) -> float:
        return 1e3 * float(statistic(np.array(self.seconds)))

    def to_dict(self) -> dict[str, Any]:
        """The statistics in milliseconds, as plain data for JSON."""
        names = ("mean_ms", "median_ms", "p95_ms", "min_ms", "max_ms", "std_ms")
        values = {name: getattr(self, name) for name in names}
        return {"repeat": len(self.seconds), "number": self.number, **values}

    def __str__(self) -> str:
        return (
            f"median {self.median_ms:.3f} ms, mean {self.mean_ms:.3f}, p95 {self.p95_ms:.3f}, "
            f"min {self.min_ms:.3f}, max {self.max_ms:.3f}, std {self.std_ms:.3f} "
            f"({len(self.seconds)} repetitions of {self.number})"
        )


class Pace:
    """Lets something begin at most so many times a second.

    A device that rests between a camera's frames clocks lower than one that is kept busy: at a
    robot's rate a frame can take several times as long as in a row.
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """rate: times a second; 0 for at once. Raises InputError for another number below 0."""
        if not 0.0 <= rate < math.inf:
            raise InputError(f"a rate of frames a second is needed, 0 for no limit, found {rate:g}")
        self._period = 1.0 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = -math.inf

    @property
    def limits(self) -> bool:
        """Whether there is a rate."""
        return self._period > 0

    def wait(self) -> None:
        """Returns when it may begin; who is late begins at once, and is not hurried afterwards."""
        if not self._period:
            return
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
        self._next = max(now, self._next) + self._period


def warm_up(
    run: Callable[[], object],
    runs: int,
    pace: Pace,
    seconds: float = WARM_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Runs before a measurement: as many as asked for, and without a rate for so long at least.

    runs: 0 for none, however long. enough: asked after each; the last one where it says so.
    """
    began = clock() if seconds else 0.0
    done = 0
    while done < runs or (runs and seconds and not pace.limits and clock() - began < seconds):
        if done and enough():
            break
        pace.wait()
        run()
        done += 1


def measure(
    run: Callable[[], object],
    *,
    repeat: int = 10,
    number: int = 1,
    warmup: int = 1,
    rate: float = 0.0,
    most_seconds: float = math.inf,
    warm_seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], object] = time.sleep,
) -> BenchmarkResult:
    """Time ``run``, which returns when the work is done.

    repeat: measurements; number: runs in each; warmup: runs before, not measured (the first ones
    allocate, record and raise the clock rates); rate: measurements, and runs before, that begin in
    a second, 0 for one after the other; most_seconds: when this is over, what runs is the last
    (LEAST measurements are taken all the same, and a tenth of it goes to the runs before);
    warm_seconds: how long runs before take at least, without a rate.

    Raises InputError for repeat or number below 1, warmup below 0, or a rate that is none.
    """
    for name, value, least in (("repeat", repeat, 1), ("number", number, 1), ("warmup", warmup, 0)):
        if value < least:
            raise InputError(f"a {name} of at least {least} is needed, found {value}")
    pace = Pace(rate, clock, sleep)
    limited = most_seconds < math.inf
    began = clock() if limited else 0.0

    def over(share: float) -> bool:
        return limited and clock() - began > share * most_seconds

    warm_up(run, warmup, pace, warm_seconds, clock, lambda: over(0.1))
    times: list[float] = []
    for _ in range(repeat):
        if len(times) >= LEAST and over(1.0):
            break
        pace.wait()
        start = clock()
        for _ in range(number):
            run()
        times.append((clock() - start) / number)
    return BenchmarkResult(tuple(times), number)


def in_turns(
    takers: Sequence[Callable[[int], Sequence[float]]], repeat: int, rounds: int = ROUNDS
) -> list[list[float]]:
    """Measurements of several things side by side, a list for each.

    Every taker takes as many measurements as it is told. They take turns, round after round and
    every other round from behind, so that the device's clocks and whatever else the machine does
    meet all of them alike. A round before the first brings the device to work and does not count.

    repeat: measurements of each, over all rounds. Raises InputError below 1.
    """
    if repeat < 1:
        raise InputError(f"a repeat of at least 1 is needed, found {repeat}")
    rounds = min(rounds, repeat)
    taken: list[list[float]] = [[] for _ in takers]
    order = list(zip(takers, taken, strict=True))
    for take, _ in order:
        take(-(-repeat // rounds))
    for turn in range(rounds):
        for take, found in order:
            found.extend(take(repeat // rounds + (turn < repeat % rounds)))
        order.reverse()
    return taken
