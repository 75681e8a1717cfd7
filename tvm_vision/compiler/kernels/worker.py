"""A process that makes kernels for another one: see ``beside``, which starts it.

It is told the target once, and then one kernel at a time; a kernel that it cannot make is left to
the other process, which says why.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from multiprocessing.connection import Connection

import tvm

from ...child_processes import end_with
from ...collecting import collected_seldom
from ...tvm_compat.kept_types import keep_types
from ...tvm_compat.llvm_functions import exact_functions
from ...tvm_compat.relax import quiet_take
from .maker import KernelMaker, Said


def serve(connection: Connection) -> None:
    """Make kernels until nobody asks any more."""
    target, limits, level, parent = connection.recv()
    end_with(parent)
    keep_types()
    quiet_take()
    exact_functions()
    said = Said()
    logger = logging.getLogger(__package__.partition(".")[0])
    logger.addHandler(said)
    logger.setLevel(level)
    maker = KernelMaker(tvm.ir.load_json(target), limits)
    while True:
        job = connection.recv()
        try:
            code = maker.made(job).to_bytes()
        except Exception:  # the other process meets it, too
            code = None
        connection.send((code, said.taken()))


def main() -> None:
    """The argument is the number of the connection."""
    with collected_seldom(), contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
