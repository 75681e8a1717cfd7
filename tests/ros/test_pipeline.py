"""One frame at a time, with a clock that the test turns."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.ros import fakes
from tvm_vision.errors import DeviceError
from tvm_vision_ros.pipeline import CameraFrame, NetworkJob, Pipeline
from tvm_vision_ros.settings import Settings
from tvm_vision_ros.statistics import Statistics


class Sink:
    def __init__(self):
        self.published, self.listeners = [], True

    def wanted(self):
        return self.listeners

    def publish(self, header, image, result, times):
        self.published.append((header, result, times))


class Bench:
    """A pipeline with all that it talks to."""

    def __init__(self, **settings):
        self.now = 1000.0
        self.warnings: list[str] = []
        self.lost: list[Any] = []
        log = SimpleNamespace(warning=self.warnings.append)
        self.pipeline = Pipeline(
            Settings(**settings), Statistics(), lambda: self.now, log, self.lost.append
        )
        self.sink, self.model = Sink(), fakes.FakeModel()
        self.pipeline.job = NetworkJob(self.model, self.sink)

    def send(self, stamp=None, received=None, **fields):
        image = {
            "encoding": "bgr8",
            "height": 4,
            "width": 6,
            "step": 18,
            "is_bigendian": 0,
            "data": bytes(72),
            "header": SimpleNamespace(stamp=stamp),
        }
        message = SimpleNamespace(**{**image, **fields})
        stamp = self.now if stamp is None else stamp
        self.pipeline.process(
            CameraFrame(message, stamp, self.now if received is None else received)
        )

    @property
    def counts(self):
        return self.pipeline.statistics.snapshot().counts


def test_a_frame_goes_through_with_its_header_and_its_times():
    bench = Bench()
    bench.send(stamp=999.9)
    ((header, result, times),) = bench.sink.published
    assert header.stamp == 999.9
    assert len(result.detections) == 0
    assert times.age == pytest.approx(100.0)
    assert bench.counts["done"] == 1


def test_without_a_network_nothing_happens_but_that_it_is_counted():
    bench = Bench()
    bench.pipeline.job = None
    bench.send()
    assert bench.counts == {"stopped": 1}


def test_stale_frames_are_passed_over_with_one_warning():
    bench = Bench(max_frame_age=0.5)
    bench.send(stamp=bench.now - 0.4)
    for _ in range(3):
        bench.now += 0.3
        bench.send(stamp=bench.now - 0.6)
    assert bench.counts["stale"] == 3
    assert bench.counts["done"] == 1
    assert len(bench.warnings) == 1


def test_zero_keeps_frames_of_any_age():
    bench = Bench(max_frame_age=0.0)
    bench.send(stamp=bench.now - 30.0)
    assert bench.counts["done"] == 1


@pytest.mark.parametrize("stamp", [0.0, 5.0, 1e9])
def test_stamps_of_another_clock_count_from_the_arrival(stamp):
    bench = Bench(max_frame_age=0.5)
    bench.now = 1e6
    bench.send(stamp=stamp, received=1e6 - 0.2)
    assert bench.sink.published[0][2].age == pytest.approx(200.0, abs=1e-3)
    assert len(bench.warnings) == 1
    bench.send(stamp=stamp, received=1e6 - 0.7)
    assert bench.counts["stale"] == 1


def test_a_jump_back_is_counted_and_told_once():
    bench = Bench(max_frame_age=0.0)
    for step in (0.0, 0.1, -0.2, -0.1, -0.3):
        bench.send(stamp=bench.now - 0.4 + step)
    assert bench.counts["done"] == 5
    assert bench.counts["time jumps"] == 2
    assert len(bench.warnings) == 1
    assert "went back by 0.300 s" in bench.warnings[0]


def test_nobody_listens_nothing_runs():
    bench = Bench(lazy=True)
    bench.sink.listeners = False
    bench.send()
    assert bench.model.frames == 0
    bench.pipeline.settings = Settings(lazy=False)
    bench.send()
    assert bench.model.frames == 1


@pytest.mark.parametrize(("rate", "expected"), [(30.0, 300), (10.0, 100), (7.0, 70), (0.0, 300)])
def test_the_rate_is_held_with_jitter(rate, expected):
    bench = Bench(max_rate=rate)
    jitter = np.random.default_rng(0).uniform(-0.002, 0.002, 300)
    for index in range(300):
        bench.now = 1000.0 + index / 30 + jitter[index]
        bench.send()
    assert bench.counts["done"] == pytest.approx(expected, rel=0.06)
    assert bench.counts.get("limited", 0) == 300 - bench.counts["done"]


def test_a_clock_that_goes_back_does_not_stop_a_limited_rate():
    bench = Bench(max_rate=10.0)
    bench.send()
    bench.now -= 500.0
    bench.send()
    assert bench.counts["done"] == 2


def test_one_warning_for_an_unknown_encoding_and_one_for_another():
    bench = Bench()
    for encoding in ("rgb565", "rgb565", "bgr555", "rgb565"):
        bench.send(encoding=encoding)
    assert bench.counts["unreadable"] == 4
    assert [("rgb565" in text, "bgr555" in text) for text in bench.warnings] == [
        (True, False),
        (False, True),
    ]
    bench.pipeline.forget_warnings()
    bench.send(encoding="rgb565")
    assert len(bench.warnings) == 3


@pytest.mark.parametrize("fields", [{"height": 0}, {"data": b""}, {"step": 3}])
def test_broken_images_are_counted_and_the_next_one_is_good(fields):
    bench = Bench()
    for _ in range(3):
        bench.send(**fields)
    bench.send()
    assert bench.counts["unreadable"] == 3
    assert bench.counts["done"] == 1
    assert len(bench.warnings) == 1


def test_errors_of_the_device_are_told():
    bench = Bench()

    def fail(image):
        raise DeviceError("the device was lost")

    bench.pipeline.job = NetworkJob(fail, bench.sink)
    bench.send()
    assert bench.counts["device errors"] == bench.counts["failed"] == 1
    assert [str(error) for error in bench.lost] == ["the device was lost"]


def test_thresholds_reach_the_network_before_the_next_frame():
    bench = Bench(confidence=0.7, iou=0.3, max_detections=11)
    bench.send()
    model = bench.model
    assert (model.confidence, model.iou, model.max_detections) == (0.7, 0.3, 11)


def bright(bench, column, **fields):
    """A frame with a ball at a column, a thirtieth of a second later."""
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[1:3, column : column + 2] = 255
    bench.now += 1 / 30
    bench.send(data=pixels.tobytes(), **fields)
    detections = bench.sink.published[-1][1].detections
    return None if detections.track_ids is None else detections.track_ids.tolist()


def test_ids_stay_until_they_are_reset_or_the_stamps_jump():
    bench = Bench(tracking=True, max_frame_age=0.0)
    assert [bright(bench, column) for column in (0, 1, 2, 3)] == [[1]] * 4
    bench.pipeline.tracks.reset()
    assert [bright(bench, column) for column in (3, 2)] == [[2], [2]]
    bench.now += 5.0
    assert bright(bench, 2) == [3]
    bench.now -= 100.0
    assert bright(bench, 2) == [4]
    bench.pipeline.settings = Settings(tracking=False)
    assert bright(bench, 2) is None
    bench.pipeline.settings = Settings(tracking=True)
    assert bright(bench, 2) == [1]


def test_a_network_that_was_released_is_gone():
    bench = Bench(tracking=True, confidence=0.3)
    bright(bench, 0)
    gone = weakref.ref(bench.model)
    bench.pipeline.job = None
    del bench.model
    bench.sink.published.clear()
    gc.collect()
    assert gone() is None


def test_each_camera_has_ids_of_its_own():
    first, second = Bench(tracking=True), Bench(tracking=True)
    assert bright(first, 0) == bright(second, 3) == [1]
    first.pipeline.tracks.reset()
    assert (bright(first, 0), bright(second, 3)) == ([2], [1])


def test_a_classifier_has_no_thresholds():
    bench = Bench()
    model = fakes.FakeClassifier()
    bench.pipeline.job = NetworkJob(model, bench.sink)
    bench.send()
    assert not hasattr(model, "confidence")


def test_warnings_end_somewhere():
    bench = Bench()
    for index in range(500):
        bench.pipeline.failed(ValueError(str(index)))
    assert len(bench.warnings) <= 101
