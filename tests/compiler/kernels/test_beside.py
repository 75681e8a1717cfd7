"""Kernels made by several processes: the same code, errors and words as by one, and none left."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te, tirx
from tvm.target import Target

from support.compiled import FIXED
from tvm_vision.compiler.kernels import beside
from tvm_vision.compiler.kernels.beside import (
    LEAST_OPERATORS,
    made_beside,
    processes_for,
    started_ahead,
)
from tvm_vision.compiler.kernels.maker import Job, KernelMaker
from tvm_vision.compiler.target import parse_target
from tvm_vision.schedules import ScheduleConfig, TargetLimits
from tvm_vision.schedules.cost.direct_conv import DirectConvTile

ON_A_GPU = parse_target(FIXED)
ON_A_PROCESSOR = parse_target("llvm -mcpu=x86-64")
# No kernel here is a convolution.
ODD = ScheduleConfig("direct_conv", DirectConvTile(2, 16, 16))


def times(factor: float, size: int) -> tirx.PrimFunc:
    a = te.placeholder((size,), "float32", "a")
    return te.create_prim_func([a, te.compute((size,), lambda i: a[i] * factor)])


def jobs(count: int, choice: ScheduleConfig | None = None) -> dict[str, Job]:
    found = {}
    for number in range(count):
        function = tvm.ir.save_json(times(number + 2.0, 64 + number))
        found[f"{number}"] = Job(f"kernel{number}", f"k{number}".ljust(64, "_"), function, choice)
    return found


def maker(target: Target) -> KernelMaker:
    return KernelMaker(target, TargetLimits.of(target) if "gpu" in target.keys else None)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that a test starts, all of which have ended after it."""
    found: list[subprocess.Popen[bytes]] = []

    def start(module: str) -> Any:
        process, connection = start_python(module)
        found.append(process)
        return process, connection

    start_python = beside.start_python
    monkeypatch.setattr(beside, "start_python", start)
    yield found
    assert all(process.returncode is not None for process in found)


@pytest.mark.parametrize("target", [ON_A_GPU, ON_A_PROCESSOR], ids=["gpu", "processor"])
def test_the_code_is_the_same_whoever_makes_it(
    target: Target, started: list[subprocess.Popen[bytes]]
) -> None:
    wanted = jobs(24)
    alone = made_beside(wanted, maker(target), 1)
    assert not started
    together = made_beside(wanted, maker(target), 3)
    assert len(started) == 2
    assert {key: code.to_bytes() for key, code in together.items()} == {
        key: code.to_bytes() for key, code in alone.items()
    }


class _Waits(KernelMaker):
    """Makes nothing before another process has."""

    def made(self, job: Job) -> Any:
        time.sleep(0.2)
        return super().made(job)


def test_others_make_most_where_this_process_waits(
    started: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    """And what they say is said here."""
    slow = _Waits(ON_A_GPU, TargetLimits.of(ON_A_GPU))
    with caplog.at_level(logging.WARNING, "tvm_vision"):
        made = made_beside(jobs(40, ODD), slow, 2)
    assert len(made) == 40 and not any(code.tuned for code in made.values())
    said = [record for record in caplog.records if "passed over" in record.message]
    assert [record.name for record in said] == ["tvm_vision.schedules.module"] * 40


def test_a_kernel_that_cannot_be_made_ends_it(started: list[subprocess.Popen[bytes]]) -> None:
    wanted = jobs(6)
    wanted["odd"] = Job("odd", "odd".ljust(64, "_"), "no function" * 1000, None)
    assert set(made_beside(wanted, maker(ON_A_GPU), 2)) < set(wanted)
    assert "odd" not in made_beside(wanted, maker(ON_A_GPU), 2)


def test_what_a_process_had_taken_that_is_gone_is_made_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(module: str) -> Any:
        process, connection = start_python(module)
        process.kill()
        return process, connection

    start_python = beside.start_python
    monkeypatch.setattr(beside, "start_python", start)
    assert len(made_beside(jobs(5), maker(ON_A_GPU), 3)) == 5

    def refused(module: str) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(beside, "start_python", refused)
    assert len(made_beside(jobs(5), maker(ON_A_GPU), 3)) == 5


def test_what_a_process_has_that_is_stopped_is_made_here(
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def start(module: str) -> Any:
        process, connection = start_python(module)
        process.send_signal(signal.SIGSTOP)
        return process, connection

    start_python = beside.start_python
    monkeypatch.setattr(beside, "start_python", start)
    monkeypatch.setattr(beside, "PATIENCE_SECONDS", 0.5)
    slow = _Waits(ON_A_GPU, TargetLimits.of(ON_A_GPU))  # so that the others take some first
    with caplog.at_level(logging.WARNING, "tvm_vision"):
        assert len(made_beside(jobs(6), slow, 3)) == 6
    assert [record.name for record in caplog.records] == [beside.__name__] * 2
    assert len(started) == 2


def test_ctrl_c_ends_them(started: list[subprocess.Popen[bytes]]) -> None:
    class Interrupted(KernelMaker):
        def made(self, job: Job) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made_beside(jobs(4), Interrupted(ON_A_GPU, TargetLimits.of(ON_A_GPU)), 2)
    assert started


def test_none_is_left_where_this_process_is_killed() -> None:
    code = (
        "import os, sys, time\n"
        "from tvm_vision.child_processes import start_python\n"
        "process, connection = start_python('tvm_vision.compiler.kernels.worker')\n"
        "import tvm\n"
        "target = tvm.ir.save_json(tvm.target.Target('llvm'))\n"
        "connection.send((target, None, 30, os.getpid()))\n"
        "connection.send(None)\n"  # no job: an answer says that it listens
        "connection.recv()\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        # It would notice the end of the connection alone, as well.
        os.kill(child, signal.SIGSTOP)
        parent.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not _runs(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the process is left")


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("processors", "kernels", "processes", "with_one_that_waits"),
    [
        (1, 500, 1, 1),
        (2, 500, 2, 2),
        (64, 500, 4, 4),
        (8, 15, 1, 2),
        (8, 16, 2, 2),
        (8, 32, 3, 3),
        (8, 1, 1, 1),
        (8, 0, 1, 1),
    ],
)
def test_there_are_as_many_as_have_work(
    processors: int,
    kernels: int,
    processes: int,
    with_one_that_waits: int,
    monkeypatch: pytest.MonkeyPatch,
    started: list[subprocess.Popen[bytes]],
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with started_ahead(LEAST_OPERATORS) as waiting:
        assert waiting is not None
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
        assert processes_for(kernels) == processes
        assert processes_for(kernels, waiting) == with_one_that_waits


@pytest.mark.parametrize("processes", [2, 3])
def test_one_that_waits_is_the_first_of_them(
    processes: int, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with started_ahead(LEAST_OPERATORS) as waiting:
        assert [process.returncode for process in started] == [None]
        assert len(made_beside(jobs(24), maker(ON_A_GPU), processes, waiting)) == 24
        assert len(started) == processes - 1


def test_none_waits_for_few_operators_or_beside_other_work(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with started_ahead(LEAST_OPERATORS - 1) as waiting:
        assert waiting is None
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with started_ahead(500) as waiting:
        assert waiting is None
    assert not started


def test_one_that_waits_ends_with_an_error(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(KeyboardInterrupt), started_ahead(LEAST_OPERATORS):
        raise KeyboardInterrupt
    assert len(started) == 1
