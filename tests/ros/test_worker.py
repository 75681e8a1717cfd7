"""The newest item only, in one thread, whatever happens there."""

import threading
import time
from typing import Any

import pytest

from tvm_vision_ros.worker import Worker


class Recorder:
    """Handles items; ``gate`` holds the thread in the middle of one."""

    def __init__(self):
        self.handled: list[Any] = []
        self.dropped: list[Any] = []
        self.let_go: list[Any] = []
        self.failures: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.busy = threading.Event()
        self.worker = Worker(
            self.handle,
            dropped=self.dropped.append,
            let_go=self.let_go.append,
            failed=self.failures.append,
        )

    def handle(self, item):
        self.busy.set()
        self.gate.wait(10)
        self.handled.append(item)
        if item == "bad":
            raise RuntimeError("bad item")

    def wait(self, count):
        end = time.monotonic() + 10
        while len(self.handled) < count:
            assert time.monotonic() < end
            time.sleep(0.001)


@pytest.fixture
def recorder():
    made = Recorder()
    made.worker.start()
    yield made
    made.gate.set()
    made.worker.stop()


def test_only_the_newest_is_handled_and_the_others_are_counted(recorder):
    recorder.gate.clear()
    recorder.worker.offer(0)
    assert recorder.busy.wait(10)
    for item in range(1, 6):
        recorder.worker.offer(item)
    recorder.gate.set()
    recorder.wait(2)
    assert recorder.handled == [0, 5]
    assert recorder.dropped == [1, 2, 3, 4]


def test_an_offer_returns_at_once_while_one_is_handled(recorder):
    recorder.gate.clear()
    recorder.worker.offer(0)
    assert recorder.busy.wait(10)
    start = time.monotonic()
    for item in range(1000):
        recorder.worker.offer(item)
    assert time.monotonic() - start < 1.0


def test_an_error_is_told_and_the_thread_goes_on(recorder):
    recorder.worker.offer("bad")
    recorder.wait(1)
    recorder.worker.offer("good")
    recorder.wait(2)
    assert [str(error) for error in recorder.failures] == ["bad item"]


def test_it_starts_and_stops_many_times_without_leaving_threads(recorder):
    recorder.worker.stop()
    before = threading.active_count()
    for index in range(100):
        recorder.worker.start()
        recorder.worker.start()
        recorder.worker.offer(index)
        assert recorder.worker.stop()
        assert recorder.worker.stop()
    assert threading.active_count() == before


def test_what_waits_is_let_go_at_the_stop(recorder):
    recorder.gate.clear()
    recorder.worker.offer(0)
    assert recorder.busy.wait(10)
    recorder.worker.offer(1)
    assert not recorder.worker.stop(timeout=0.01)
    recorder.gate.set()
    assert recorder.worker.stop(timeout=10)
    recorder.worker.offer(2)
    assert recorder.handled == [0]
