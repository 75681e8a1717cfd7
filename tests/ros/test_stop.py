"""Signals that come at any moment, and many of them."""

import os
import signal
import threading
import time

import pytest

from tvm_vision_ros.stop import Stop


@pytest.fixture
def stop():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    made = Stop()
    made.on_signals()
    yield made
    signal.set_wakeup_fd(-1)
    # One that another thread has yet to take would interrupt the tests that come after.
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_once_expressed_it_stays(stop):
    assert not stop.requested
    assert not stop.wait(timeout=0.01)
    stop.request()
    assert stop.requested
    assert stop.wait() and stop.wait(timeout=0)


def test_a_signal_that_another_thread_gets_is_heard_at_once(stop):
    """The main thread is not woken by it: with an Event it would wait on."""

    def get_it():
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        time.sleep(1)

    thread = threading.Timer(0.1, get_it)
    thread.start()
    start = time.monotonic()
    assert stop.wait(timeout=10)
    assert time.monotonic() - start < 5
    thread.join()


def test_a_storm_of_signals_while_waiting_again_and_again(stop):
    def storm():
        for index in range(3000):
            os.kill(os.getpid(), (signal.SIGINT, signal.SIGTERM)[index % 2])
            if index % 50 == 0:
                time.sleep(0.001)

    sender = threading.Thread(target=storm)
    sender.start()
    while sender.is_alive():
        stop.wait(timeout=0.0001)
    sender.join()
    assert stop.wait(timeout=5)
