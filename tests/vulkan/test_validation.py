"""What is wrong on purpose is found: the validation layer that watches all tests does see.

The loader of test_faults.py does something wrong for the library (support/validation_program.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def test_what_is_wrong_is_found(folder: Path) -> None:
    wrong = {
        "": (),
        "no barriers": ("SYNC-HAZARD-READ-AFTER-WRITE", "READ_AFTER_WRITE hazard"),
        # The number of the rule in older and in newer layers.
        "buffers stay": ("vkDestroyDevice-device-00378", "vkDestroyDevice-device-05137"),
    }
    loader = folder / "libfaulty_loader.so"
    done = subprocess.run(
        [sys.executable, SUPPORT / "validation_program.py", folder, loader, *wrong],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_POISON": "off",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            "TVM_VISION_VULKAN_LOADER": str(loader),
        },
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for fault, said in json.loads(done.stdout).items():
        kinds = wrong[fault]
        assert bool(said) == bool(kinds), (fault, said)
        assert all(any(kind in message for kind in kinds) for message in said), (fault, said)
