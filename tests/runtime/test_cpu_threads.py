"""How many threads share a kernel on the processor: one a core, or what a variable says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CORES = Path("/sys/devices/system/cpu")
# A network's thread is told, whichever it is, and none is tied to a core by asking.
ASK = """
import os, threading, tvm_vision.vulkan, tvm_ffi
allowed = os.sched_getaffinity(0)
threads = tvm_ffi.get_global_func("tvm_vision.runtime.cpu_threads")
found = []
for call in (lambda: found.append(threads()),) * 2:
    other = threading.Thread(target=call)
    other.start()
    other.join()
assert found == [threads()] * 2, found
assert os.sched_getaffinity(0) == allowed
print(threads())
"""


def threads(allowed: set[int], **variables: str) -> int:
    """Of a process that runs on some logical processors with some variables alone."""
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**clean, "TVM_USE_RUNTIME_LIB": "1", **variables},
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        text=True,
        capture_output=True,
        check=True,
    )
    return int(done.stdout)


@pytest.fixture(scope="module")
def cores() -> dict[str, set[int]]:
    """Logical processors that are one core, of those that this process may use."""
    found: dict[str, set[int]] = {}
    for number in os.sched_getaffinity(0):
        told = CORES / f"cpu{number}" / "topology" / "thread_siblings_list"
        if not told.exists():
            pytest.skip("Linux does not say which processors are one core")
        found.setdefault(told.read_text().strip(), set()).add(number)
    return found


def test_a_thread_a_core(cores: dict[str, set[int]]) -> None:
    assert threads(set.union(*cores.values())) == len(cores)
    one = next(iter(cores.values()))
    assert threads(one) == 1


@pytest.mark.parametrize("variable", ["TVM_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_variable_counts_more(cores: dict[str, set[int]], variable: str) -> None:
    if len(cores) < 2:
        pytest.skip("one core has one thread in any case")
    assert threads(set.union(*cores.values()), **{variable: "1"}) == 1


SLEEP = """
import ctypes, tvm_vision.vulkan
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(getenv(b"TVM_THREAD_POOL_SPIN_COUNT").decode())
"""


@pytest.mark.parametrize("said", [None, "70000"])
def test_threads_sleep_soon_after_a_frame(said: str | None) -> None:
    """A fifth of a second of waiting awake, as TVM does it, is a core that does nothing else."""
    name = "TVM_THREAD_POOL_SPIN_COUNT"
    clean = {key: value for key, value in os.environ.items() if key != name}
    environment = clean | {"TVM_USE_RUNTIME_LIB": "1"} | ({name: said} if said else {})
    found = subprocess.check_output([sys.executable, "-c", SLEEP], env=environment, text=True)
    assert found.strip() == (said or "3000")
