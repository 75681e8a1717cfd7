"""One package for several devices, by every command that takes packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tvm_vision
from support import handmade
from tvm_vision.errors import InputError
from tvm_vision.package import read_fleet


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Path:
    """For a device that is not here, one that is, and the processor; and the model beside it."""
    folder = tmp_path_factory.mktemp("team")
    model = handmade.write_model(folder / "tiny.onnx")
    targets = ("renoir", "vulkan", "llvm")
    tvm_vision.compile_fleet(model, folder / "team.tar", targets=targets, name="tiny")
    return folder / "team.tar"


def test_compile_writes_what_the_library_does(command, team, tmp_path):
    path = tmp_path / "again.tar"
    words = ("--target", "renoir,vulkan,llvm")
    result = command("compile", team.with_name("tiny.onnx"), "-o", path, *words)
    assert result.exit_code == 0, result.output
    assert path.read_bytes() == team.read_bytes()
    first, *lines = result.stdout.splitlines()
    assert first.startswith(f"wrote {path}: ") and first.endswith(" for 3 devices")
    assert [line.split(":")[0] for line in lines[:3]] == ["renoir", "vulkan", "llvm"]
    assert lines[3:] == ["kind: network"]


@pytest.mark.parametrize(
    ("target", "device"), [((), "vulkan(0)"), (("--target", "llvm"), "cpu(0)")]
)
def test_commands_take_the_variant_for_this_machine_or_the_named(command, team, target, device):
    model = team.with_name("tiny.onnx")
    words = {
        "run": (), "check": (model,), "benchmark": ("--repeat", "1"), "profile": ("--repeat", "1")
    }  # fmt: skip
    for name, more in words.items():
        result = command(name, team, *more, *target)
        assert result.exit_code == 0, result.output
        assert f"device: {device}" in result.stderr, name


def test_inspect_and_show(command, team, tmp_path):
    result = command("inspect", team)
    lines = [line for line in result.stdout.splitlines() if line.startswith("variant")]
    shown = ["renoir (AMD", "* vulkan", "llvm ("]
    assert all(words in line for words, line in zip(shown, lines, strict=True))
    document = json.loads(command("inspect", team, "--target", "renoir", "--json").stdout)
    assert "RENOIR" in document["target"]["device_name"]
    picture = tmp_path / "net.svg"
    result = command("show", team, "--target", "llvm", "-o", picture)
    assert result.exit_code == 0, result.output
    assert picture.exists()


def test_one_line_where_there_is_no_such_variant(refuses, team, tiny_package):
    assert "a target of renoir, vulkan, llvm is needed, found 'tgl'" in refuses(
        "run", team, "--target", "tgl"
    )
    assert "leave the target out" in refuses("run", tiny_package, "--target", "tgl")


def test_a_variant_for_a_processor_opens_no_vulkan_device(team, monkeypatch):
    def opened(*arguments):
        raise AssertionError("opened")

    for name in ("begin_to_open_device", "devices"):
        monkeypatch.setattr(f"tvm_vision.vulkan.{name}", opened)
    assert tvm_vision.load(team, target="llvm").device.type == "cpu"
    assert tvm_vision.load(team, "cpu").device.type == "cpu"


def test_unpack_takes_one_out(command, team, tmp_path):
    """Which is what compiling for its target alone writes."""
    folder, alone = tmp_path / "llvm", tmp_path / "alone"
    assert command("package", "unpack", team, folder, "--target", "llvm").exit_code == 0
    assert read_fleet(folder) is None
    assert command("run", folder).exit_code == 0
    tvm_vision.compile(team.with_name("tiny.onnx"), alone, target="llvm", name="tiny")
    for member in ("mod.json", "mod.so", "mod.params"):
        assert (folder / member).read_bytes() == (alone / member).read_bytes()


def test_names_of_targets(tmp_path, team):
    with pytest.raises(InputError, match="of different names are needed"):
        tvm_vision.compile_fleet(
            team.with_name("tiny.onnx"), tmp_path / "t.tar", targets=("llvm", "llvm")
        )
