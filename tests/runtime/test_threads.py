"""One executor in several threads: turns are right, the rest is an error, never a mixture."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from support import small_graph as small
from tvm_vision.errors import InputError

FRAMES = 300
THREADS = 3
INPUTS = [small.frame(seed) for seed in range(THREADS)]
OUTPUTS = [small.expected(x, small.WEIGHTS) for x in INPUTS]


@pytest.fixture(autouse=True)
def often_interrupted() -> Iterator[None]:
    """Threads take over from each other between any two calls, not every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def run(executor: Any, x: np.ndarray) -> None:
    executor.run(x=x)


def set_and_run(executor: Any, x: np.ndarray) -> None:
    executor.set_input("x", x)
    executor.run()


def submit_and_wait(executor: Any, x: np.ndarray) -> None:
    executor.set_input(0, x)
    executor.wait(executor.submit())


@pytest.mark.parametrize("way", [run, set_and_run, submit_and_wait])
def test_never_silently_anothers_results(executor: Any, way: Any) -> None:
    counts = {"right": 0, "refused": 0, "wrong": 0}

    def work(number: int) -> None:
        for _ in range(FRAMES):
            try:
                way(executor, INPUTS[number])
                found = [executor.get_output(i).numpy() for i in range(2)]
            except InputError as error:
                assert "thread" in str(error) or "not set" in str(error) or "flight" in str(error)
                assert "\n" not in str(error)
                counts["refused"] += 1
                continue
            right = all(
                np.allclose(y, wanted, rtol=1e-5)
                for y, wanted in zip(found, OUTPUTS[number], strict=True)
            )
            counts["right" if right else "wrong"] += 1

    in_threads(work)
    assert counts["wrong"] == 0, counts


def test_all_entries_refuse_while_one_runs(executor: Any) -> None:
    """Each call meets another thread's sooner or later, and says which."""
    done = threading.Event()
    met: dict[str, str] = {}

    def busy() -> None:
        while not done.is_set():
            try:
                executor.run(x=INPUTS[0])
            except InputError:
                continue

    calls = {
        "set_input": lambda: executor.set_input("x", INPUTS[1].reshape(1, -1)[0, ::1]),
        "run": lambda: executor._call["run"](),
        "get_output": lambda: executor.get_output(0),
        "profile": lambda: executor.profile(repeat=1, warmup=0),
        "trace": lambda: executor.trace(frames=1),
        "benchmark": lambda: executor.benchmark(repeat=1, warmup=0),
        "load_params": lambda: executor.load_params({"w": small.WEIGHTS}),
    }
    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for name, call in calls.items():
            deadline = time.monotonic() + 20
            while name not in met and time.monotonic() < deadline:
                try:
                    call()
                except InputError as error:
                    if "while another thread was in" in str(error):
                        met[name] = str(error)
            # Asked by any thread at any time.
            assert executor.memory_bytes > 0 and executor.recordings >= 0
    finally:
        done.set()
        thread.join()
    assert set(met) == set(calls)


def test_threads_may_take_turns(executor: Any) -> None:
    lock = threading.Lock()

    def work(number: int) -> None:
        for _ in range(FRAMES):
            with lock:
                executor.run(x=INPUTS[number])
                y = executor.get_output(0).numpy()
            np.testing.assert_allclose(y, OUTPUTS[number][0], rtol=1e-5)

    in_threads(work)


def test_one_thread_submits_and_another_waits(executor: Any) -> None:
    results: list[np.ndarray] = []
    for seed in range(20):
        executor.set_input(0, small.frame(seed))
        ticket = executor.submit()

        def wait(ticket: int = ticket) -> None:
            executor.wait(ticket)
            results.append(executor.get_output(0).numpy())

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    for seed, y in enumerate(results):
        np.testing.assert_allclose(
            y, small.expected(small.frame(seed), small.WEIGHTS)[0], rtol=1e-5
        )


def test_one_thread_sets_inputs_and_another_runs(executor: Any) -> None:
    for seed in range(5):
        setter = threading.Thread(target=executor.set_input, args=("x", small.frame(seed)))
        setter.start()
        setter.join()
        executor.run()
        small.assert_frame(executor, small.frame(seed))


def test_an_error_lets_the_next_one_in(executor: Any) -> None:
    for _ in range(3):
        with pytest.raises(InputError, match="was not set"):
            executor.run()
        with pytest.raises(InputError):
            executor.set_input("q", small.frame(0))
        with pytest.raises(InputError):
            executor.get_output(7)
        with pytest.raises(InputError, match="not in flight"):
            executor.wait(5)
    executor.run(x=small.frame(3))
    small.assert_frame(executor, small.frame(3))


def test_executors_side_by_side_on_one_device(built: Any) -> None:
    executors = [small.loaded(built, small.MOD_JSON) for _ in range(THREADS)]

    def work(number: int) -> None:
        for frame in range(FRAMES):
            executors[number].run(x=INPUTS[(number + frame) % THREADS])
            y = executors[number].get_output(1).numpy()
            np.testing.assert_allclose(y, OUTPUTS[(number + frame) % THREADS][1], rtol=1e-5)

    in_threads(work)


def test_loading_side_by_side(built: Any) -> None:
    def work(number: int) -> None:
        for _ in range(5):
            made = small.loaded(built, small.MOD_JSON)
            made.run(x=INPUTS[number])
            np.testing.assert_allclose(made.get_output(0).numpy(), OUTPUTS[number][0], rtol=1e-5)

    in_threads(work)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_profile_after_frames_in_flight(executor: Any, frames: int) -> None:
    for seed in range(frames):
        executor.set_input(0, small.frame(seed))
        executor.wait(executor.submit())
    report = executor.profile(repeat=2, warmup=1)
    assert len(report.kernels) == 3
    small.assert_frame(executor, small.frame(frames - 1))
    executor.run(x=small.frame(7))
    small.assert_frame(executor, small.frame(7))
