"""A machine that measures and evaluates for others: TVM's RPC server with our backend, watched
over.

Whoever reaches the port can run any code as this user: it is bound to loopback unless told.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..error_lines import last_line
from ..errors import DeviceError, TuningError
from ..whole_files import ScratchFolder
from .places import ProcessorHere
from .worker import Board, connect, session, use_scratch

LOGGER = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
TARGET_FUNCTION = "tvm_vision.rpc.target"
PROCESSOR_FUNCTION = "tvm_vision.rpc.processor"
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_RESTART = 2.0


def serve(
    *,
    key: str,
    host: str = LOOPBACK,
    port: int = 9090,
    port_end: int = 9199,
    tracker: tuple[str, int] | None = None,
    address: str | None = None,
    tell: Callable[[str], object] = LOGGER.info,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Serve until ``stop`` says so; a server that a candidate brought down is started again.

    key: what boards of this kind are called at the tracker. host: address to bind to.
    port, port_end: the first free port from one to the other is taken.
    tracker: where to register.
    address: what the tracker tells others to connect to, where that is not ``host``.
    tell: called with a line for people.

    Raises TuningError where no port can be bound.
    """
    while not stop():
        with ScratchFolder() as folder:
            server = _start(folder, key, host, port, port_end, tracker, address)
            where = f", registered at {tracker[0]}:{tracker[1]}" if tracker else ""
            tell(f"serving '{key}' at {host}:{server.port}{where}")
            try:
                while not stop() and server.proc.is_alive():
                    time.sleep(SECONDS_BETWEEN_LOOKS)
            finally:
                server.terminate()
        if not stop():
            tell("the server was brought down by what it ran: starting it again")
            time.sleep(SECONDS_TO_RESTART)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to an address. No for a name, but localhost:
    what it stands for may change."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _start(
    folder: Path,
    key: str,
    host: str,
    port: int,
    port_end: int,
    tracker: tuple[str, int] | None,
    address: str | None,
) -> Any:
    from tvm import rpc

    try:
        return rpc.Server(
            host,
            port,
            port_end + 1,  # which TVM does not try
            key=key,
            tracker_addr=tracker,
            custom_addr=address,
            silent=True,
            server_init_callback=partial(announce, str(folder)),
        )
    except Exception as error:
        _need_own_address(host)
        raise TuningError(
            f"a free port from {port} to {port_end} at {host} is needed: {last_line(error)}"
        ) from None


def _need_own_address(host: str) -> None:
    """Raise TuningError where ``host`` is no address that this machine can listen at."""
    try:
        with socket.create_server((host, 0), family=socket.getaddrinfo(host, 0)[0][0]):
            pass
    except OSError as error:
        raise TuningError(
            f"an address of this machine is needed to listen at, and '{host}' is none "
            f"({error.strerror or last_line(error)}): 'ip -brief address' lists them"
        ) from None


def announce(folder: str) -> None:
    """In the server: the backend, a function that tells what to compile for, those that run whole
    packages, and a scratch folder for temporary files."""
    import tvm_ffi

    import tvm_vision.vulkan  # noqa: F401

    from ..evaluate import on_board

    _end_with_who_started_it()
    _end_with_what_listens()
    use_scratch(folder)
    tvm_ffi.register_global_func(TARGET_FUNCTION, target_json, override=True)
    tvm_ffi.register_global_func(
        PROCESSOR_FUNCTION, lambda: ProcessorHere.ask().to_json(), override=True
    )
    on_board.register()


def _end_with_who_started_it() -> None:
    """A server whose watcher was killed would go on, unseen, and keep its port (prctl(2))."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _end_with_what_listens() -> None:
    """A session that crashes ends the server's thread that listens, and not the server: nobody
    would see that it serves no more."""
    serving = os.getpid()

    def end(error: threading.ExceptHookArgs) -> None:
        if os.getpid() == serving:
            os._exit(1)
        threading.__excepthook__(error)

    threading.excepthook = end


def target_json(spelling: str) -> str:
    """JSON of what a target ("auto", "vulkan", "llvm", ...) is on this machine.

    Raises DeviceError where there is no such device.
    """
    from ..compiler import parse_target

    return str(parse_target(spelling))


def count_boards(host: str, port: int, key: str) -> int:
    """How many boards of a key wait at a tracker.

    Raises TuningError where the tracker does not answer, or has none of them.
    """
    try:
        infos = connect(host, port).summary()["server_info"]
    except Exception as error:
        raise TuningError(
            f"an RPC tracker at {host}:{port} is needed, and none answers ({error}): start one "
            "with python -m tvm.exec.rpc_tracker"
        ) from None
    found = sum(info["key"] == f"server:{key}" for info in infos)
    if not found:
        others = sorted({info["key"].partition(":")[2] for info in infos})
        raise TuningError(
            f"a board with the key '{key}' is needed at {host}:{port}, found "
            f"{', '.join(others) or 'none'}: start tvm-vision rpc-server on it"
        )
    return found


def remote_target(host: str, port: int, key: str, spelling: str = "vulkan") -> dict[str, Any]:
    """What a target is on a board behind a tracker.

    Raises DeviceError where the board has no such device, or does not tell.
    """
    try:
        with session(Board(host, port, key)) as remote:
            found = json.loads(str(remote.get_function(TARGET_FUNCTION)(spelling)))
    except Exception as error:
        raise DeviceError(
            f"a board '{key}' that tells what '{spelling}' is on it is needed "
            f"({last_line(error)}): start tvm-vision rpc-server on it, or pass "
            "--target as JSON"
        ) from None
    return dict(found)


def remote_processor(host: str, port: int, key: str) -> ProcessorHere:
    """What the processor of a board behind a tracker is called, and how many threads it uses.

    Raises DeviceError where the board does not tell.
    """
    try:
        with session(Board(host, port, key)) as remote:
            return ProcessorHere.from_json(str(remote.get_function(PROCESSOR_FUNCTION)()))
    except Exception as error:
        raise DeviceError(
            f"a board '{key}' that tells what its processor is, is needed ({last_line(error)}): "
            "start tvm-vision rpc-server of this version on it"
        ) from None
