"""From a model to a package to frames: ``tvm_vision.compile`` and ``tvm_vision.load``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_vision
from support.small_network import IMAGE, REFERENCE, SIZE, model
from tvm_vision.errors import DeviceError, InputError, PackageError
from tvm_vision.package import repack_package, unpack_package

pytestmark = pytest.mark.usefixtures("device_info")


@pytest.fixture(scope="module", params=["vulkan", "llvm"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / f"{request.param}.tar"
    return Path(tvm_vision.compile(model(), path, target=request.param))


def test_round_trip(package: Path) -> None:
    executor = tvm_vision.load(package)
    executor.run(input=IMAGE)
    np.testing.assert_allclose(executor.get_output(0).numpy(), REFERENCE, rtol=1e-4, atol=1e-5)
    assert executor.info["model"]["name"] == "network"
    assert executor.device.type == ("vulkan" if package.stem == "vulkan" else "cpu")
    assert executor.memory_bytes >= executor.info["memory"]["weights"]


def test_recorded_before_the_first_frame(package: Path) -> None:
    executor = tvm_vision.load(package)
    assert executor.recordings == (1 if executor.device.type == "vulkan" else 0)


RUN = """
import sys, numpy as np, tvm_vision
executor = tvm_vision.load(sys.argv[1])
executor.run(input=np.load(sys.argv[2]))
np.save(sys.argv[3], executor.get_output(0).numpy())
compiler = ("tvm.relax", "tvm_vision.compiler", "tvm_vision.vulkan.codegen.glsl", "onnx")
loaded = [name for name in compiler if name in sys.modules]
print(loaded, "libtvm_compiler" in open("/proc/self/maps").read())
"""


def test_a_robot_needs_the_runtime_library_alone(package: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGE)
    done = subprocess.run(
        [sys.executable, "-c", RUN, package, tmp_path / "x.npy", tmp_path / "y.npy"],
        env={**os.environ, "TVM_USE_RUNTIME_LIB": "1"},
        text=True,
        capture_output=True,
    )
    assert done.stdout.strip() == "[] False", done.stderr
    result = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(result, REFERENCE, rtol=1e-4, atol=1e-5)


WORDS: dict[Any, str] = {
    "tpu": "leave it out",
    "gpu": "use vulkan$",
    "CUDA:1": "use vulkan, and TVM_VISION_VULKAN_DEVICE=1 for which$",
    "llvm": "use cpu$",
    0: "use vulkan, and TVM_VISION_VULKAN_DEVICE=0 for which$",
    None: "leave it out",
}


def test_device_that_does_not_fit(package: Path) -> None:
    wanted, other = ("cpu", "llvm") if package.stem == "vulkan" else ("vulkan", "vulkan")
    with pytest.raises(DeviceError, match=f"--target {other}"):
        tvm_vision.load(package, device=wanted)
    for word, remedy in WORDS.items():
        with pytest.raises(InputError, match=f"auto, vulkan, cpu is needed, found .*: {remedy}"):
            tvm_vision.load(package, device=word)


def test_package_for_vulkan_without_vulkan(package: Path) -> None:
    if package.stem != "vulkan":
        return
    code = "import sys, tvm_vision; tvm_vision.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, package],
        env={**os.environ, "TVM_VISION_VULKAN_LOADER": "/nonexistent.so"},
        text=True,
        capture_output=True,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "the package was compiled for vulkan, but TVM_VISION_VULKAN_LOADER names" in last
    assert "unset it for libvulkan.so.1; or compile the network with --target llvm" in last


def test_missing_package() -> None:
    with pytest.raises(PackageError, match=r"nowhere\.tar"):
        tvm_vision.load("nowhere.tar")


@pytest.mark.parametrize("path", [None, 5, b"x.tar"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(InputError, match=f"of a package is needed, .* {type(path).__name__}"):
        tvm_vision.load(path)


def smaller_input(info: dict[str, Any]) -> None:
    planned = info["graph"]["tensors"][info["graph"]["inputs"][0]]
    planned["shape"] = info["inputs"][0]["shape"] = [1, 3, SIZE, SIZE // 2]


def other_type(info: dict[str, Any]) -> None:
    planned = info["graph"]["tensors"][info["graph"]["inputs"][0]]
    planned["dtype"] = info["inputs"][0]["dtype"] = "int32"


def fewer_arguments(info: dict[str, Any]) -> None:
    kernel = max(info["graph"]["kernels"], key=lambda kernel: len(kernel["args"]))
    kernel["args"] = [kernel["args"][0], kernel["args"][-1]]


@pytest.mark.parametrize("change", [smaller_input, other_type, fewer_arguments])
def test_graph_of_another_network_than_the_code(package: Path, tmp_path: Path, change: Any) -> None:
    """The line says what the first kernel that does not fit takes."""
    taken = r"\w+\(in0: Tensor\(\[1, .*\], float32\), .* needs .* found other arguments"
    folder, edited = tmp_path / "folder", tmp_path / "edited.tar"
    unpack_package(package, folder)
    info = json.loads((folder / "mod.json").read_text())
    change(info)
    (folder / "mod.json").write_text(json.dumps(info))
    repack_package(folder, edited)
    with pytest.raises(PackageError, match=taken) as error:
        executor = tvm_vision.load(edited)
        executor.run(input=np.zeros(info["inputs"][0]["shape"], info["inputs"][0]["dtype"]))
    assert "of one compilation" in str(error.value) and "\n" not in str(error.value)
