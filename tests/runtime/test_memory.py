"""Memory that is refused: each request of our own native code, and a limit of the process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import SUPPORT
from support.failing_new import FOREVER
from support.faults import write_to_lose
from support.preloaded import compile_preloaded

pytestmark = pytest.mark.usefixtures("device_info")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    write_to_lose(folder)
    compile_preloaded("failing_new", folder)
    return folder


def program(
    name: str, folder: Path, *words: Any, seconds: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SUPPORT / name, folder, *map(str, words)],
        env={
            **os.environ,
            "PYTHONPATH": str(SUPPORT.parent),
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            **environment,
        },
        text=True,
        capture_output=True,
        timeout=seconds,
    )


# Also of what a frame that was refused has left to read, or to wait for.
TOLD = re.compile(r"(Device|DeviceLost|Package|Input)Error: (?!.*bad_alloc)[^\n]+")


def problems(lines: list[dict[str, Any]]) -> list[str]:
    """What is not as it should be in lives in which memory was refused."""
    found = []
    for plan, life in zip(lines[::2], lines[1::2], strict=True):
        met = life["met"]
        found += [
            f"{plan}: {step}: {what}"
            for step, what in met.items()
            if not (what in ("right", "skipped") or TOLD.fullmatch(what))
        ]
        if life["refused"] and set(met.values()) == {"right"} and plan["last"] != plan["first"]:
            found.append(f"{plan}: all was refused, and nothing said so")
        if set(life["after"].values()) != {"right"} or life["said"]:
            found.append(f"{plan}: the life after it: {life['after']} {life['said']}")
    return found


ALL = pytest.mark.slow


@pytest.mark.parametrize(
    ("package", "stretches"),
    [
        ("cpu.tar", [f"1:{FOREVER}:32"]),
        # The second is where a device is opened, which makes most of what Vulkan has.
        ("network.tar", [f"1:{FOREVER}:1500", "156:180:8"]),
        pytest.param("network.tar", ["156:180:1"], marks=ALL),
        pytest.param("cpu.tar", [f"1:{FOREVER}:1"], marks=ALL),
        pytest.param("network.tar", [f"1:{FOREVER}:7"], marks=ALL),
    ],
)
def test_each_request_of_ours_may_be_refused(
    folder: Path, package: str, stretches: list[str]
) -> None:
    failing = {"LD_PRELOAD": str(folder / "failing_new.so")}
    done = program("memory_program.py", folder, package, *stretches, seconds=3000, **failing)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"ended by {done.returncode} in {lines[-1:]}\n{done.stderr}"
    assert len(lines) > 10 and problems(lines) == []


# MiB beyond what the process has. The last is enough.
STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 64)


@pytest.mark.parametrize("mib", STEPS)
def test_a_limit_of_address_space_is_told(folder: Path, mib: int) -> None:
    """Of a network on the processor: a driver ends the process where it finds none."""
    done = program("limited_program.py", folder, "cpu.tar", mib, seconds=60)
    assert done.returncode == 0, done.stderr
    said = done.stdout.strip()
    assert re.fullmatch(r"right|MemoryError: .*|\w+Error: [^\n]+", said) or said == "MemoryError:"
    assert said == "right" or mib < STEPS[-1]


def test_a_limit_that_keeps_drivers_from_loading_is_named(folder: Path) -> None:
    """And nobody is told to install the driver that is there."""
    alone = {"TVM_VISION_VULKAN_VALIDATION": "0"}
    done = program("limited_program.py", folder, "network.tar", 200, seconds=60, **alone)
    assert done.returncode == 0, done.stderr
    wanted = r"no more than \d+ MiB of address space; raise that limit \(ulimit -v, that of its"
    assert re.search(wanted, done.stdout), done.stdout


LIMITS = (2, 24, 64, 90, 200, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("mib", LIMITS)
def test_no_exception_of_ours_ends_a_process_with_a_driver(folder: Path, mib: int) -> None:
    """lavapipe and its compiler may, in their own way."""
    try:
        alone = {"TVM_VISION_VULKAN_VALIDATION": "0"}
        done = program("limited_program.py", folder, "network.tar", mib, seconds=60, **alone)
    except subprocess.TimeoutExpired:
        pytest.xfail("what a driver throws when it is loaded leaves the C library's lock taken")
    assert "terminate called" not in done.stderr
    assert mib < LIMITS[-1] or done.stdout == "right\n"
