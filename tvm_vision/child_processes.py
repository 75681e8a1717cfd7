"""Processes of Python that work for this one, over a connection that ends them."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1


def start_python(module: str, **variables: str) -> tuple[subprocess.Popen[bytes], Any]:
    """A process that runs a module, whose argument is the number of its end of the connection that
    is returned; Ctrl-C in a terminal is not for it. variables: of its environment, beside this
    process's. Raises OSError.
    """
    ours, theirs = Pipe()
    environment = {
        **os.environ,
        **variables,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        # No files of the current folder in place of modules.
        "PYTHONSAFEPATH": "1",
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    finally:
        theirs.close()
    return process, ours


def end_with(parent: int) -> None:
    """Have this process end with the thread that started it, in a process of this number, however
    that ends; by the connection alone it would know when its work is done."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it is gone already
        os.kill(os.getpid(), signal.SIGKILL)


def end_without(connection: Connection) -> None:
    """Have this process end once nobody is at the other end of a connection, also amid its work: by
    itself it would know when that is done, which may be never. Whichever thread started it may end
    before."""

    def watch() -> None:
        waiting = select.poll()
        waiting.register(connection.fileno(), 0)  # of no data: an end that is closed is said anyway
        waiting.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
