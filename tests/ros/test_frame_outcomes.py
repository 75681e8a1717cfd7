"""What came in is what became of it, exactly, whatever goes wrong in whichever part."""

import time
from collections import Counter
from types import SimpleNamespace

import numpy as np

from support.ros import fakes
from tvm_vision.errors import DeviceError, InputError
from tvm_vision_ros.diagnostics import Conditions, frames_status
from tvm_vision_ros.pipeline import CameraFrame, NetworkJob, Pipeline
from tvm_vision_ros.settings import Settings
from tvm_vision_ros.statistics import DROPPED, OUTCOMES, STOPPED, Statistics
from tvm_vision_ros.worker import Worker

ERRORS = (None, InputError("bad"), DeviceError("lost"), RuntimeError("odd"), KeyError("x"))


class World:
    """The node's parts without ROS; each raises what it is told to."""

    def __init__(self):
        self.error = dict.fromkeys(("model", "sink", "device", "wanted"))
        self.listeners, self.published, self.running = True, 0, False
        self.statistics = Statistics()
        self.pipeline = Pipeline(
            Settings(),
            self.statistics,
            lambda: 1000.0,
            SimpleNamespace(warning=lambda words: None),
            lambda error: self.fail("device"),
        )
        self.model = fakes.FakeModel()
        self.job = NetworkJob(self.infer, self)
        self.pipeline.job = self.job
        self.worker = Worker(
            self.pipeline.process,
            dropped=lambda frame: self.statistics.count(DROPPED),
            let_go=lambda frame: self.statistics.count(STOPPED),
            failed=self.pipeline.failed,
        )

    def fail(self, part):
        error = self.error[part]
        if error is not None:
            raise error

    def infer(self, image):
        self.fail("model")
        return self.model(image)

    def wanted(self):
        self.fail("wanted")
        return self.listeners

    def publish(self, header, image, result, times):
        self.fail("sink")
        self.published += 1

    def send(self, encoding="bgr8", stamp=999.9):
        message = SimpleNamespace(
            encoding=encoding,
            height=2,
            width=2,
            step=6,
            is_bigendian=0,
            data=bytes(12),
            header=None,
        )
        self.statistics.received()
        # Those of 999.0 have waited for long.
        self.worker.offer(CameraFrame(message, stamp, stamp + 0.1))

    def wait(self):
        end = time.monotonic() + 10
        while self.statistics.snapshot().in_hand:
            assert time.monotonic() < end
            time.sleep(0.0005)

    @property
    def counts(self):
        return Counter(self.statistics.snapshot().counts)


def step(world, random):
    """One of all things that can happen, each followed by a frame."""
    part = random.choice(list(world.error))
    world.error[part] = ERRORS[random.integers(len(ERRORS))] if random.random() < 0.5 else None
    event = random.integers(8)
    if event == 0:
        world.worker.stop()
        world.running = False
    elif event <= 2:
        world.worker.start()
        world.running = True
    elif event == 3:
        world.pipeline.job = world.job if random.random() < 0.7 else None
    elif event == 4:
        world.listeners = random.random() < 0.7
    elif event == 5:
        rate = 0.0 if random.random() < 0.7 else 1.0
        world.pipeline.settings = Settings(lazy=bool(random.integers(2)), max_rate=rate)
    elif event == 6:
        world.pipeline.forget_warnings()
    world.send(
        encoding=random.choice(["bgr8", "bgr8", "bgr8", "16UC1"]),
        stamp=random.choice([999.9, 999.9, 999.0, 0.0]),
    )


def test_the_sum_is_exact():
    world, random, total = World(), np.random.default_rng(0), 1000
    for index in range(total):
        step(world, random)
        assert 0 <= world.statistics.snapshot().in_hand <= 2
        if index % 3 and world.running:
            world.wait()
    world.worker.stop()
    counts = world.counts
    assert world.statistics.snapshot().in_hand == 0
    assert counts["received"] == total == sum(counts[outcome] for outcome in OUTCOMES)
    assert counts["done"] == world.published
    # All of them happened.
    assert set(OUTCOMES) <= set(counts)


def test_diagnostics_show_all_terms_of_the_sum():
    world = World()
    world.send()
    world.worker.start()
    world.send("16UC1")
    world.worker.stop()
    values = frames_status("x", "", world.statistics.snapshot(), Conditions("active")).values
    assert values["received"] == sum(int(values[name]) for name in (*OUTCOMES, "in hand")) == 2
