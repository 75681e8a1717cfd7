"""Networks in several processes and on several devices: one cache, fork and spawn, an end in the
middle of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_vision
from support import SUPPORT
from support.preloaded import compile_preloaded
from support.small_network import IMAGE, REFERENCE, model

pytestmark = pytest.mark.usefixtures("device_info")
PROGRAM = SUPPORT / "process_program.py"
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
DRIVERS = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network")
    tvm_vision.compile(model(), folder / "network.tar", target="vulkan")
    tvm_vision.compile(model(), folder / "processor.tar", target="llvm")
    np.save(folder / "x.npy", IMAGE)
    np.save(folder / "y.npy", REFERENCE)
    return folder


def start(folder: Path, what: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, PROGRAM, folder, what],
        env={
            **os.environ,
            "TVM_USE_RUNTIME_LIB": "1",
            "TVM_VISION_CACHE_DIR": str(folder / "cache"),
            **environment,
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, f"{process.returncode}\n{out}\n{error}"
    assert "Traceback" not in error, error
    return out.splitlines()


def test_processes_side_by_side_share_an_empty_cache(folder: Path) -> None:
    processes = [start(folder, "run") for _ in range(3)]
    assert [said(process) for process in processes] == [["right"]] * 3
    names = [path.name for path in (folder / "cache").rglob("*") if path.is_file()]
    assert names and all(name.endswith((".bin", ".spv")) for name in names), names


def test_a_child_by_spawn_has_a_device_of_its_own_and_one_by_fork_is_refused(folder: Path) -> None:
    assert said(start(folder, "children")) == ["spawn: right", "fork: refused", "parent: right"]


def test_a_child_by_fork_computes_on_the_processor(folder: Path) -> None:
    found = said(start(folder, "children on the processor"))
    assert found == ["kept: right", "loaded: right", "parent: right"]


@pytest.mark.slow
def test_a_child_forked_before_vulkan_was_used_may_use_it(folder: Path) -> None:
    assert said(start(folder, "fork first")) == ["child: right", "parent: right"]


@pytest.mark.parametrize(
    "what",
    [
        "exit in a thread",
        "exit loading",
        pytest.param("exit", marks=pytest.mark.slow),
        pytest.param("exit in flight", marks=pytest.mark.slow),
    ],
)
def test_the_interpreter_ends_in_the_middle_of_it(folder: Path, what: str) -> None:
    assert said(start(folder, what)) == ["ending"]


def test_a_network_loads_and_runs_where_no_thread_can_be_started(
    folder: Path, tmp_path: Path
) -> None:
    library = compile_preloaded("no_threads", tmp_path)
    # The validation layer has threads of its own.
    given = {"LD_PRELOAD": str(library), "TVM_VISION_VULKAN_VALIDATION": "0"}
    assert said(start(folder, "run", **given)) == ["right"]


@pytest.mark.slow
@pytest.mark.skipif(
    not (SWIFTSHADER.exists() and DRIVERS),
    reason="needs lavapipe and chromium-common's SwiftShader",
)
def test_two_devices_side_by_side(folder: Path) -> None:
    files = f"{DRIVERS[0]}:{SWIFTSHADER}"
    found = said(start(folder, "devices", VK_ICD_FILENAMES=files, VK_DRIVER_FILES=files))
    assert found == ["2 devices", "right", "copies right", "lost one, the other right"]
