"""The device, tried: found, copied to, timed, and a tiny network on it held against the processor.

Runs in a child (steps.py), for a driver may end the process. Each step is a generator of findings.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..errors import PackageError
from .finding import FAIL, OK, WARN, Finding, Machine
from .gpus import expected
from .tiny_network import SIZE, compiled, reference

if TYPE_CHECKING:
    from ..runtime.graph_executor import GraphExecutor

# Bytes copied to the device and back.
COPIED = 16 << 20
COPIES = 3  # the first opens the device and gets the memory
# Largest error of the tiny network's outputs, relative to the largest of them; fp32 has 24 bits.
TOLERANCE = 1e-4
LOADER = "libvulkan.so.1"


def load_native(machine: Machine) -> Iterator[Finding]:
    """Load TVM and the native library."""
    from .. import vulkan

    used = vulkan.backend_in_use()
    yield Finding("backend", OK, f"{used} is registered with TVM for vulkan")


def load_loader(machine: Machine) -> Iterator[Finding]:
    """Open the Vulkan loader and ask for its version."""
    from .. import vulkan

    options = vulkan.device_options()
    path = options["TVM_VISION_VULKAN_LOADER"] or LOADER
    try:
        version = _loader_version(path)
    except (OSError, AttributeError):
        # It has the words for what is wrong with a loader.
        reason = vulkan.status() or f"{path} cannot be loaded; apt install libvulkan1"
        yield Finding.of_message("loader", FAIL, reason)
        return
    yield Finding("loader", OK, f"{path}, Vulkan {version}")


def _loader_version(path: str) -> str:
    packed = ctypes.c_uint32()
    # Of Vulkan 1.1 and later; older loaders are too old for us.
    ctypes.CDLL(path).vkEnumerateInstanceVersion(ctypes.byref(packed))
    value = packed.value
    return f"{value >> 22 & 0x7F}.{value >> 12 & 0x3FF}.{value & 0xFFF}"


def find_devices(machine: Machine) -> Iterator[Finding]:
    """List the devices; the first one has to be a GPU where there is one."""
    from .. import vulkan

    found = vulkan.devices()
    if not found:
        yield Finding.of_message("device", FAIL, vulkan.status())
        return
    first, gpus = found[0], expected(machine)
    if not first.is_cpu:
        yield Finding("device", OK, first.describe())
    elif gpus:
        yield Finding(
            "device", FAIL, f"{first.describe()}, and this machine has one: {gpus[0].name}",
            f"{gpus[0].install}; see 'device nodes' above, and VK_DRIVER_FILES",
        )  # fmt: skip
    else:
        yield Finding(
            "device", WARN, first.describe(),
            "results are right, and slow: --device cpu is TVM's own path on the processor",
        )  # fmt: skip


def copy(machine: Machine) -> Iterator[Finding]:
    """Copy bytes to the device and back."""
    import tvm

    sent = np.random.default_rng(0).integers(0, 256, COPIED, np.uint8)
    device = tvm.vulkan(0)
    took = []
    for _ in range(COPIES):
        start = time.perf_counter()
        received = tvm.runtime.tensor(sent, device).numpy()
        took.append(time.perf_counter() - start)
        if not np.array_equal(sent, received):
            wrong = int(np.count_nonzero(sent != received))
            yield _wrong("copy", f"{wrong} of {COPIED} bytes came back as others")
            return
    rate = 2 * COPIED / min(took) / 1e9
    yield Finding("copy", OK, f"{COPIED >> 20} MiB there and back, {rate:.1f} GB/s")


def run_kernel(machine: Machine) -> Iterator[Finding]:
    """Compile the tiny network, and run it: its first kernels."""
    start = time.perf_counter()
    try:
        executor = _network()
    except PackageError as error:
        # A robot that only runs packages has no compiler, and is well.
        yield Finding.of_message("kernel", WARN, f"not tried: {error}")
        return
    took = time.perf_counter() - start
    executor.run(x=np.zeros(SIZE, np.float32))
    zeros = executor.get_output(0).numpy()
    if zeros.any():
        yield _wrong("kernel", f"a network without a bias gave {zeros.flat[0]:g} for zeros")
        return
    yield Finding("kernel", OK, f"a tiny network was compiled in {took:.1f} s, and runs")


def time_kernels(machine: Machine) -> Iterator[Finding]:
    """The device's own clock, by which profile and tuning go."""
    from .. import vulkan

    if not vulkan.devices()[0].timestamp_bits:
        yield Finding(
            "timestamps", WARN, "the device has none",
            "tune and profile go by the host's clock, which is coarse: use more --repeat",
        )  # fmt: skip
        return
    span = _network().profile(repeat=3).span_us
    if not 0 < span < 1e7:
        yield _wrong("timestamps", f"a tiny network took {span:g} µs by the device's clock")
        return
    yield Finding("timestamps", OK, f"{span:.0f} µs for the tiny network")


def compare(machine: Machine) -> Iterator[Finding]:
    """The tiny network's results against those of numpy, on the processor."""
    executor = _network()
    x = np.random.default_rng(1).standard_normal(SIZE, np.float32)
    executor.run(x=x)
    ours = executor.get_output(0).numpy()
    exact = reference(x)
    error = float(np.abs(ours - exact).max() / np.abs(exact).max())
    if not error <= TOLERANCE:
        yield _wrong("network", f"a tiny network is off by {error:.1g} of its largest value")
        return
    yield Finding("network", OK, f"a tiny network agrees with the processor's to {error:.0e}")


def _wrong(name: str, words: str) -> Finding:
    remedy = "the driver computes wrongly: update it, and report this with tvm-vision doctor --json"
    return Finding(name, FAIL, words, remedy)


@cache
def _network() -> GraphExecutor:
    return compiled()


Step = Callable[[Machine], Iterator[Finding]]
# Without whose network the next ones have nothing to run.
MAKES_NETWORK = "kernel"
# In order: what fails makes the next ones mean nothing.
STEPS: tuple[tuple[str, Step], ...] = (
    ("backend", load_native),
    ("loader", load_loader),
    ("device", find_devices),
    ("copy", copy),
    (MAKES_NETWORK, run_kernel),
    ("timestamps", time_kernels),
    ("network", compare),
)
