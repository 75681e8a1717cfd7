"""Loads, runs and unloads a network again and again while Vulkan's calls fail: see test_faults.py.

Arguments: a package for Vulkan, a folder with x.npy and y.npy, the loader that fails, "each" or
"all". The environment says that TVM_VISION_VULKAN_LOADER is that loader. Prints a line of JSON for
each fault: the function, what failed of it, and what each step came to.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tvm_vision
import tvm_vision.vulkan as vulkan
from tvm_vision.errors import TvmVisionError

DEVICE_LOST, OUT_OF_HOST_MEMORY = -4, -1
FOREVER = 1 << 40
FUNCTIONS = (
    "vkCreateInstance", "vkEnumeratePhysicalDevices", "vkEnumerateDeviceExtensionProperties",
    "vkCreateDevice", "vkDeviceWaitIdle", "vkQueueSubmit", "vkAllocateMemory", "vkMapMemory",
    "vkCreateBuffer", "vkBindBufferMemory", "vkCreateCommandPool", "vkResetCommandPool",
    "vkAllocateCommandBuffers", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkCreateQueryPool",
    "vkGetQueryPoolResults", "vkCreateSemaphore", "vkWaitSemaphores", "vkGetSemaphoreCounterValue",
    "vkCreateShaderModule", "vkCreateDescriptorSetLayout", "vkCreatePipelineLayout",
    "vkCreateComputePipelines", "vkCreatePipelineCache", "vkGetPipelineCacheData",
    "vkCreateDescriptorPool", "vkAllocateDescriptorSets",
)  # fmt: skip


class Network:
    """One life of an executor, step by step; after one that fails the next has its turn."""

    def __init__(self, package: str, folder: str) -> None:
        self._package = package
        self._x, self._y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
        self._executor: Any = None
        self._tickets: list[int] = []

    def live(self) -> dict[str, str]:
        """What each step came to: "right", "wrong" or the error's line."""
        steps: dict[str, Callable[[], object]] = {
            "load": self._load,
            "run": lambda: self._executor.run(input=self._x),
            "output of run": self._compare,
            "submit": self._submit,
            "submit another": self._submit,
            "unload in flight": self._drop,
            "load again": self._load,
            "first": self._submit,
            "second": self._submit,
            "wait": lambda: self._executor.wait(self._tickets[-2]),
            "output of wait": self._compare,
            "profile": lambda: self._executor.profile(repeat=1, warmup=0),
            "output of profile": self._compare,
            "unload": self._drop,
            "shutdown": vulkan.shutdown,
        }
        return {name: self._try(step) for name, step in steps.items()}

    def _try(self, step: Callable[[], object]) -> str:
        try:
            return "wrong" if step() is False else "right"
        except TvmVisionError as error:
            return f"{type(error).__name__}: {error}"
        except (AttributeError, IndexError):
            return "skipped"  # there is no executor, or no frame
        except Exception as error:
            return f"unexpected {type(error).__name__}: {error}"

    def _load(self) -> None:
        self._tickets = []
        self._executor = tvm_vision.load(self._package)

    def _submit(self) -> None:
        self._executor.set_input(0, self._x)
        self._tickets.append(self._executor.submit())

    def _compare(self) -> bool:
        return np.allclose(self._executor.get_output(0).numpy(), self._y, rtol=1e-4, atol=1e-5)

    def _drop(self) -> None:
        self._executor = None


class Faults:
    """The loader that fails; see tests/vulkan/cpp/faulty_loader.cc."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.faulty_failed_name.restype = ctypes.c_char_p

    def arm(self, name: str, first: int = FOREVER, count: int = 0, result: int = 0) -> None:
        self._library.faulty_arm(
            name.encode(), ctypes.c_long(first), ctypes.c_long(count), ctypes.c_int(result)
        )

    def seen(self) -> int:
        return int(self._library.faulty_seen())

    def failed(self) -> str:
        return self._library.faulty_failed_name().decode()


def plans(network: Network, faults: Faults, which: str) -> Iterator[tuple[str, int, int, int]]:
    """Function, number of the first call that fails, how many, and what they give."""
    for name in FUNCTIONS if which == "each" else ("*",):
        faults.arm(name)
        network.live()
        calls = faults.seen()
        numbers = {1, calls} if which == "each" else range(1, calls + 1)
        for number in sorted(numbers):
            if number <= calls:
                yield name, number, 1, OUT_OF_HOST_MEMORY
                yield name, number, FOREVER, DEVICE_LOST


def main() -> None:
    package, folder, loader, which = sys.argv[1:]
    network, faults = Network(package, folder), Faults(loader)
    assert set(network.live().values()) == {"right"}, network.live()
    for name, number, count, result in plans(network, faults, which):
        faulthandler.dump_traceback_later(60, exit=True)
        faults.arm(name, number, count, result)
        met = network.live()
        failed = faults.failed()
        faults.arm(name)
        after = network.live()
        line = {"call": [name, number, count, result], "failed": failed, "met": met, "after": after}
        print(json.dumps(line), flush=True)
    faulthandler.cancel_dump_traceback_later()


main()
