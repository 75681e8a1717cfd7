"""A driver that does not answer while it is opened, or opened anew: see test_no_device.py.

Arguments: a folder of ``faults.write_to_lose``, the function of Vulkan's that does not return, and
"load" or "lost". Prints what loading, or a frame whose device is lost, came to, twice.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tvm_vision
from support.failing_loader import FOREVER, HANG, Loader
from support.vulkan_results import VALUES
from tvm_vision.errors import DeviceError
from tvm_vision.runtime import recovery
from tvm_vision.runtime.recovering import RecoveringExecutor
from tvm_vision.vulkan import device


def main() -> None:
    device.OPENING_SECONDS = 2.0
    recovery.PAUSE = 0.0
    folder, function, when = Path(sys.argv[1]), *sys.argv[2:]
    loader = Loader(str(folder / "libfaulty_loader.so"))
    work: Any = lambda: tvm_vision.load(folder / "network.tar")  # noqa: E731
    if when == "lost":
        executor, x = work(), np.load(folder / "x.npy")
        work = lambda: executor.frame({0: x})  # noqa: E731
        work()
        reopen = RecoveringExecutor._reopen

        def silently(self: Any, reason: str) -> None:
            loader.arm(function, 1, FOREVER, HANG)
            reopen(self, reason)

        RecoveringExecutor._reopen = silently  # type: ignore[method-assign]
        loader.arm("vkQueueSubmit", 1, 1, VALUES["VK_ERROR_DEVICE_LOST"])
    else:
        loader.arm(function, 1, FOREVER, HANG)
    for _ in range(2):
        try:
            work()
            print("it went well")
        except DeviceError as error:
            print(error)


main()
