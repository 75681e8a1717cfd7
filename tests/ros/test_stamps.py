"""Stamps of every age and clock: what counts is that somebody sees results, and no stale ones."""

import pytest

from tvm_vision_ros.stamps import BACKLOG_SECONDS, Stamps

NOW = 1e6
LIMIT = 0.5


@pytest.fixture
def stamps():
    jumps: list[float] = []
    made = Stamps(jumps.append)
    made.jumps = jumps
    return made


def run(stamps, offset, seconds, start=NOW, rate=10.0, pace=1.0):
    """The part of images that are not too old, of a camera ``offset`` seconds behind."""
    good, number = 0, round(seconds * rate)
    for index in range(number):
        received = start + index / rate
        stamp = start - offset + pace * index / rate
        good += stamps.age(stamp, received, received + 0.01, LIMIT) <= LIMIT
    return good / number


@pytest.mark.parametrize(
    "offset", [0.6, 1.0, 10.0, 60.0, 1800.0, 3599.0, 3601.0, 86400.0, 9e5, -0.2, -1.0, -60.0, -1e5]
)
def test_stamps_of_any_clock_give_results_and_a_warning(stamps, offset):
    assert run(stamps, offset, 5.0) == 1.0
    assert stamps.offset == pytest.approx(offset)
    direction = "behind" if offset > 0 else "ahead of"
    assert f"{abs(offset):.1f} s {direction} this node's clock" in stamps.problem
    assert "use_sim_time" in stamps.problem


@pytest.mark.parametrize("offset", [0.0, 0.1, 0.45, -0.05])
def test_stamps_of_this_clock_give_no_warning(stamps, offset):
    assert run(stamps, offset, 5.0) == 1.0
    assert (stamps.offset, stamps.problem) == (0.0, "")


@pytest.mark.parametrize("pace", [0.1, 0.5, 1.0, 2.0, 3.0])
def test_a_bag_at_any_pace(stamps, pace):
    assert run(stamps, 1800.0, 60.0, pace=pace) == 1.0


def test_a_backlog_is_old_and_ends(stamps):
    assert run(stamps, 0.0, 5.0) == 1.0
    # Nothing came for a while, and what comes then was made in the meantime.
    assert run(stamps, 0.8, BACKLOG_SECONDS - 0.1, NOW + 5.8) == 0.0
    assert stamps.problem == ""
    assert run(stamps, 0.0, 5.0, NOW + 8) == 1.0


def test_old_for_good_after_it_was_right(stamps):
    assert run(stamps, 0.0, 5.0) == 1.0
    share = run(stamps, 0.8, 20.0, NOW + 5.8)
    assert share == pytest.approx(1.0 - BACKLOG_SECONDS / 20.0, abs=0.01)
    assert "0.8 s behind" in stamps.problem
    assert run(stamps, 0.0, 1.0, NOW + 26) == 1.0
    assert stamps.problem == ""


@pytest.mark.parametrize("hours", [-8760 * 30, -24, -1, 1.1, 5, 24, 8760 * 30])
def test_the_nodes_clock_is_set_and_nothing_is_lost(stamps, hours):
    """Forward or back, as where the time is heard of late, and back again; the camera's stays."""
    seconds, start = 3600.0 * hours, 1e9
    assert run(stamps, 0.0, 5.0, start) == 1.0
    assert run(stamps, seconds, 5.0, start + seconds + 5) == 1.0
    assert f"{abs(seconds):.1f} s {'behind' if hours > 0 else 'ahead of'}" in stamps.problem
    assert run(stamps, 0.0, 5.0, start + 10) == 1.0
    assert stamps.problem == ""


def test_rounds_of_a_bag_lose_nothing(stamps):
    for round_ in range(5):
        assert run(stamps, 10.0 * round_, 10.0, NOW + 10.0 * round_) == 1.0
    assert stamps.jumps == [pytest.approx(9.9)] * 4


def test_rounds_of_a_simulation_lose_nothing(stamps):
    for _ in range(3):
        assert run(stamps, 0.0, 5.0, start=100.0) == 1.0
    assert stamps.problem == ""


def test_the_clock_of_a_simulation_comes_after_its_images(stamps):
    assert run(stamps, 0.0, 5.0, start=1000.0) == 1.0
    # Begun anew: images of the new time while the clock still says the old one.
    for index in range(5):
        assert stamps.age(0.1 * index + 0.1, 1005.0, 1005.0, LIMIT) <= LIMIT
    assert run(stamps, 0.0, 5.0, start=0.6) == 1.0


@pytest.mark.parametrize("now", [NOW, 1e9])
def test_no_stamp_is_told(stamps, now):
    assert stamps.age(0.0, now - 0.2, now, LIMIT) == pytest.approx(0.2)
    assert "the images have no stamp" in stamps.problem
    assert stamps.offset == 0.0


def test_a_simulation_begins_without_a_stamp(stamps):
    assert stamps.age(0.0, 0.1, 0.1, LIMIT) == 0.0
    assert stamps.problem == ""


def test_a_clock_that_stands_still_is_told(stamps):
    assert stamps.age(1.7e9, 0.0, 0.0, LIMIT) == 0.0
    assert "nothing comes on /clock" in stamps.problem


def test_without_a_limit_ages_are_those_of_the_stamps(stamps):
    assert stamps.age(NOW - 30.0, NOW, NOW, 0.0) == 30.0
    assert stamps.problem == ""
    assert stamps.age(NOW - 8000.0, NOW, NOW, 0.0) == 0.0
    assert "8000.0 s behind" in stamps.problem


def test_another_camera_begins_anew(stamps):
    run(stamps, 0.0, 1.0)
    stamps.forget()
    assert run(stamps, 0.8, 1.0, NOW + 1) == 1.0
