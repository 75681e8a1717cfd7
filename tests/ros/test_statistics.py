"""Numbers from a clock that the test turns, and what /diagnostics makes of them."""

from dataclasses import replace

import pytest

from tvm_vision.runtime.recovery import Losses
from tvm_vision_ros.diagnostics import (
    ERROR,
    OK,
    REMEDIES,
    WARN,
    Conditions,
    ModelFacts,
    frames_status,
    is_stalled,
    network_status,
    statuses,
)
from tvm_vision_ros.statistics import DONE, DROPPED, OUTCOMES, Snapshot, Statistics

GPU = ModelFacts("/m.tar", "yoeo", "ab" * 32, "Some GPU (driver 1)", "discrete gpu")
ACTIVE = Conditions(
    "active", waiting_since=100.0, topic="/image", silence="the lens is covered", room="use X"
)
BEHIND = {"clock_offset": 60.0, "clock_problem": "stamps are 60.0 s behind"}
THROUGH = Snapshot({}, 30.0, 30.0, 0.0)
NONE = Snapshot({"dropped": 9000}, 30.0, 0.0, 0.1)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def run(statistics, clock, seconds, rate_in, every):
    for index in range(round(seconds * rate_in)):
        clock.now += 1 / rate_in
        statistics.received()
        if index % every == 0:
            statistics.finished(10.0 + index % 10, 5.0)
        else:
            statistics.count(DROPPED)


def test_rates_counts_and_percentiles(clock):
    statistics = Statistics(clock)
    run(statistics, clock, 20, 30, 3)
    numbers = statistics.snapshot()
    assert numbers.counts == {"received": 600, "done": 200, "dropped": 400}
    assert numbers.rate_in == pytest.approx(30, abs=0.5)
    assert numbers.rate_out == pytest.approx(10, abs=0.5)
    assert numbers.silence == 0.0
    assert 10 <= numbers.latency[50] <= numbers.latency[95] <= 19
    assert numbers.age == {50: 5.0, 95: 5.0}


def test_rates_right_after_the_start(clock):
    statistics = Statistics(clock)
    run(statistics, clock, 1, 30, 1)
    assert statistics.snapshot().rate_in == pytest.approx(30, abs=1)


def test_old_frames_leave_the_rates_not_the_counts(clock):
    statistics = Statistics(clock)
    run(statistics, clock, 5, 30, 1)
    clock.now += 10
    numbers = statistics.snapshot()
    assert (numbers.rate_in, numbers.rate_out, numbers.latency) == (0.0, 0.0, {})
    assert numbers.counts["received"] == 150
    assert numbers.silence == 10


def test_memory_does_not_grow(clock):
    statistics = Statistics(clock)
    run(statistics, clock, 5, 5000, 1)
    assert len(statistics._arrivals) == len(statistics._done) == 2000


@pytest.mark.parametrize(
    ("numbers", "conditions", "level", "words"),
    [
        (THROUGH, ACTIVE, OK, "30.0 Hz"),
        (Snapshot({}, 0.0, 0.0, None), Conditions("inactive", "not active"), OK, "not active"),
        (Snapshot({}, 0.0, 0.0, None), ACTIVE, WARN, "no image on /image for 2 s: the lens is"),
        (Snapshot({}, 0.0, 0.0, 2.5), ACTIVE, WARN, "no image on /image"),
        (THROUGH, Conditions("inactive", fault="no topic"), ERROR, "no topic"),
        (NONE, ACTIVE, WARN, "images come in, but none gets through: see the counts"),
        (
            replace(NONE, lately={"stale": 9, "dropped": 1}),
            ACTIVE,
            WARN,
            "images come in, but none gets through, most are stale: raise max_frame_age",
        ),
        (
            replace(THROUGH, rate_lost=20.0),
            ACTIVE,
            WARN,
            "30.0 Hz, and 20.0 images per second are lost on the way: use X",
        ),
        (replace(THROUGH, rate_lost=1.0), ACTIVE, OK, "30.0 Hz"),
        (replace(THROUGH, **BEHIND), ACTIVE, WARN, "30.0 Hz, and stamps are 60.0 s behind"),
        (
            replace(THROUGH, rate_lost=20.0, **BEHIND),
            ACTIVE,
            WARN,
            "30.0 Hz, and stamps are 60.0 s behind, and 20.0 images per second are lost",
        ),
    ],
)
def test_the_line_of_the_frames(numbers, conditions, level, words):
    status = frames_status("vision: frames", "GPU", numbers, conditions)
    assert status.level == level
    assert status.message.startswith(words)


