"""The build of the native library: what is compiled again, and one line for what is missing."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from support.scripts import load_script

native_build = load_script("native_build.py")

COMMAND = ["g++", "-c", "a b.cc"]


@pytest.fixture
def built(tmp_path):
    """An object that is newer than its source and header, with its records."""
    inputs = [tmp_path / "a b.cc", tmp_path / "a.h"]
    for path in inputs:
        path.write_text("")
        os.utime(path, (1000, 1000))
    obj = tmp_path / "a.o"
    obj.write_text("")
    os.utime(obj, (2000, 2000))
    escaped = str(inputs[0]).replace(" ", "\\ ")
    obj.with_suffix(".d").write_text(f"{obj}: {escaped} \\\n  {inputs[1]}\n")
    obj.with_suffix(".cmd").write_text(shlex.join(COMMAND))
    return obj, inputs


def test_nothing_is_compiled_twice(built):
    assert not native_build.is_stale(built[0], COMMAND)


@pytest.mark.parametrize("index", [0, 1])
def test_a_newer_source_or_header_is_compiled(built, index):
    obj, inputs = built
    os.utime(inputs[index], (3000, 3000))
    assert native_build.is_stale(obj, COMMAND)


def test_a_vanished_header_is_compiled(built):
    obj, inputs = built
    inputs[1].unlink()
    assert native_build.is_stale(obj, COMMAND)


@pytest.mark.parametrize("suffix", [".o", ".d", ".cmd"])
def test_a_missing_record_is_compiled(built, suffix):
    built[0].with_suffix(suffix).unlink()
    assert native_build.is_stale(built[0], COMMAND)


def test_other_flags_are_compiled(built):
    assert native_build.is_stale(built[0], [*COMMAND, "-g"])


def fake_compiler(folder, message):
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 1\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(native_build.NativeBuildError, match="'no-such-compiler' .*apt install g"):
        native_build.find_toolchain()


def test_without_the_vulkan_headers(monkeypatch, tmp_path):
    message = "fatal error: vulkan/vulkan_core.h: No such file or directory"
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, message))
    with pytest.raises(native_build.NativeBuildError, match="apt install libvulkan-dev") as caught:
        native_build.find_toolchain()
    assert "\n" not in str(caught.value)


def test_with_a_flag_that_the_compiler_refuses(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", fake_compiler(tmp_path, "error: what is -fsparkle"))
    monkeypatch.setenv("CXXFLAGS", "-fsparkle")
    with pytest.raises(native_build.NativeBuildError, match="what is -fsparkle"):
        native_build.find_toolchain()


def test_without_tvm():
    with pytest.raises(native_build.NativeBuildError, match="no_such_package .*not installed"):
        native_build.package_dir("no_such_package")


def test_the_library_finds_tvm_beside_it_wherever_it_is_installed():
    toolchain = native_build.Toolchain(("g++",), (), (), (), (Path("lib"),))
    command = toolchain.link_command([Path("a.o")], ["$ORIGIN/../../tvm/lib", "/x"], "lib.so")
    assert "-Wl,-rpath,$ORIGIN/../../tvm/lib:/x" in command
    assert "-lvulkan" not in command
