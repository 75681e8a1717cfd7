"""What this machine's Vulkan devices report, to tell whether they are the same as before.

A process that has TVM asks them itself. Otherwise one with TVM's runtime library alone does, which
takes a third of what importing TVM would.
"""

from __future__ import annotations

import contextlib
import json
import sys
from multiprocessing.connection import Connection
from typing import Any

from ..child_processes import start_python
from ..errors import TvmVisionError

# Seconds; a driver that takes longer is waited for, and named, by who compiles for it.
PATIENCE = 20.0


def facts() -> list[Any] | None:
    """All that each device reports, in order, as JSON has it; None where that cannot be told."""
    if "tvm_vision.vulkan" in sys.modules:
        try:
            return _facts()
        except TvmVisionError:
            return None
    try:
        process, connection = start_python(__name__, TVM_USE_RUNTIME_LIB="1")
    except OSError:
        return None
    found = None
    with connection, contextlib.suppress(EOFError, OSError):
        if connection.poll(PATIENCE):
            found = connection.recv()
    process.kill()
    process.wait()
    return found


def _facts() -> list[Any]:
    from .. import vulkan

    found: list[Any] = json.loads(json.dumps([device.properties for device in vulkan.devices()]))
    return found


def main() -> None:
    """The argument is the number of the connection. Ends with it, and where a driver fails."""
    with contextlib.suppress(BrokenPipeError, TvmVisionError):
        Connection(int(sys.argv[1])).send(_facts())


if __name__ == "__main__":
    main()
