"""Work in a thread beside the caller's: done once, by whichever can."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
from typing import Any

import pytest

from tvm_vision.side_threads import meanwhile


def test_it_is_done_once_and_waited_for() -> None:
    done: list[int] = []
    wait = meanwhile(done.append, 1)
    wait()
    wait()
    assert done == [1]


def refuse(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def die(*_: object) -> None:
    """As a thread does that found no memory for its first step: it is told on standard error."""


@pytest.mark.parametrize("start", [refuse, die])
def test_without_a_thread_it_is_done_by_who_waits(start: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", start)
    done: list[int] = []
    wait = meanwhile(lambda: done.append(threading.get_ident()))
    wait()
    assert done == [threading.get_ident()]


def test_a_wait_may_have_a_limit(monkeypatch: Any) -> None:
    goes_on = threading.Event()
    wait = meanwhile(goes_on.wait, 30, daemon=True)
    assert not wait(0.1)
    goes_on.set()
    assert wait(10) and wait()
    monkeypatch.setattr(_thread, "start_new_thread", die)
    done: list[int] = []
    assert meanwhile(done.append, 1)(5) and done == [1]


def test_an_error_does_not_hold_up_who_waits(monkeypatch: Any) -> None:
    def fail() -> None:
        going.set()
        raise ValueError("in the thread")

    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: told.append(about.exc_value))
    going = threading.Event()
    wait = meanwhile(fail)
    going.wait(10)
    wait()
    assert [str(error) for error in told] == ["in the thread"]


@pytest.mark.parametrize(("daemon", "ends"), [(False, "slept\n"), (True, "")])
def test_the_interpreter_waits_for_what_is_no_daemon(daemon: bool, ends: str) -> None:
    code = (
        "import time, threading; from tvm_vision.side_threads import meanwhile\n"
        "going = threading.Event()\n"
        "def work(): going.set(); time.sleep(0.5); print('slept', flush=True)\n"
        f"meanwhile(work, daemon={daemon}); going.wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, ends, "")
