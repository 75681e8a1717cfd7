"""How long a fresh process takes to its first result: TVM's runtime alone, caches warm.

Python's bytecode is one of them: pip writes it for what it installs, while this comparison may run
from a checkout, and where PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from .engine import Unusable
from .processes import ROOT

TRIES = 3
LIMIT_SECONDS = 60
# As a user's program would do it.
PROGRAM = """
import sys, numpy
import tvm_vision
with numpy.load(sys.argv[2]) as data:
    image = data["image"]
executor = tvm_vision.load(sys.argv[1])
executor.set_input(0, image)
executor.run()
results = list(executor.outputs().values())
print("done", float(results[0].ravel()[0]), flush=True)
"""
# What no program in Python that hands arrays to Vulkan can do without: VkInstanceCreateInfo,
# VkDeviceQueueCreateInfo and VkDeviceCreateInfo with nothing in them but one queue.
BARE = """
import ctypes, numpy
from ctypes import byref, c_float, c_int, c_uint, c_void_p
class Instance(ctypes.Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_int), ("application", c_void_p),
                ("layers", c_uint), ("layer_names", c_void_p),
                ("extensions", c_uint), ("extension_names", c_void_p)]
class Queue(ctypes.Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_int), ("family", c_uint),
                ("count", c_uint), ("priorities", c_void_p)]
class Device(ctypes.Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_int),
                ("queues", c_uint), ("queue_infos", c_void_p),
                ("layers", c_uint), ("layer_names", c_void_p),
                ("extensions", c_uint), ("extension_names", c_void_p), ("features", c_void_p)]
vulkan = ctypes.CDLL("libvulkan.so.1")
instance, physical, device, count = c_void_p(), c_void_p(), c_void_p(), c_uint(1)
assert vulkan.vkCreateInstance(byref(Instance(type=1)), None, byref(instance)) == 0
assert vulkan.vkEnumeratePhysicalDevices(instance, byref(count), byref(physical)) >= 0
priority = c_float(1)
queue = Queue(type=2, count=1, priorities=ctypes.addressof(priority))
info = Device(type=3, queues=1, queue_infos=ctypes.addressof(queue))
assert vulkan.vkCreateDevice(physical, byref(info), None, byref(device)) == 0
print("done", flush=True)
"""


def first_result_seconds(package: Path, example: Path) -> float:
    """From the start of the process to its first result, the median of several starts.

    Raises Unusable where the program fails.
    """
    return _seconds(PROGRAM, str(package), str(example))


def bare_process_seconds() -> float:
    """From the start of a process that imports numpy and opens a Vulkan device until it has it.

    The same way; no program for TVM's runtime in Python takes less. Raises Unusable.
    """
    return _seconds(BARE)


def _seconds(program: str, *arguments: str) -> float:
    environment = {
        **os.environ,
        "TVM_USE_RUNTIME_LIB": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": _bytecode().name,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    times = []
    for _ in range(1 + TRIES):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT,
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        times.append(time.perf_counter() - start)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
        if not line.startswith("done"):
            raise Unusable(" ".join(errors.split())[-300:])
    # The first one fills the caches.
    return float(np.median(times[1:]))


@lru_cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """Where all programs of this process keep their bytecode."""
    return tempfile.TemporaryDirectory(prefix="bytecode-")
