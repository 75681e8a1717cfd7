"""Loads, runs and unloads a network under a limit of address space: see test_memory.py.

Arguments: the folder of ``faults.write_network``, which network of it, and MiB that the process may
take beyond what it has once all is imported. Prints what came of it: "right", "wrong" or the
error's line.
"""

from __future__ import annotations

import os
import resource
import sys

import numpy as np

import tvm_vision
from tvm_vision.errors import TvmVisionError

# Imports are not what is tried.
from tvm_vision.package import read_package  # noqa: F401
from tvm_vision.runtime import graph_executor, loader, recovering  # noqa: F401


def limit(mib: int) -> None:
    with open("/proc/self/statm") as stream:
        pages = int(stream.read().split()[0])
    allowed = pages * os.sysconf("SC_PAGE_SIZE") + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def main() -> None:
    folder, package, mib = sys.argv[1:]
    x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
    limit(int(mib))
    try:
        for _ in range(2):
            executor = tvm_vision.load(f"{folder}/{package}")
            (output,) = executor.frame({0: x}).values()
            if not np.allclose(output, y, rtol=1e-4, atol=1e-5):
                print("wrong")
                return
            del executor
        print("right")
    except (TvmVisionError, MemoryError, OSError, ImportError) as error:
        print(f"{type(error).__name__}: {error}")


main()
