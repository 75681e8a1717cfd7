"""A thread that opens a device ahead comes too late, when devices were let go already.

Argument: the folder of the loader that counts devices. Prints how many are open where the thread
comes in time, and where it does not.
"""

from __future__ import annotations

import _thread
import json
import sys
from collections.abc import Callable

import tvm_vision.vulkan as vulkan
from support.failing_loader import Loader

loader = Loader(f"{sys.argv[1]}/libfaulty_loader.so")


held: list[Callable[[], object]] = []


def hold(work: Callable[[], object], _: object) -> None:
    """A thread that begins where it is released."""
    held.append(work)


def opened(is_late: bool) -> int:
    vulkan.begin_to_open_device()
    if is_late:
        vulkan.shutdown()
    held.pop()()
    found = loader.devices()
    vulkan.shutdown()
    return found


_thread.start_new_thread = hold  # type: ignore[assignment]
print(json.dumps([opened(False), opened(True)]))
