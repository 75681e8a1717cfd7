"""Statistics of times, with a clock that is under control."""

import itertools

import pytest

from tvm_vision.errors import InputError
from tvm_vision.runtime.benchmark import BenchmarkResult, Pace, in_turns, measure


def test_measure_counts_runs_and_divides():
    runs = []
    clock = itertools.chain([0.0, 1.0, 1.0, 5.0])
    result = measure(
        lambda: runs.append(1), repeat=2, number=2, warmup=3, clock=lambda: next(clock)
    )
    assert len(runs) == 3 + 2 * 2
    assert result == BenchmarkResult((0.5, 2.0), 2)


class Time:
    """A clock that only sleeping and working moves."""

    def __init__(self):
        self.now, self.slept = 10.0, []

    def __call__(self):
        return self.now

    def work(self, seconds):
        self.now += seconds

    def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.mark.parametrize(
    ("seconds", "runs", "taken"),
    [(0.01, 10, 50), (1.0, 7, 50), (3.0, 3, 18), (7.0, 1, 8), (100.0, 1, 3)],
)
def test_a_slow_device_is_measured_less_often(seconds, runs, taken):
    time, seen = Time(), []

    def run():
        seen.append(time.now)
        time.work(seconds)

    found = measure(run, repeat=50, warmup=10, most_seconds=60.0, clock=time, sleep=time.sleep)
    assert (len(seen) - len(found.seconds), len(found.seconds)) == (runs, taken)


@pytest.mark.parametrize(
    ("seconds", "warmup", "rate", "runs"),
    [(0.01, 3, 0.0, 25), (0.1, 5, 0.0, 5), (0.01, 0, 0.0, 0), (0.01, 3, 10.0, 3)],
)
def test_a_device_that_was_idle_works_for_a_while(seconds, warmup, rate, runs):
    """Before it is measured, if it is to be warm at all, and not where it rests between frames."""
    time, seen = Time(), []

    def run():
        seen.append(time.now)
        time.work(seconds)

    measure(
        run, repeat=4, warmup=warmup, rate=rate, warm_seconds=0.245, clock=time, sleep=time.sleep
    )
    assert len(seen) == runs + 4


def test_a_pace_waits_for_its_turn_and_does_not_hurry_after_a_late_one():
    time = Time()
    pace = Pace(4.0, time, time.sleep)
    for work in (0.1, 0.05, 0.6, 0.1, 0.0):  # seconds after each begin; a frame has 0.25
        pace.wait()
        time.work(work)
    assert time.slept == [0.15, 0.2, 0.15]


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_pace_of_no_rate(rate):
    with pytest.raises(InputError, match="a rate of frames a second"):
        measure(lambda: None, rate=rate)


def test_measuring_at_a_rate_times_the_runs_alone():
    time = Time()
    result = measure(
        lambda: time.work(0.01), repeat=2, warmup=1, rate=10.0, clock=time, sleep=time.sleep
    )
    assert result.seconds == pytest.approx((0.01, 0.01))
    assert time.slept == [0.09, 0.09]


def test_statistics():
    result = BenchmarkResult((0.001, 0.002, 0.006))
    assert result.to_dict() == pytest.approx(
        {
            "repeat": 3, "number": 1, "mean_ms": 3.0, "median_ms": 2.0, "p95_ms": 5.6,
            "min_ms": 1.0, "max_ms": 6.0, "std_ms": 2.160247,
        },
        rel=1e-6,
    )  # fmt: skip
    assert str(result).startswith("median 2.000 ms, mean 3.000, p95 5.600, min 1.000, max 6.000")


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"number": 0}, {"warmup": -1}])
def test_counts_below_the_least(wrong):
    with pytest.raises(InputError, match=f"a {next(iter(wrong))} of at least"):
        measure(lambda: None, **wrong)


def test_no_times():
    with pytest.raises(ValueError, match="expected times"):
        BenchmarkResult(())


def test_turns_go_back_and_forth():
    calls = []

    def taker(name):
        def take(count):
            calls.append((name, count))
            return [len(calls)] * count

        return take

    a, b = in_turns([taker("a"), taker("b")], 7, rounds=3)
    warm, rounds = calls[:2], calls[2:]
    assert warm == [("a", 3), ("b", 3)]
    assert rounds == [("a", 3), ("b", 3), ("b", 2), ("a", 2), ("a", 2), ("b", 2)]
    assert a == [3, 3, 3, 6, 6, 7, 7]
    assert b == [4, 4, 4, 5, 5, 8, 8]
    assert [len(found) for found in in_turns([taker("a")], 2)] == [2]
    with pytest.raises(InputError, match="at least 1 is needed, found 0"):
        in_turns([], 0)
