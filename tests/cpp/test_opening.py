"""A driver that does not answer while its device opens: one line and an end, without Python."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from support.failing_loader import FOREVER, HANG
from support.faults import write_to_lose
from support.runner import refused, run
from tvm_vision.package import read_package, write_fleet

LINE = (
    "a Vulkan driver that answers is needed, and one has been at opening its device for 2 s: end "
    "this process, see the kernel log for the GPU, and what tvm-vision doctor says of each driver; "
    "restart the machine where it stays so"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, device_info: Any) -> Path:
    """A package for Vulkan, one for several devices, an image, and the loader that fails."""
    folder = tmp_path_factory.mktemp("silent")
    write_to_lose(folder)
    np.load(folder / "x.npy").tofile(folder / "x.bin")
    with read_package(folder / "network.tar") as gpu, read_package(folder / "cpu.tar") as cpu:
        write_fleet(folder / "fleet.tar", [("gpu", gpu), ("cpu", cpu)])
    cv2.imwrite(str(folder / "image.png"), np.zeros((8, 8, 3), np.uint8))
    return folder


def surroundings(folder: Path, function: str = "") -> dict[str, str]:
    fault = {"FAULTY_LOADER_FAULT": f"{function},1,{FOREVER},{HANG}"} if function else {}
    return {
        "TVM_VISION_VULKAN_LOADER": str(folder / "libfaulty_loader.so"),
        "TVM_VISION_CACHE_DIR": str(folder / "cache"),
        **fault,
    }


@pytest.mark.parametrize(
    ("function", "package"),
    [
        ("vkCreateInstance", "network.tar"),
        ("vkEnumeratePhysicalDevices", "network.tar"),
        ("vkCreateDevice", "network.tar"),
        ("vkCreateInstance", "fleet.tar"),
        ("vkCreateDevice", "fleet.tar"),
    ],
)
def test_the_program_says_so_and_ends(built, folder, monkeypatch, function, package):
    for name, value in surroundings(folder, function).items():
        monkeypatch.setenv(name, value)
    start = time.monotonic()
    done = run(
        built / "run_model", "t", folder / package, folder / "image.png", "--opening-timeout", 2
    )
    assert (done.returncode, done.stderr) == (1, f"run_model: {LINE}\n")
    assert 2 <= time.monotonic() - start < 20


def test_a_package_that_is_refused_meanwhile_ends_the_program_too(built, folder, monkeypatch):
    damaged = folder / "damaged.tar"
    content = bytearray((folder / "network.tar").read_bytes())
    with tarfile.open(folder / "network.tar") as members:
        content[members.getmember("mod.so").offset_data + 5000] ^= 1
    damaged.write_bytes(content)
    for name, value in surroundings(folder, "vkCreateDevice").items():
        monkeypatch.setenv(name, value)
    words = ("t", damaged, folder / "image.png", "--opening-timeout", "1")
    assert "damaged.tar" in refused(built, *words)


def test_what_runs_on_the_processor_asks_no_driver(built, folder, monkeypatch):
    for name, value in surroundings(folder, "vkCreateInstance").items():
        monkeypatch.setenv(name, value)
    for words in (("cpu.tar",), ("fleet.tar", "--device", "cpu")):
        done = run(built / "run_model", "t", folder / words[0], folder / "image.png", *words[1:])
        assert "opening its device" not in done.stderr


@pytest.mark.parametrize("scene", ["silent", "silent and fallback"])
def test_opening_anew_has_the_limit_too(built, folder, scene):
    """Whoever waits next waits for the same thread; the program ends with a code of its own, and
    runs on a fallback before."""
    loader = folder / "libfaulty_loader.so"
    words = (loader, folder / "network.tar", folder / "x.bin", folder / "cpu.tar", scene)
    done = subprocess.run(
        [str(word) for word in (built / "losses", *words)],
        env={**os.environ, **surroundings(folder), "ASAN_OPTIONS": "detect_leaks=0"},
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    *frames, told, line = done.stdout.split("\n")[:-1]
    if scene == "silent":
        assert "has been at opening its device for 8 s: end this process" in frames[-1]
        assert "on vulkan(0)" in told and "it is not back yet" in line
    else:
        first, last = (float(frame.removeprefix("ran ")) for frame in (frames[0], frames[-1]))
        assert last == pytest.approx(first, rel=1e-3)
        assert "fallback 1" in told and "on cpu(0)" in told and "the fallback runs" in line


@pytest.mark.parametrize(
    ("seconds", "found"),
    [("-1", "a number of seconds from 0 to 1e+06 is needed, found '-1'"), ("no", "found 'no'")],
)
def test_seconds_that_are_none_are_refused(built, folder, seconds, found):
    words = ("t", folder / "cpu.tar", folder / "image.png", "--opening-timeout", seconds)
    assert found in refused(built, *words)
