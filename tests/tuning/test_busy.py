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
from tvm_vision.tuning.busy import Busy
from tvm_vision.tuning.worker import Argument, Board, Timing


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
    for _ in range(2):
        assert len(worker.measure(path, "vulkan", arguments, Timing(2, 1, 0), 1.0, Board())) == 2
        assert len(worker._BUSY) == 1
    first, second = (worker.random_array(argument, n) for n, argument in enumerate(arguments[:2]))
    (sums,) = worker.outputs(path, "vulkan", arguments, Board())
    worker._BUSY.pop().stop()
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
    (found,) = worker.outputs(path, "llvm", arguments, Board())
    first, second = (worker.random_array(argument, n) for n, argument in enumerate(arguments[:2]))
    expected = np.maximum(first.astype("float64") @ second, 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.05)
