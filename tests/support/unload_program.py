"""Loads and unloads packages again and again and says by how much the process grew.

Arguments: the packages, with colons between; how many times each; "run" or "load" (no frame).
Prints JSON: kibibytes of the C heap and of private memory, and numbers of mappings, descriptors,
threads and Python objects, each by how much it grew in the quarter of the times in which it grew
least.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import time
from itertools import pairwise

import numpy as np

import tvm_vision

WARM_UP = 15
PARTS = 4
MOMENTS = 5
LIBC = ctypes.CDLL(None)
LIBC.open_memstream.restype = ctypes.c_void_p


def heap() -> int:
    """Bytes in use in all arenas of malloc, as malloc_info(3) has them."""
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(LIBC.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    LIBC.malloc_info(0, stream)
    LIBC.fclose(stream)
    assert text.value is not None
    total = text.value.decode().rpartition("</heap>")[2]
    LIBC.free(text)

    def summed(pattern: str) -> int:
        return sum(int(number) for number in re.findall(pattern, total))

    taken = summed(r'<system type="current" size="(\d+)"')
    taken += summed(r'type="mmap" count="\d+" size="(\d+)"')
    return taken - summed(r'type="(?:fast|rest)" count="\d+" size="(\d+)"')


def settled() -> dict[str, int]:
    """The least of some moments: a worker holds its last task until it has waited for the next."""
    moments = []
    for _ in range(MOMENTS):
        moments.append(measured())
        time.sleep(0.02)
    return {name: min(moment[name] for moment in moments) for name in moments[0]}


def measured() -> dict[str, int]:
    gc.collect()
    LIBC.malloc_trim(0)
    with open("/proc/self/smaps_rollup") as stream:
        anonymous = re.search(r"Anonymous:\s+(\d+)", stream.read())
    assert anonymous is not None
    with open("/proc/self/maps") as stream:
        mappings = len(stream.readlines())
    return {
        "heap": heap() // 1024,
        "memory": int(anonymous[1]),
        "mappings": mappings,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "objects": len(gc.get_objects()),
    }


def main() -> None:
    packages, times, way = sys.argv[1].split(":"), int(sys.argv[2]), sys.argv[3]

    def cycle() -> None:
        for package in packages:
            use(package)

    def use(package: str) -> None:
        executor = tvm_vision.load(package)
        wanted = executor.info["inputs"][0]
        executor.set_input(0, np.zeros(wanted["shape"], wanted["dtype"]))
        if way == "run":
            executor.run()
            executor.outputs()

    for _ in range(WARM_UP):
        cycle()
    found = [settled()]
    for _ in range(PARTS):
        for _ in range(times // PARTS):
            cycle()
        found.append(settled())
    # A table of the interpreter or of malloc grows once; what leaks grows in every part.
    grown = {name: [b[name] - a[name] for a, b in pairwise(found)] for name in found[0]}
    print(json.dumps({name: min(parts) for name, parts in grown.items()}))


main()