def test_every_outcome_has_a_remedy():
    assert {DONE, *REMEDIES} == set(OUTCOMES)


def test_losses_and_the_clock_are_told(clock):
    statistics = Statistics(clock)
    statistics.lost(3)
    statistics.count(DROPPED)
    statistics.tell_clock(60.0, "late")
    clock.now += 2.0
    numbers = statistics.snapshot()
    assert (numbers.counts["lost"], numbers.rate_lost) == (3, 1.5)
    assert numbers.lately == {"dropped": 1}
    assert (numbers.clock_offset, numbers.clock_problem) == (60.0, "late")
    clock.now += 10.0
    numbers = statistics.snapshot()
    assert (numbers.counts["lost"], numbers.rate_lost, numbers.lately) == (3, 0.0, {})


def test_a_new_subscription_is_given_its_time():
    fresh = Conditions("active", waiting_since=1.0, stall_timeout=2.0)
    assert not is_stalled(500.0, fresh)
    assert is_stalled(500.0, ACTIVE)
    assert is_stalled(None, ACTIVE)
    assert not is_stalled(1.0, ACTIVE)
    assert not is_stalled(500.0, Conditions("active", "nobody listens"))


@pytest.mark.parametrize(
    ("changes", "counts", "level", "words"),
    [
        ({}, {}, OK, "yoeo on Some GPU"),
        ({"device_type": "cpu"}, {}, WARN, "yoeo runs on a CPU: Some GPU"),
        ({}, {"device errors": 2}, ERROR, "2 errors of the device"),
        ({"note": "made for X"}, {}, WARN, "yoeo: made for X"),
        (
            {"losses": Losses(1, 1, "why", 0.2)},
            {},
            WARN,
            "yoeo on Some GPU (driver 1): the device was lost once, loaded anew in 0.20 s: why",
        ),
        (
            {"losses": Losses(2, 1, "why", waiting=True)},
            {"device errors": 1},
            ERROR,
            "yoeo: the device was lost 2 times, it is not back yet: why",
        ),
        ({"failure": "bad file"}, {}, WARN, "still yoeo, for the new network failed: bad file"),
        ({"name": "", "failure": "no file"}, {}, ERROR, "no file"),
        ({"name": ""}, {}, OK, "no network loaded"),
    ],
)
def test_the_line_of_the_network(changes, counts, level, words):
    facts = ModelFacts(**{**vars(GPU), **changes})
    status = network_status("vision: network", facts, Snapshot(counts, 0.0, 0.0, None))
    assert status.level == level
    assert status.message.startswith(words)


def test_everything_that_was_asked_for_is_there():
    numbers = Snapshot({"received": 3}, 1.0, 1.0, 0.0, {50: 1.0, 95: 2.0}, {50: 1.0})
    frames, network = statuses("robot/vision", GPU, numbers, ACTIVE)
    assert frames.name == "robot/vision: frames"
    assert {"rate in [Hz]", "rate out [Hz]", "dropped", "stale", "latency p50 [ms]"} < set(
        frames.values
    )
    assert network.values["sha256"] == "ab" * 32
    assert network.values["device type"] == "discrete gpu"
    assert network.hardware_id == "Some GPU (driver 1)"
