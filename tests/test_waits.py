"""Nothing waits without a limit: what may is named here, with the reason.

Found in the text of the sources: calls that wait for a process, a thread, a lock, a queue or a
file, and are given no limit. A plain ``with lock`` is not looked at.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT, tuning_world
from tvm_vision.errors import DeviceError, InputError, TuningError
from tvm_vision.offline.finishing import finished
from tvm_vision.tuning import busy, records

ROOMS = ("tvm_vision", "tools", "ros2_node")
PROGRAMS = {"run", "call", "check_call", "check_output"}
# Methods, with the number of arguments with which they have a limit.
METHODS = {"communicate": 2, "wait": 1, "join": 1, "acquire": 1, "result": 1, "recv": 1}
QUEUES = re.compile(r"queue|work|free|tasks", re.IGNORECASE)

COMPUTES = "waits for what this process computes, which ends"
LIMITED = "what it waits for has a limit of its own"
MAY_WAIT = {
    "tvm_vision/child_processes.py select.poll": "a daemon thread that waits for who asks to end",
    "ros2_node/main.py stop.wait": "a node runs until a signal or a person ends it",
    "ros2_node/ros_spinning.py self._thread.join": "a callback's frame has frame_timeout",
    "ros2_node/stop.py select.select": "is given its limit by who calls",
    "tvm_vision/compiler/kernels/beside.py connection.recv": "nobody needs it at the end",
    "tvm_vision/compiler/kernels/beside.py process.wait": "it was killed",
    "tvm_vision/compiler/kernels/make.py objects.result": COMPUTES,
    "tvm_vision/compiler/kernels/worker.py connection.recv": "ends with who asks it for kernels",
    "tvm_vision/cache/devices_here.py connection.recv": "poll was given the limit",
    "tvm_vision/cache/devices_here.py process.wait": "it was killed",
    "tvm_vision/vulkan/codegen/build.py job.result": COMPUTES,
    "tvm_vision/side_threads.py over.acquire": "reads or hashes a file, as long as a disk takes",
    "tvm_vision/runtime/benchmark.py pace.wait": "sleeps for a part of a period",
    "tvm_vision/runtime/graph_executor.py pace.wait": "sleeps for a part of a period",
    "tvm_vision/evaluate/boards.py self._work.get": "a daemon thread that waits for work",
    "tvm_vision/tuning/measure.py self._work.get": "a daemon thread that waits for work",
    "tvm_vision/tuning/measure.py self._worker.recv": "send was given the limit",
    "tvm_vision/tuning/measure.py built.result": LIMITED,
    "tvm_vision/tuning/measure.py future.result": LIMITED,
    "tvm_vision/tuning/measure.py found.result": LIMITED,
    "tvm_vision/tuning/measure.py reference.result": LIMITED,
    "tvm_vision/tuning/metaschedule.py future.result": "of TVM's runner, which was given a limit",
    "tvm_vision/tuning/metaschedule.py result.result": "is there already",
}


def waits(tree: ast.AST) -> Iterator[str]:
    """Each call without a limit, as it is written."""
    text = ast.unparse(tree)
    waiting = bool(
        re.search(r"subprocess|threading|_thread|concurrent|multiprocessing|PopenWorker", text)
    )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, ast.unparse(node.func.value)
        given = {word.arg for word in node.keywords}
        limited = bool(given & {"timeout", "blocking", "block"})
        if of == "subprocess":
            endless = name in PROGRAMS and not limited
        elif of == "select":
            # A limit that may be None is none.
            endless = not (len(node.args) == 4 and isinstance(node.args[3], ast.Constant))
        elif name == "flock":
            endless = not re.search(r"LOCK_NB|LOCK_UN", ast.unparse(node.args[1]))
        elif name == "get":
            endless = not node.args and not limited and bool(QUEUES.search(of.rpartition(".")[2]))
        else:
            of_waiting = name in METHODS and (waiting or name in ("wait", "acquire"))
            endless = of_waiting and len(node.args) < METHODS[name] and not limited
        if endless:
            yield f"{of}.{name}"


def test_every_wait_has_a_limit_or_a_reason() -> None:
    found = {
        f"{path.relative_to(ROOT)} {call}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for call in waits(ast.parse(path.read_text("utf-8")))
    }
    assert found == set(MAY_WAIT)


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\nsubprocess.run(['true'], check=True)",
        "import subprocess\nprocess.communicate()",
        "import threading\nself._thread.join()",
        "process.wait()",
        "lock.acquire()",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "self._queue.get()",
        "select.select([pipe], [], [])",
    ],
)
def test_the_search_sees_each_kind(text: str) -> None:
    assert len(list(waits(ast.parse(text)))) == 1


def test_a_program_that_does_not_end_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(InputError, match="^it is late$"):
        finished(
            [sys.executable, "-c", "import time; time.sleep(60)"], 0.2, InputError("it is late")
        )
    assert time.monotonic() - begin < 30


def test_records_that_another_process_holds_are_waited_for_with_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    monkeypatch.setattr(records, "LOCK_SECONDS", 0.1)
    with records.RecordWriter(path) as writer:
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TuningError, match=r"records\.jsonl' .* held it for 0\.1 s: end that"):
            writer.write(tuning_world.record())
        os.close(other)
        writer.write(tuning_world.record())
    assert len(path.read_text().splitlines()) == 1


def test_a_device_that_stays_busy_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "END_SECONDS", 0.1)
    hangs = threading.Event()
    kept = busy.Busy(lambda: None, hangs.wait, 1e-4, 5.0)
    with pytest.raises(DeviceError, match="has not for 0.1 s: "):
        kept.stop()
    hangs.set()
