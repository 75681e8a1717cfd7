"""Why there is no Vulkan device: what was needed, what was found, what to do, in one line."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import SUPPORT
from support.faults import write_to_lose
from support.loaders import compile_loader

pytestmark = pytest.mark.usefixtures("device_info")
LOADER = "; name a Vulkan loader, or unset it for libvulkan.so.1"
FILES = "; name the JSON file of a driver, or unset it for those that are installed"


def opened(environments: list[dict[str, str]]) -> list[tuple[int, str]]:
    """Number of devices, and why there is none, under each environment in turn."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TVM_VISION_VULKAN_", "VK_"))
    }
    done = subprocess.run(
        [sys.executable, SUPPORT / "environments_program.py", json.dumps(environments)],
        env={**environment, "TVM_USE_RUNTIME_LIB": "1"},
        text=True,
        capture_output=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == len(environments), done.stdout + done.stderr
    return [tuple(json.loads(line)) for line in lines]


def description(path: Path, library: str) -> str:
    """The file of a driver, as the loader takes it."""
    icd = {"library_path": library, "api_version": "1.3.0"}
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    return str(path)


def test_a_loader_that_is_none_and_then_one_that_is(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library")
    folder = tmp_path / "folder"
    folder.mkdir()
    other = ctypes.util.find_library("m")
    cases = {
        "/nonexistent/libvulkan.so.1": "which is not there",
        "libnonexistent.so": "which is not there",
        str(text): "which cannot be loaded (file too short)",
        str(folder): "which cannot be loaded (cannot read file data: Is a directory)",
        other: "which is no Vulkan loader (it has no vkGetInstanceProcAddr)",
    }
    found = opened([{"TVM_VISION_VULKAN_LOADER": str(name)} for name in cases] + [{}])
    for (name, why), (count, status) in zip(cases.items(), found, strict=False):
        assert count == 0
        assert status == f"TVM_VISION_VULKAN_LOADER names {name}, {why}{LOADER}"
    # One that failed is not kept.
    assert found[-1][0] > 0 and found[-1][1] == ""


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_drivers_that_are_named_and_are_none(variable: str, tmp_path: Path) -> None:
    broken, empty, folder = tmp_path / "broken.json", tmp_path / "e.json", tmp_path / "folder"
    broken.write_text('{"ICD": ')
    empty.write_text("{}")
    folder.mkdir()
    lost = description(tmp_path / "lost.json", "/nonexistent/libdriver.so")
    beside = description(tmp_path / "beside.json", "./libdriver.so")
    other = description(tmp_path / "other.json", str(ctypes.util.find_library("m")))
    no_json = "which is no description of a driver (JSON with a library_path)"
    cases: dict[str, Any] = {
        "/nonexistent.json": ("/nonexistent.json", "which is not there"),
        str(broken): (broken, no_json),
        str(empty): (empty, no_json),
        f"{other}:{broken}": (broken, no_json),
        lost: (lost, "which names the library /nonexistent/libdriver.so, which is not there"),
        beside: (beside, f"which names the library {tmp_path}/./libdriver.so, which is not there"),
    }
    nothing = [other, str(folder)]
    found = opened([{variable: name} for name in [*cases, *nothing]])
    for (path, why), (count, status) in zip(cases.values(), found, strict=False):
        assert (count, status) == (0, f"{variable} names {path}, {why}{FILES}")
    for name, (count, status) in zip(nothing, found[len(cases) :], strict=True):
        wanted = f"found no device with the drivers that {variable} names ({name}); name another"
        assert count == 0 and wanted in status


def test_the_newer_variable_counts(tmp_path: Path) -> None:
    both = {"VK_DRIVER_FILES": "/first.json", "VK_ICD_FILENAMES": "/second.json"}
    [(_, status)] = opened([both])
    assert status.startswith("VK_DRIVER_FILES names /first.json, which is not there")


def test_drivers_that_are_installed_and_give_no_device(tmp_path: Path) -> None:
    files = {}
    for name, library in {
        "lost": "/nonexistent/libdriver.so",
        "other": str(ctypes.util.find_library("m")),
    }.items():
        folder = tmp_path / name / "vulkan" / "icd.d"
        folder.mkdir(parents=True)
        files[name] = description(folder / "a.json", library)
    alone = {"HOME": "/nonexistent", "XDG_CONFIG_DIRS": "/nonexistent", "VK_LAYER_PATH": ""}
    lost, other, none = opened(
        [{**alone, "XDG_DATA_DIRS": str(tmp_path / name)} for name in ("lost", "other", "none")]
    )
    assert lost == (
        0,
        f"the Vulkan loader can load no driver: there is {files['lost']}, which names the library "
        "/nonexistent/libdriver.so, which is not there; install that driver anew, or "
        "mesa-vulkan-drivers (Intel, AMD and the CPU), and check with tvm-vision doctor",
    )
    assert other[0] == 0 and f"drivers that are installed ({files['other']}); inst" in other[1]
    assert none[0] == 0 and none[1].startswith("the Vulkan loader found no driver; install ")


def test_devices_and_loaders_that_are_too_little(tmp_path: Path) -> None:
    loader = {"TVM_VISION_VULKAN_LOADER": str(compile_loader("smaller_loader", tmp_path))}
    version = 1 << 22  # 1.0
    cases = {
        f"instanceVersion={version | 1 << 12}": "speaks Vulkan 1.1, 1.2 is needed; upgrade the",
        f"apiVersion={version | 1 << 12}": "it speaks Vulkan 1.1, 1.2 is needed; update its driver",
        "queueFlags=1": "it has no queue that computes, and one is needed; use another device or",
        "timelineSemaphore=0": "it lacks the feature timelineSemaphore, which Vulkan 1.2 requires",
    }
    found = opened([{**loader, "SMALLER_LOADER": limit} for limit in cases])
    for words, (count, status) in zip(cases.values(), found, strict=True):
        assert count == 0 and words in status and "\n" not in status


@pytest.mark.parametrize(
    "words",
    [
        ("vkCreateInstance", "load"),
        ("vkEnumeratePhysicalDevices", "load"),
        ("vkCreateDevice", "load"),
        ("vkCreateDevice", "lost"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_of(words: tuple[str, str], silent: Path) -> None:
    """And the process ends."""
    done = subprocess.run(
        [sys.executable, SUPPORT / "silent_driver_program.py", silent, *words],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_VULKAN_LOADER": str(silent / "libfaulty_loader.so"),
        },
        text=True,
        capture_output=True,
        timeout=120,
    )
    told = done.stdout.splitlines()
    assert (done.returncode, len(told)) == (1, 2) and "Traceback" not in done.stderr, done.stderr
    assert all(
        "has been at opening its device for 2 s: end this process" in line for line in told
    ), told


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory, device_info: Any) -> Path:
    folder = tmp_path_factory.mktemp("silent")
    write_to_lose(folder)
    return folder
