"""Checks in a child process, which a driver may end or hold up: what it said until then counts.

The child writes lines of JSON into a pipe: the name of a step that begins, then what it found.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..error_lines import lines_of
from .finding import Machine

# Seconds for all steps of a child: a compilation on a slow processor, and not a driver that hangs.
PATIENCE = 90.0
# Seconds for a child that was killed to be gone.
ENDING = 2.0
# With the parent's path: a folder that happens to be the current one is not looked into.
PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from tvm_vision.doctor.steps import main
main()
"""


@dataclass
class Told:
    """What a child said: its findings in order, the step that it did not end, and how it ended.

    end: one line; "" where it came to its end.
    """

    said: list[dict[str, Any]] = field(default_factory=list)
    step: str = ""
    end: str = ""


def ask(machine: Machine, steps: str, arguments: Sequence[str], patience: float = PATIENCE) -> Told:
    """Run ``steps`` of the child's program, at most so many seconds."""
    reads, writes = os.pipe()
    command = [
        *(sys.executable, "-c", PROGRAM, json.dumps(sys.path)),
        *(str(writes), steps, str(machine.root), *arguments),
    ]
    # Compiling is tried as well: without it there is nothing to run.
    environment = {k: v for k, v in machine.environment.items() if k != "TVM_USE_RUNTIME_LIB"}
    with os.fdopen(reads, "rb") as pipe:
        try:
            process = subprocess.Popen(
                command, env=environment, pass_fds=(writes,), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writes)
        try:
            _, errors = process.communicate(timeout=patience)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(process)
        if late:
            # Not for ever: a process that waits in the driver's kernel part takes no SIGKILL, and
            # one that it started may have left its session and keep the pipes open.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=ENDING)
        os.set_blocking(pipe.fileno(), False)
        told = _told(pipe.read() or b"")
    if late:
        told.end = f"it did not answer within {patience:g} s"
    elif process.returncode:
        told.end = _ended(process.returncode, errors.decode(errors="replace"))
    return told


def _end(process: subprocess.Popen[bytes]) -> None:
    """The child, and what it may have started, which has its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def _ended(code: int, errors: str) -> str:
    last = lines_of(errors)[-1:]
    said = f" ({last[0]})" if last else ""
    if code < 0:
        return f"the process was ended by {signal.Signals(-code).name}{said}"
    return f"the process ended with exit code {code}{said}"


def _told(output: bytes) -> Told:
    told = Told()
    for line in output.splitlines():
        # The last one may be half a line.
        try:
            said = json.loads(line)
        except ValueError:
            break
        if "begins" in said:
            told.step = said["begins"]
        else:
            told.said.append(said)
    return told
