"""The wheel: what its build needs, and that it runs where there is no compiler."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import onnx
import pytest

from support import small_network
from support.scripts import load_script

wheel = load_script("scripts/wheel.py")
native_build = load_script("native_build.py")
OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"


def test_another_processor_takes_its_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert wheel.build_environment(platform.machine(), tmp_path) == {}
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(
        ValueError, match=rf"for {OTHER} is needed: apt install g\+\+-{OTHER}-linux"
    ):
        wheel.build_environment(OTHER, tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert wheel.build_environment(OTHER, tmp_path) == {
        "CXX": f"{OTHER}-linux-gnu-g++",
        "TVM_VISION_SITE_PACKAGES": str(tmp_path / OTHER),
        "_PYTHON_HOST_PLATFORM": f"linux-{OTHER}",
    }


def test_tvm_for_another_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TVM_VISION_SITE_PACKAGES", str(tmp_path))
    with pytest.raises(native_build.NativeBuildError, match=r"names a folder .*/tvm' is not there"):
        native_build.package_dir("tvm")
    (tmp_path / "tvm").mkdir()
    assert native_build.package_dir("tvm") == tmp_path / "tvm"


@pytest.mark.slow
def test_a_wheel_serves_every_python_and_needs_no_compiler(tmp_path: Path) -> None:
    """In an environment of its own, which has all that the wheel asks for and no other programs."""
    if importlib.util.find_spec("auditwheel") is None:
        pytest.skip("no auditwheel: make wheel installs it")
    root, output = Path(__file__).parents[1], tmp_path / "dist"
    subprocess.run([sys.executable, "scripts/wheel.py", "--output", output], cwd=root, check=True)
    (built,) = output.iterdir()
    machine = platform.machine()
    assert re.fullmatch(rf"tvm_vision-.*-py3-none-manylinux_2_\d\d_{machine}\.whl", built.name)
    names = zipfile.ZipFile(built).namelist()
    assert "tvm_vision/vulkan/libtvm_vision_vulkan.so" in names
    assert "tvm_vision_ros/interfaces/soccer_vision_2d_msgs/msg/Ball.msg" in names
    libraries = [name for name in names if name.endswith(".so") or ".so." in name]
    assert libraries == ["tvm_vision/vulkan/libtvm_vision_vulkan.so"]

    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        built,
    ]
    subprocess.run(install, check=True)
    site = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], text=True
    ).strip()
    # The rest as this environment has it, but not what its .pth files say: this checkout.
    (Path(site) / "rest.pth").write_text(sysconfig.get_path("platlib") + "\n")
    model = tmp_path / "small.onnx"
    onnx.save(small_network.model(), model)
    commands = tmp_path / "clean" / "bin"
    environment = {"PATH": str(commands), "HOME": str(tmp_path), "TVM_VISION_CACHE_DIR": ""}
    if "VK_DRIVER_FILES" in os.environ:
        environment["VK_DRIVER_FILES"] = os.environ["VK_DRIVER_FILES"]
    for target in ("llvm", "auto"):
        steps: tuple[list[str | Path], ...] = (
            ["compile", model, "-o", tmp_path / "small.tar", "--target", target],
            ["run", tmp_path / "small.tar", "--print-top", "1"],
        )
        for words in steps:
            done = subprocess.run(
                [commands / "tvm-vision", *words],
                env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
