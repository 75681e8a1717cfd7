"""What is wrong on purpose is found: the validation layer that watches all tests does see.

The loader of test_faults.py does something wrong for the library (support/validation_program.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import tvm_vision.vulkan as vulkan
from support import SUPPORT
from support.faults import write_network
from support.loaders import compile_loader

pytestmark = pytest.mark.usefixtures("device_info")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, and the loader."""
    if not vulkan.device_options()["TVM_VISION_VULKAN_VALIDATION"] == "on":
        pytest.skip("the package vulkan-validationlayers is not installed")
    folder = tmp_path_factory.mktemp("network")
    write_network(folder)
    compile_loader("faulty_loader", folder)
    return folder


def said(folder: Path, wrong: Iterable[str], **environment: str) -> dict[str, list[str]]:
    """What the layer says of each thing that is wrong."""
    loader = folder / "libfaulty_loader.so"
    done = subprocess.run(
        [sys.executable, SUPPORT / "validation_program.py", folder, loader, *wrong],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_POISON": "off",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            "TVM_VISION_VULKAN_LOADER": str(loader),
            **environment,
        },
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_what_is_wrong_is_found(folder: Path) -> None:
    wrong = {
        "": (),
        "no barriers": ("SYNC-HAZARD-READ-AFTER-WRITE", "READ_AFTER_WRITE hazard"),
        # The number of the rule in older and in newer layers.
        "buffers stay": ("vkDestroyDevice-device-00378", "vkDestroyDevice-device-05137"),
    }
    for fault, messages in said(folder, wrong).items():
        kinds = wrong[fault]
        assert bool(messages) == bool(kinds), (fault, messages)
        known = [any(kind in message for kind in kinds) for message in messages]
        assert all(known), (fault, messages)


@pytest.mark.skipif(
    not os.environ.get("TVM_VISION_NEWEST_LAYER"),
    reason="Debian 12's layer does not see it on lavapipe: make validation-newest",
)
def test_a_kernel_that_reads_beyond_its_buffer_is_found(folder: Path, tmp_path: Path) -> None:
    settings = tmp_path / "vk_layer_settings.txt"
    settings.write_text("khronos_validation.gpuav_enable = true\n")
    found = said(folder, ("", "short buffers"), VK_LAYER_SETTINGS_PATH=str(tmp_path))
    beyond = {
        fault: [message for message in messages if "access out of bounds" in message]
        for fault, messages in found.items()
    }
    assert beyond["short buffers"] and not beyond[""], found
