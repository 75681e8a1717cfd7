"""Vulkan's calls fail, one after the other: an error in one line or right results, nothing else.

A loader of ours (cpp/faulty_loader.cc) stands between the library and the real one. A process
lives through a network's whole life with each fault (faulty_program.py), and through one more
without: memory that is freed while the device works on it, or work that is lost and counted on,
shows there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import tvm_vision
from support import SUPPORT, networks
from support.loaders import compile_loader

pytestmark = pytest.mark.usefixtures("device_info")
SIZE = 24
# What was being done, the call and what it gave; and what a device without its work says.
LINE = re.compile(
    r"DeviceError: ("
    r"[\w ,.():-]+: vk\w+ gave VK_\w+(;.*)?|"
    r"work for .* was lost when an earlier call failed; load the network again, or restart.*|"
    r"out of (device|host-visible) memory on .* needed .*; .*|"
    r"(a Vulkan device was needed|the package was compiled for vulkan), but .*"
    r")"
)
ALL = 1 << 40  # as many calls as there are
NOTHING_RAN = "InputError: there are no outputs before the first run; call run"


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The loader that fails, compiled."""
    return compile_loader("faulty_loader", tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, an input, and its output."""
    folder = tmp_path_factory.mktemp("network")
    builder = networks.Builder(9)
    x = builder.conv("input", 3, 8, 3, 1, act="relu6")
    model = builder.model(SIZE, [(builder.head(x, 8, 10), TensorProto.FLOAT)])
    image = np.random.default_rng(2).random((1, 3, SIZE, SIZE), "float32")
    np.save(folder / "x.npy", image)
    np.save(folder / "y.npy", networks.reference(model, image)[0])
    tvm_vision.compile(model, folder / "network.tar", target="vulkan")
    return folder


def lives(folder: Path, loader: Path, which: str, **environment: str) -> list[dict[str, Any]]:
    """What became of the network with each fault."""
    program = SUPPORT / "faulty_program.py"
    done = subprocess.run(
        [sys.executable, program, folder / "network.tar", folder, loader, which],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            "TVM_VISION_VULKAN_LOADER": str(loader),
            "TVM_VISION_VULKAN_VALIDATION": "0",
            **environment,
        },
        text=True,
        capture_output=True,
        timeout=1800,
    )
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else "nothing"
    assert done.returncode == 0, f"it ended with {done.returncode} after {last}\n{done.stderr}"
    return [json.loads(line) for line in lines]


def assert_sound(life: dict[str, Any]) -> None:
    for step, met in life["met"].items():
        sound = met in ("right", "skipped") or LINE.fullmatch(met)
        assert sound or (met == NOTHING_RAN and step.startswith("output")), (
            life["call"],
            step,
            met,
        )
    assert set(life["after"].values()) == {"right"}, life


MEMORY = {
    "in place": {},
    "copied": {"TVM_VISION_VULKAN_MEMORY": "separate", "TVM_VISION_VULKAN_INPUT": "staged"},
}


@pytest.mark.parametrize("memory", MEMORY)
def test_each_function_fails(folder: Path, loader: Path, memory: str) -> None:
    found = lives(folder, loader, "each", **MEMORY[memory])
    for life in found:
        assert_sound(life)
    # Without these nothing works, and that is said.
    needed = {"vkQueueSubmit", "vkWaitSemaphores", "vkCreateDevice", "vkAllocateMemory"}
    for name in needed:
        of_it = [life for life in found if life["failed"] == name and life["call"][1:3] == [1, ALL]]
        assert of_it and all(
            LINE.fullmatch(life["met"]["output of run"])
            or life["met"]["output of run"] in (NOTHING_RAN, "skipped")
            for life in of_it
        ), name


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORY)
def test_every_single_call_fails(folder: Path, loader: Path, memory: str) -> None:
    found = lives(folder, loader, "all", **MEMORY[memory])
    assert len(found) > 100
    for life in found:
        assert_sound(life)
