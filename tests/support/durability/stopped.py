"""A command of tvm-vision that is stopped at a write, in a process that is forked for it.

A write is what Python asks the system for that changes files (its audit events).
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
# Signals that ask a program to end.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ELSEWHERE = ("/dev/", "/proc/", "/sys/")


class Stop:
    """Counts writes, and stops the process at one of them."""

    def __init__(self, at: int, delay: float, way: str) -> None:
        self.at, self.delay, self.way, self.count = at, delay, way, 0
        self.process = os.getpid()

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self._is_write(event, arguments) or os.getpid() != self.process:
            return
        self.count += 1
        if not self.at or self.count < self.at:
            return
        # A full disk takes names away as before.
        if self.way == "full" and event not in ("os.remove", "os.rmdir", "os.rename"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.way == "kill" and self.count == self.at:
            if not self.delay:
                os.kill(os.getpid(), signal.SIGKILL)
            # Whose default action ends the process as a kill does, in whatever it is then.
            signal.setitimer(signal.ITIMER_REAL, self.delay)
        if self.way in SIGNALS and self.count == self.at:
            send = threading.Timer(self.delay, os.kill, (self.process, signal.Signals[self.way]))
            send.daemon = True
            send.start()

    @staticmethod
    def _is_write(event: str, arguments: tuple) -> bool:
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & WRITES) or bool(set(mode or "") & set("wax+"))
            return writes and not str(path).startswith(ELSEWHERE)
        return event in CHANGES


def import_all() -> None:
    """What the commands import, so that not each of them has to."""
    import importlib
    import warnings

    import tvm_vision.tools.cli  # noqa: F401

    warnings.simplefilter("ignore", DeprecationWarning)  # of forking
    for name in (
        *("cv2", "onnx", "onnxruntime", "onnxsim", "tvm", "tvm.relax.frontend.onnx", "rosbags"),
        *(f"tvm_vision.{room}" for room in ("api", "compiler", "tuning.session", "models")),
        *("tvm_vision.runtime.graph_executor", "tvm_vision.frontend.onnx.quantize"),
    ):
        importlib.import_module(name)


def stop(command: list[str], at: int, delay: float, way: str) -> NoReturn:
    """Run a command and end the process with it, stopped at a write.

    At the one of number ``at``, or ``delay`` seconds after it, the process is killed (way "kill"),
    or asked to end by the signal of that name; or the disk is full from then on ("full"). At 0
    stops nothing, and says on the last line of standard error how many writes there were.
    """
    from tvm_vision.tools.cli import main as tvm_vision

    stop = Stop(at, delay, way)
    sys.addaudithook(stop)
    # As in a terminal, also where the tests run in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        tvm_vision(command, prog_name="tvm-vision")
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    if not stop.at:
        print(stop.count, file=sys.stderr)
    # As at the end of a program, for what is done then, which os._exit leaves out.
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)
