"""A device that is kept busy between measurements."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tvm_vision.tuning import worker
from tvm_vision.tuning.busy import Busy, device_to_itself
from tvm_vision.tuning.worker import SHARED_WITH_NOBODY, Argument, Board, MeasureRuns


def test_it_runs_in_bursts_until_it_is_stopped() -> None:
    runs, waits = [0], threading.Semaphore(0)

    def run() -> None:
        runs[0] += 1

    busy = Busy(run, waits.release, seconds=1e-4, most=60.0)
    for _ in range(3):
        assert waits.acquire(timeout=10)
    busy.stop()
    at = runs[0]
    assert at >= 30 and at % 10 == 0
    time.sleep(0.01)
    assert runs[0] == at


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_it_ends_by_itself(seconds: float) -> None:
    busy = Busy(lambda: None, lambda: time.sleep(1e-3), seconds, most=0.02)
    busy._thread.join(10)
    assert not busy._thread.is_alive()
    busy.stop()


def test_one_at_a_time_has_the_device(tmp_path: Any) -> None:
    lock = str(tmp_path / "lock")
    bursts = [0]

    def run() -> None:
        bursts[0] += 1

    with device_to_itself(lock, 0.0) as first:
        assert first
        busy = Busy(run, lambda: None, 1.0, most=60.0, lock=lock)
        with device_to_itself(lock, 0.01) as second:
            assert not second
        assert bursts[0] == 0
    with device_to_itself(lock, 10.0) as third:  # although it asks all the time
        assert third
    busy.stop()
    with device_to_itself("", 0.0) as nobody, device_to_itself("", 0.0) as else_:
        assert nobody and else_


def test_a_lost_device_ends_it() -> None:
    def lost() -> None:
        raise RuntimeError("device lost")

    busy = Busy(lost, lambda: None, 1.0, most=60.0)
    busy._thread.join(10)
    assert not busy._thread.is_alive()


def test_measurements_are_made_on_a_device_that_was_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, device_info: Any
) -> None:
    monkeypatch.setattr(worker, "_idles", lambda kind, board: True)
    x, y = te.placeholder((64, 96), "float32", "x"), te.placeholder((64, 96), "float32", "y")
    function = te.create_prim_func([x, y, topi.add(x, y)])
    decision = {"template": "elementwise", "parameters": {"threads": 64, "along": 1}}
    path = worker.build(
        tvm.ir.save_json(function), decision, '{"kind": "vulkan", "from_device": 0}', str(tmp_path)
    )
    arguments = tuple(Argument((64, 96), "float32", number == 2) for number in range(3))
    alone = (str(tmp_path / "lock"), 10.0)
    for _ in range(2):
        found = worker.measure(path, "vulkan", arguments, MeasureRuns(2, 1, 0), 1.0, alone, Board())
        assert found is not None and len(found) == 2
        assert len(worker._BUSY) == 1
    first, second = (worker.random_array(argument, n) for n, argument in enumerate(arguments[:2]))
    made = worker.outputs(path, "vulkan", arguments, alone, Board())
    assert made is not None
    (sums,) = made
    worker._BUSY.pop().stop()
    with device_to_itself(*alone):
        busy = (alone[0], 0.0)
        assert worker.measure(path, "vulkan", arguments, MeasureRuns(), 1.0, busy, Board()) is None
        assert worker.outputs(path, "vulkan", arguments, busy, Board()) is None
    np.testing.assert_array_equal(sums, first + second)
    worker._KEPT.clear()
    worker._LIBRARIES.clear()


def test_references_are_computed_on_all_cores(tmp_path: Any) -> None:
    a, b = te.placeholder((24, 40), "float16", "a"), te.placeholder((40, 56), "float16", "b")
    function = te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])
    assert worker._on_all_cores(function).script().count("T.parallel") == 2
    path = worker.build(tvm.ir.save_json(function), {}, '{"kind": "llvm"}', str(tmp_path))
    shapes = ((24, 40), (40, 56), (24, 56))
    arguments = tuple(Argument(shape, "float16", n == 2) for n, shape in enumerate(shapes))
    made = worker.outputs(path, "llvm", arguments, SHARED_WITH_NOBODY, Board())
    assert made is not None
    (found,) = made
    first, second = (worker.random_array(argument, n) for n, argument in enumerate(arguments[:2]))
    expected = np.maximum(first.astype("float64") @ second, 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.05)
