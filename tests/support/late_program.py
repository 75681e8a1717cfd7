"""A thread that opens a device ahead comes too late, when devices were let go already.

Argument: the folder of the loader that counts devices. Prints how many are open where the thread
comes in time, and where it does not.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import tvm_vision.vulkan as vulkan
from support.failing_loader import Loader

loader = Loader(f"{sys.argv[1]}/libfaulty_loader.so")


class Held(threading.Thread):
    """A thread that begins where it is released."""

    made: list[Held]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.made.append(self)

    def start(self) -> None:
        """Nothing yet."""

    def release(self) -> None:
        super().start()
        self.join(30)


def opened(is_late: bool) -> int:
    Held.made = []
    vulkan.begin_to_open_device()
    if is_late:
        vulkan.shutdown()
    Held.made[0].release()
    found = loader.devices()
    vulkan.shutdown()
    return found


threading.Thread = Held  # type: ignore[assignment, misc]
print(json.dumps([opened(False), opened(True)]))
