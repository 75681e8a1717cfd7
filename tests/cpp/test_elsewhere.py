"""Packages for another processor run there: by the runner without Python, in qemu's emulation.

`make elsewhere HOST=aarch64` brings what they need; without it they are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

from support import small_network
from support.elsewhere import emulated
from tvm_vision.api import compile as compile_network
from tvm_vision.models import load_model
from tvm_vision.package import ModelInfo, Preprocessing

ROOT = Path(__file__).resolve().parents[2]
HOST = "aarch64"
THERE = ROOT / "build" / "elsewhere" / HOST
MISSING = f"make elsewhere HOST={HOST}"
CPU = f"llvm -mtriple={HOST}-linux-gnu -mcpu=cortex-a76"
LABELS = tuple("abcdefghij")
CLASSIFIER = ModelInfo(
    "small",
    kind="classifier",
    labels=LABELS,
    preprocessing=Preprocessing((small_network.SIZE,) * 2, std=(255.0,) * 3),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and an image of its size."""
    folder = tmp_path_factory.mktemp("world")
    onnx.save(small_network.model(), folder / "small.onnx")
    pixels = np.random.default_rng(4).integers(0, 256, (small_network.SIZE,) * 2 + (3,), np.uint8)
    assert cv2.imwrite(str(folder / "image.png"), pixels)
    return folder


@pytest.fixture(scope="module")
def runner() -> Path:
    """run_model for the processor, of the sources as they are now."""
    program = THERE / "cpp" / "run_model"
    if not program.exists():
        pytest.skip(f"no runner for {HOST}: {MISSING}")
    cmake = Path(sys.executable).with_name("cmake")
    subprocess.run([cmake, "--build", program.parent], check=True, capture_output=True)
    return program


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of programs for the processor in which they find its lavapipe."""
    libraries = THERE / "system" / "usr" / "lib" / f"{HOST}-linux-gnu"
    described = THERE / "system" / "usr" / "share" / "vulkan" / "icd.d" / f"lvp_icd.{HOST}.json"
    if not described.exists():
        pytest.skip(f"no Vulkan driver for {HOST}: {MISSING}")
    told = json.loads(described.read_text())
    told["ICD"]["library_path"] = str(libraries / Path(told["ICD"]["library_path"]).name)
    file = tmp_path_factory.mktemp("driver") / "lavapipe.json"
    file.write_text(json.dumps(told))
    return {
        "LD_LIBRARY_PATH": f"{libraries}:{THERE / 'system' / 'lib' / f'{HOST}-linux-gnu'}",
        "VK_DRIVER_FILES": str(file),
        "VK_ICD_FILENAMES": str(file),
        # Its layer is not there.
        "TVM_VISION_VULKAN_VALIDATION": "0",
        "TVM_VISION_VULKAN_LOADER": str(libraries / "libvulkan.so.1"),
    }


def classes(lines: list[str]) -> list[tuple[str, float]]:
    """Labels and probabilities out of what run_model says."""
    found = [line.split("class:")[1].split() for line in lines if "class:" in line]
    return [(words[3], float(words[2])) for words in found]


@pytest.fixture(scope="module")
def expected(world: Path) -> list[tuple[str, float]]:
    """The network's classes on this machine's processor, by Python."""
    path = compile_network(
        world / "small.onnx", world / "here.tar", target="llvm", model_info=CLASSIFIER
    )
    model: Any = load_model(path)
    return list(model(cv2.imread(str(world / "image.png"))))[:5]


@pytest.mark.parametrize(
    ("device", "target", "precision", "limit"),
    [
        ("cpu", CPU, "fp32", 1e-4),
        ("cpu", CPU, "fp16", 5e-3),
        # Debian 12's lavapipe has no halves there.
        ("vulkan", "vulkan", "fp32", 1e-4),
    ],
)
def test_a_package_runs_on_its_processor(
    request: pytest.FixtureRequest,
    world: Path,
    runner: Path,
    expected: list[tuple[str, float]],
    device: str,
    target: str,
    precision: str,
    limit: float,
) -> None:
    on_gpu = device == "vulkan"
    if on_gpu:
        request.getfixturevalue("device_info")
    driver = request.getfixturevalue("driver") if on_gpu else {}
    path = compile_network(
        world / "small.onnx", world / "there.tar", target=target, host=HOST if on_gpu else None,
        model_info=CLASSIFIER, precision=precision,
    )  # fmt: skip
    words: list[str | Path] = [runner, "small", path, world / "image.png", "--device", device]
    system = THERE / "system" if on_gpu else None
    done = subprocess.run(
        emulated(HOST, words, system=system, variables=driver),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = classes(done.stdout.splitlines())
    assert [label for label, _ in found] == [label for label, _ in expected]
    np.testing.assert_allclose([p for _, p in found], [p for _, p in expected], atol=limit)
