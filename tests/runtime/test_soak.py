"""The long run: what differs, what grows and what takes long is told."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from benchmarks.soak import Soak, Times, slope, soak


class FakeExecutor:
    """Gives its input back; the n-th frame from the begin is another in one bit."""

    device_description = "a device of the tests"
    memory_bytes = 16

    def __init__(self, wrong: int) -> None:
        self._left = wrong
        described = {
            "name": "x",
            "shape": [1, 4],
            "dtype": "float32",
            "layout": "",
            "units": "",
            "quantization": None,
        }
        self.info: dict[str, Any] = {"inputs": [described]}

    def frame(self, inputs: Any) -> dict[str, np.ndarray]:
        self._left -= 1
        output = inputs["x"].copy()
        output.view(np.uint32)[0, 0] ^= np.uint32(self._left == 0)
        return {"y": output}


@pytest.mark.parametrize(("wrong", "different"), [(0, 0), (7, 1)])
def test_one_bit_in_one_frame_is_seen(wrong: int, different: int) -> None:
    found = soak(FakeExecutor(wrong), 60.0, 20)
    assert (found.frames, found.different) == (20, different)
    assert "20 frames" in found.describe()


def test_what_came_of_it_so_far_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.soak.TELL_SECONDS", 0.0)
    told: list[Soak] = []
    found = soak(FakeExecutor(0), 60.0, 5, told.append)
    assert [one.frames for one in told] == [1, 2, 3, 4, 5]
    assert found.frames == 5 and found.seconds >= told[-1].seconds


def test_an_interrupt_ends_it_as_its_time_does() -> None:
    executor = FakeExecutor(0)
    frame = executor.frame

    def interrupted(inputs: Any) -> dict[str, np.ndarray]:
        if executor._left < -8:
            raise KeyboardInterrupt
        return frame(inputs)

    executor.frame = interrupted  # type: ignore[method-assign]
    assert soak(executor, 60.0, 1000).frames == 5


def test_times_are_within_a_percent() -> None:
    times = Times()
    for number in range(1, 1001):
        times.add(number * 1e-3)
    assert times.milliseconds(50) == pytest.approx(500, rel=0.011)
    assert times.milliseconds(99.9) == pytest.approx(999, rel=0.011)
    assert (times.frames, times.longest) == (1000, 1.0)


def test_the_slope_is_that_after_the_begin() -> None:
    seconds = array("d", range(100))
    kib = array("d", [50.0] * 10 + [100.0 + second for second in range(90)])
    assert slope(seconds, kib) == pytest.approx(3600.0)
    assert slope(seconds[:2], kib[:2]) == 0.0
