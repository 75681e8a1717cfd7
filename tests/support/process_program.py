"""What one process does for test_processes.py.

Arguments: a folder with network.tar, x.npy and y.npy, and what to do. Prints a line for each thing
that was found.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from typing import Any

import numpy as np

import tvm_vision
import tvm_vision.vulkan as vulkan
from tvm_vision.errors import DeviceError, TvmVisionError

FRAMES = 20


def right(folder: str, executor: Any = None) -> bool:
    """Whether some frames of the network are, on an executor or one of their own."""
    executor = executor or tvm_vision.load(f"{folder}/network.tar")
    x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
    first: bytes | None = None
    for _ in range(FRAMES):
        (output,) = executor.frame({0: x}).values()
        first = first or output.tobytes()
        if output.tobytes() != first or not np.allclose(output, y, rtol=1e-4, atol=1e-5):
            return False
    return True


def tell(folder: str, way: str) -> None:
    """In a child."""
    try:
        words = "right" if right(folder) else "wrong"
    except DeviceError as error:
        words = "refused" if "multiprocessing's method spawn" in str(error) else str(error)
    print(f"{way}: {words}", flush=True)


def run(folder: str) -> None:
    print("right" if right(folder) else "wrong")


def children(folder: str) -> None:
    executor = tvm_vision.load(f"{folder}/network.tar")
    for way in ("spawn", "fork"):
        context: Any = multiprocessing.get_context(way)
        child = context.Process(target=tell, args=(folder, way))
        child.start()
        child.join(60)
        assert child.exitcode == 0, child.exitcode
    print("parent:", "right" if right(folder, executor) else "wrong")


def children_on_the_processor(folder: str) -> None:
    """By fork: threads that share kernels stay behind in the parent."""
    executor = tvm_vision.load(f"{folder}/processor.tar")
    right(folder, executor)
    context: Any = multiprocessing.get_context("fork")
    for given in (executor, None):
        child = context.Process(target=tell_on_the_processor, args=(folder, given))
        child.start()
        child.join(30)
        child.kill()
        assert child.exitcode == 0, "the child waits for threads that it has not"
    print("parent:", "right" if right(folder, executor) else "wrong")


def tell_on_the_processor(folder: str, executor: Any) -> None:
    words = "kept" if executor else "loaded"
    executor = executor or tvm_vision.load(f"{folder}/processor.tar")
    print(f"{words}:", "right" if right(folder, executor) else "wrong", flush=True)


def fork_first(folder: str) -> None:
    if (child := os.fork()) == 0:
        tell(folder, "child")
        vulkan.shutdown()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tell(folder, "parent")


def end(folder: str) -> None:
    right(folder)
    print("ending", flush=True)


def end_in_a_thread(folder: str) -> None:
    """While a daemon runs frames."""
    executor = tvm_vision.load(f"{folder}/network.tar")
    x, began = np.load(f"{folder}/x.npy"), threading.Event()

    def work() -> None:
        while True:
            executor.frame({0: x})
            began.set()

    threading.Thread(target=work, daemon=True).start()
    began.wait(30)
    print("ending", flush=True)


def end_in_flight(folder: str) -> None:
    """With two frames on the device, in an executor that is never let go."""
    executor = tvm_vision.load(f"{folder}/network.tar")
    x = np.load(f"{folder}/x.npy")
    for _ in range(2):
        executor.set_input(0, x)
        executor.submit()
    sys.modules["kept"] = executor  # type: ignore[assignment]
    print("ending", flush=True)


def end_loading(folder: str) -> None:
    """While a daemon loads networks."""

    def work() -> None:
        while True:
            try:
                tvm_vision.load(f"{folder}/network.tar")
            except (OSError, RuntimeError, TvmVisionError):
                # At its end Python itself takes temporary folders away, and starts no threads.
                if threading.main_thread().is_alive():
                    raise

    threading.Thread(target=work, daemon=True).start()
    right(folder)
    print("ending", flush=True)


def devices(folder: str) -> None:
    """A network on each of two devices, in turns, and copies from one to the other."""
    from tvm_vision.package import read_package
    from tvm_vision.runtime import graph_executor
    from tvm_vision.runtime.library import load_library
    from tvm_vision.runtime.loader import _weights
    from tvm_vision.tvm_compat.ffi import tvm_ffi

    print(len(vulkan.devices()), "devices")
    package = read_package(f"{folder}/network.tar")
    library = load_library(package.library_path)
    executors = []
    for number in range(2):
        device = tvm_ffi.device("vulkan", number)
        executor = graph_executor.create(package.info.to_json(), library, device)
        executor.load_params(_weights(package))
        executors.append(executor)
    threads_found: list[bool] = []
    threads = [
        threading.Thread(target=lambda e=e: threads_found.append(right(folder, e)))
        for e in executors
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("right" if threads_found == [True, True] else threads_found)
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromTo")
    x = np.load(f"{folder}/x.npy")
    on = [
        allocate(
            tvm_ffi.Shape(x.shape), tvm_ffi.dtype("float32"), tvm_ffi.device("vulkan", n), None
        )
        for n in range(2)
    ]
    back = np.zeros_like(x)
    copy(tvm_ffi.from_dlpack(x), on[0])
    copy(on[0], on[1])
    copy(on[1], tvm_ffi.from_dlpack(back))
    print("copies", "right" if (back == x).all() else "wrong")
    del executor, threads, executors[0]
    print("lost one, the other", "right" if right(folder, executors[0]) else "wrong")


WHAT = {
    "run": run,
    "children": children,
    "children on the processor": children_on_the_processor,
    "fork first": fork_first,
    "exit": end,
    "exit in a thread": end_in_a_thread,
    "exit in flight": end_in_flight,
    "exit loading": end_loading,
    "devices": devices,
}

if __name__ == "__main__":
    WHAT[sys.argv[2]](sys.argv[1])
