"""How drivers for absent devices are found and started, and what is said where they are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tvm_vision.errors import DeviceError, InputError
from tvm_vision.offline import drivers, intel, machines, pipelines, unpacked
from tvm_vision.offline.network import Kernel


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any drivers, on a system without any."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(drivers, "_STOCK", (str(tmp_path / "icd.d"),))
    return tmp_path


def unpack(home: Path) -> Path:
    root = home / "tvm_vision" / "drivers"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "ld-linux-x86-64.so.2").touch()
    (root / unpacked.MANIFEST).write_text('{"mesa-drm-shim": "26.1.6-1"}')
    return root


def test_every_machine_has_a_driver(home: Path) -> None:
    root = unpack(home)
    for device in machines.MACHINES:
        found = drivers.find(device)
        assert found.opens and found.launcher[0].startswith(str(root))


def test_what_is_unpacked_is_told() -> None:
    found = unpacked.find()
    assert found is None or "mesa-drm-shim" in found.versions


def test_without_drivers_the_remedy_is_named(home: Path) -> None:
    with pytest.raises(DeviceError, match=r"compiles for phoenix .* --install brings them"):
        drivers.find("phoenix")
    with pytest.raises(InputError, match="renoir, rembrandt, phoenix, strix, tgl.*found 'gtx'"):
        drivers.find("gtx")


def test_a_damaged_folder_counts_as_none(home: Path) -> None:
    root = unpack(home)
    (root / unpacked.MANIFEST).write_text("{")
    assert unpacked.find() is None
    (root / unpacked.MANIFEST).write_text("{}")
    assert unpacked.find() is not None
    (root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2").unlink()
    assert unpacked.find() is None


def test_the_systems_driver_compiles_where_nothing_was_unpacked(home: Path) -> None:
    (home / "icd.d").mkdir()
    (home / "icd.d" / "radeon_icd.x86_64.json").touch()
    found = drivers.find("renoir")
    assert found.settings["RADV_FORCE_FAMILY"] == "renoir" and not found.opens
    with pytest.raises(DeviceError, match="phoenix"):
        drivers.find("phoenix")


def test_a_driver_is_started_with_its_own_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", "another.json")
    monkeypatch.setenv("LD_PRELOAD", "/nothing.so")
    monkeypatch.setenv("RADV_DEBUG", "nocache")
    program = "import json, os, sys; print(json.dumps(dict(os.environ)), sys.stdin.read())"
    driver = drivers.Driver("renoir", {"AMDGPU_GPU_ID": "renoir"})
    said = driver.run([sys.executable, "-c", program], "asked").stdout
    environment = json.loads(said.rpartition(" ")[0])
    assert said.endswith("asked\n")
    assert environment["AMDGPU_GPU_ID"] == "renoir"
    assert environment["MESA_SHADER_CACHE_DISABLE"] == "1"
    assert not {"VK_ICD_FILENAMES", "LD_PRELOAD", "RADV_DEBUG"} & set(environment)


def test_no_debian_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacked, "KEYRING", home / "no-keyring.gpg")
    with pytest.raises(InputError, match=r"apt .* is needed"):
        unpacked.install(print)


def program(home: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Put a program before others of its name."""
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_mirror_without_the_suite_is_said_in_apts_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked, "KEYRING", home)
    answer = 'test "$1" = indextargets && echo "Debian main http://mirror.invalid/debian/" && exit'
    program(home, monkeypatch, "apt-get", f"{answer}\necho 'E: no such suite' >&2; exit 100")
    with pytest.raises(InputError, match="the lists of Debian trixie cannot be had: no such suite"):
        unpacked.install(print)
    assert unpacked.find() is None
    program(home, monkeypatch, "apt-get", "exit 0")
    with pytest.raises(InputError, match="apt-get update"):
        unpacked.install(print)


def test_a_driver_that_does_not_answer_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel("sum_kernel", "main", b"\0\0\0\0", (64, 1, 1), 1, 0, False, 0)
    started = '{"device": "Vega", "driver": "radv"}'
    for text, said in (
        ("echo 'no Vulkan loader' >&2; exit 1", "does not start: no Vulkan loader"),
        (f"echo '{started}'; kill -9 $$", "while it compiled kernel sum_kernel"),
        (f"""echo '{started}'; echo '{{"kernel": 0, "result": -13}}'""", "sum_kernel: .* -13"),
    ):
        program(home, monkeypatch, "asked", text)
        monkeypatch.setattr(pipelines, "build_program", lambda: home / "bin" / "asked")
        with pytest.raises(DeviceError, match=said):
            pipelines.compile_kernels([kernel], drivers.Driver("renoir", {}))


def test_a_compiler_that_is_missing_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(home))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match="a compiler is needed .* 'no-such-compiler'"):
        pipelines.build_program()
    with pytest.raises(InputError, match="absent_i915.c.* cannot be built"):
        intel.stand_in(unpacked.Unpacked(home / "without-headers", {}))


def test_a_program_is_built_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(home))
    made = pipelines.build_program()
    at = made.stat().st_mtime_ns
    assert pipelines.build_program() == made and made.stat().st_mtime_ns == at


def test_an_intel_gpu_is_described_by_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(home))
    said = intel.settings("tgl")
    assert intel.settings("tgl") == said != intel.settings("mtl")
    assert said["ABSENT_GPU_ID"] == "0x9a49" and said["ABSENT_GPU_SUBSLICES"] == "6"
    device = Path(said["ABSENT_GPU_FILES"]) / "sys/dev/char/226:128/device"
    assert (device / "device").read_text() == "0x9a49\n"
    assert (device / "subsystem").resolve().name == "pci"
    assert "PCI_SLOT_NAME" in (device / "uevent").read_text()
