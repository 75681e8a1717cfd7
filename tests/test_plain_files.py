"""What stands where a file is expected, and is none: passed over or refused, never waited for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import packages
from tvm_vision.devices import read_description
from tvm_vision.errors import TvmVisionError
from tvm_vision.exporters.yoeo.config import parse_config
from tvm_vision.models.classifier import preset, read_labels
from tvm_vision.models.yaml_file import read_yaml
from tvm_vision.package import read_package
from tvm_vision.package.peek import peek
from tvm_vision.plain_files import read_plain
from tvm_vision.tuning.records import read_records
from tvm_vision.vulkan.codegen import spirv_cache

SPARSE = 20 << 30


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(SPARSE)


KINDS = [fifo, folder, a_socket, device, link_to_nothing, link_to_itself, sparse]
Make = Callable[[Path], None]


@pytest.mark.parametrize("make", KINDS)
def test_compiled_shader(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    (tmp_path / "spirv").mkdir()
    make(tmp_path / "spirv" / "aa.spv")
    assert spirv_cache.load("aa") is None


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_package(path),
        lambda path: read_labels(str(path)),
        lambda path: preset(str(path), (1, 1)),
        lambda path: parse_config(path),
        lambda path: read_records(path),
        lambda path: read_yaml(path),
        lambda path: read_description(path),
    ],
)
def test_named_by_the_user(make: Make, read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    make(path)
    with pytest.raises(TvmVisionError) as error:
        read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("member", ["mod.json", "mod.params", "mod.so"])
def test_member_of_a_folder_package(make: Make, member: str, tmp_path: Path) -> None:
    path = packages.write_sample(tmp_path / "package")
    (path / member).unlink()
    make(path / member)
    if make is not sparse or member == "mod.json":
        with pytest.raises(TvmVisionError):
            read_package(path)
    if member != "mod.params":
        peek(path)


def test_plain_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    (tmp_path / "link").symlink_to(path)
    assert read_plain(path) == read_plain(tmp_path / "link") == b"content"
    with pytest.raises(OSError, match="it has 7 bytes, and 6 are allowed"):
        read_plain(path, 6)


RUN = """
import numpy as np, tvm
from support.kernels import scale_module
a = tvm.runtime.tensor(np.arange(64, dtype="float32"), tvm.vulkan(0))
b = tvm.runtime.empty((64,), "float32", tvm.vulkan(0))
module = scale_module()
module["scale"](a, b, 64, 2.0, 1, 64)
assert (b.numpy() == np.arange(64) * 2).all()
import tvm_vision.vulkan as vulkan
print(*vulkan.pipeline_cache_paths())
"""


def run_with(cache: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**os.environ, "TVM_VISION_CACHE_DIR": str(cache)},
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.slow  # a process a kind; one of them: tests/vulkan/test_runtime.py
@pytest.mark.usefixtures("device_info")
def test_pipelines_of_the_driver(tmp_path: Path) -> None:
    path = run_with(tmp_path)
    good = path.read_bytes()
    for make in KINDS:
        path.unlink()
        make(path)
        assert run_with(tmp_path) == path
        if path.is_dir():
            path.rmdir()  # a folder is nobody's to remove
        else:
            # The rest was replaced by what this process had.
            assert path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
        path.write_bytes(good)
    # A header that fits the size.
    with path.open("r+b") as stream:
        stream.seek(16)
        stream.write((SPARSE - 24).to_bytes(8, "little"))
        stream.truncate(SPARSE)
    assert run_with(tmp_path) == path
    assert path.stat().st_size < 1 << 20
