"""Drivers that end the process, hang or are no libraries: doctor lives, and says which it was."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tvm_vision.doctor import examine as examination
from tvm_vision.doctor import self_test, steps
from tvm_vision.doctor.child import ask
from tvm_vision.doctor.finding import Finding, Machine
from tvm_vision.errors import PackageError

ENDS = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
# With a process that leaves the child's session, and so outlives it and keeps its pipes open.
HANGS = """#include <unistd.h>
__attribute__((constructor)) static void f(void) { if (!fork()) setsid(); sleep(25); }
"""


def library(folder: Path, name: str, source: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    path = folder / f"lib{name}.so"
    subprocess.run(["gcc", "-shared", "-o", path, folder / f"{name}.c"], check=True)
    return path


def machine_with(folder: Path, **libraries: Path) -> Machine:
    """A machine whose drivers are these."""
    for name, path in libraries.items():
        description = {"ICD": {"library_path": str(path), "api_version": "1.3.0"}}
        (folder / f"{name}.json").write_text(json.dumps(description))
    names = ":".join(str(folder / f"{name}.json") for name in libraries)
    return Machine(environment={**os.environ, "VK_DRIVER_FILES": names})


def of(findings: list[Finding]) -> dict[str, str]:
    return {
        Path(f.words.split()[2].rstrip(",")).stem: f.words for f in findings if f.state == "fail"
    }


def test_a_driver_that_ends_the_process_is_named_and_the_next_one_is_tried(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    machine = machine_with(
        tmp_path,
        text=tmp_path / "text.so",
        damaged=library(tmp_path, "damaged", ENDS),
        sound=library(tmp_path, "sound", "int x;\n"),
    )
    found = list(examination._drivers(machine, 30.0))
    assert [f.state for f in found] == ["fail", "fail", "ok"]
    assert "file too short" in of(found)["text"] or "invalid ELF" in of(found)["text"]
    assert "the process was ended by SIGABRT" in of(found)["damaged"]
    assert found[2].words == "VK_DRIVER_FILES names sound"


def test_a_driver_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    path = library(tmp_path, "slow", HANGS)
    start = time.monotonic()
    told = ask(Machine(), "libraries", [str(path)], 1.5)
    assert (told.step, told.end) == (str(path), "it did not answer within 1.5 s")
    assert time.monotonic() - start < 20


def test_the_self_test_is_ended_by_a_damaged_driver(tmp_path: Path) -> None:
    """The loader itself loads it: the step in which the process ended is the one that fails."""
    machine = machine_with(tmp_path, damaged=library(tmp_path, "damaged", ENDS))
    found = list(examination._self_test(machine, 60.0))
    assert [(f.name, f.state) for f in found] == [
        ("backend", "ok"),
        ("loader", "ok"),
        ("device", "fail"),
    ]
    assert found[-1].words.startswith("the process was ended by SIGABRT")
    assert "VK_DRIVER_FILES" in found[-1].remedy


@pytest.mark.parametrize(
    ("variable", "value", "last"),
    [
        ("TVM_VISION_VULKAN_LOADER", "/nonexistent/libvulkan.so.1", "loader"),
        ("VK_DRIVER_FILES", "/nonexistent.json", "device"),
    ],
)
def test_without_a_loader_and_without_a_driver(variable: str, value: str, last: str) -> None:
    machine = Machine(environment={**os.environ, variable: value})
    found = list(examination._self_test(machine, 60.0))
    assert (found[-1].name, found[-1].state) == (last, "fail")
    assert f"{variable} names {value}, which is not there" in found[-1].words
    assert "name" in found[-1].remedy


def test_a_cpu_where_a_gpu_was_expected(tmp_path: Path) -> None:
    """The drivers are this machine's, the bus is a scratch folder with a GPU on it."""
    device = tmp_path / "sys/bus/pci/devices/0000:00:02.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x8086\n")
    (device / "class").write_text("0x030000\n")
    from tvm_vision import vulkan

    if not vulkan.devices()[0].is_cpu:
        pytest.skip("the first Vulkan device is a GPU")
    from tvm_vision.doctor.self_test import find_devices

    (found,) = find_devices(Machine(root=tmp_path))
    assert found.state == "fail"
    assert "and this machine has one: Intel GPU at 0000:00:02.0" in found.words
    assert found.remedy.startswith("apt install mesa-vulkan-drivers")


def test_a_robot_on_which_nothing_can_be_compiled_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps end with a warning where there is no network to try."""

    def none() -> None:
        raise PackageError("linking needs a C++ compiler, and none is there: apt install g++")

    monkeypatch.setattr(self_test, "_network", none)
    kept = [step for step in self_test.STEPS if step[0] in ("kernel", "network")]
    monkeypatch.setattr(steps, "STEPS", kept)
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as pipe:
        steps.self_test(writes, Machine())
        os.close(writes)
        begins, found = map(json.loads, pipe.read().splitlines())
    assert begins == {"begins": "kernel"}
    assert (found["name"], found["state"], found["remedy"]) == ("kernel", "warn", "apt install g++")
