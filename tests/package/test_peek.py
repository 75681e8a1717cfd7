"""What a package is for, told before it is checked; None wherever reading it would be refused."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from support.packages import params_bytes, write_sample
from tvm_vision.errors import PackageError
from tvm_vision.package import read_package
from tvm_vision.package.container import MAX_INFO_BYTES, Extent, Loading
from tvm_vision.package.peek import Peek, peek


@pytest.mark.parametrize("name", ["good.tar", "folder"])
def test_kind_of_target_and_weights(tmp_path, name):
    path = write_sample(tmp_path / name)
    seen = peek(path)
    assert seen.target_kind == "llvm"
    memory, digest = seen.params.result()
    assert memory[:] == params_bytes()
    with read_package(path, seen.params) as package:
        assert package.params is memory
        assert package.info.members["mod.params"] == digest


@pytest.mark.parametrize("name", ["good.tar", "folder"])
def test_what_was_read_of_another_file_is_not_taken(tmp_path, name):
    """Neither of one that was replaced meanwhile, nor a failure to read it."""
    path = write_sample(tmp_path / name)
    other = peek(write_sample(tmp_path / f"other-{name}"))
    file = path if path.suffix == ".tar" else path / "mod.params"
    longer = Loading(file, "mod.params", Extent(0, 10**9))
    with pytest.raises(PackageError, match="it became shorter"):
        longer.result()
    with read_package(path, longer) as package:
        assert package.params[:] == params_bytes()
    memory, _ = other.params.result()
    memory[-1] ^= 1
    other.params._loaded = memory, hashlib.sha256(memory).hexdigest()
    with pytest.raises(PackageError, match="mod.params must have the SHA-256"):
        read_package(path, other.params)


def test_whatever_is_no_package_has_none(tmp_path):
    whole = write_sample(tmp_path / "good.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:700])
    (tmp_path / "text.tar").write_text("vulkan")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("cut.tar", "text.tar", "empty", "pipe", "absent"):
        assert peek(tmp_path / name) == Peek(None, None), name


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"target": "vulkan"}', "\udcff"])
def test_damaged_mod_json_has_none(tmp_path, content):
    folder = write_sample(tmp_path / "folder")
    (folder / "mod.json").write_text(content, errors="surrogateescape")
    assert peek(folder) == Peek(None, None)


def test_a_huge_mod_json_is_not_read(tmp_path):
    folder = write_sample(tmp_path / "folder")
    with (folder / "mod.json").open("wb") as stream:
        stream.write(json.dumps({"target": {"kind": "vulkan"}}).encode())
        stream.write(b" " * 16)
        stream.truncate(MAX_INFO_BYTES + 1)
    assert peek(folder) == Peek(None, None)


def test_it_needs_nothing_that_takes_long_to_import():
    code = """
import sys
from tvm_vision.package import peek
slow = ("tarfile", "numpy", "tvm_vision.package.info", "tvm_vision.package.reading")
assert not set(slow) & set(sys.modules)
from tvm_vision.package import PackageInfo, read_package
assert "tvm_vision.package.reading" in sys.modules
"""
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_names_of_the_package():
    import tvm_vision.package

    for name in tvm_vision.package.__all__:
        assert getattr(tvm_vision.package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Packet'"):
        getattr(tvm_vision.package, "Packet")  # noqa: B009
