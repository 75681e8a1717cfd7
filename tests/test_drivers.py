"""How drivers are called: as their makers write them, in records, packages and what is shipped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tvm_vision.compiler import parse_target
from tvm_vision.drivers import driver_of, spelled_out
from tvm_vision.package import PackageDevice
from tvm_vision.tuning.choose import SHIPPED
from tvm_vision.tuning.places import place_of
from tvm_vision.tuning.records import Record, TuningKey

# driverVersion of drivers, as devices tell it, and what their makers call that version.
VERSIONS = [
    ("NVIDIA", 2435301632, "NVIDIA 580.159.4"),
    ("NVIDIA", 580 << 22 | 65 << 14 | 6 << 6, "NVIDIA 580.65.6"),
    ("NVIDIA", 470 << 22 | 256 << 14 | 2 << 6 | 1, "NVIDIA 471.0.2.1"),
    ("NVK", 25 << 22 | 7, "NVK 25.0.7"),
    ("radv", 25 << 22 | 3 << 12 | 6, "radv 25.3.6"),
    ("AMD proprietary driver", 2 << 22 | 341, "AMD proprietary driver 2.0.341"),
    ("llvmpipe", 1, "llvmpipe 0.0.1"),
    ("", 1, "0.0.1"),
]


@pytest.mark.parametrize(("name", "packed", "called"), VERSIONS)
def test_versions_are_as_makers_write_them(name, packed, called):
    assert driver_of({"driver_name": name, "driver_version": packed}) == called
    assert spelled_out(f"{name} {packed}".strip()) == called
    assert spelled_out(called) == called  # what is written out stays


@pytest.mark.parametrize(
    "text", ["", "llvm", "NVIDIA", "driver 2.0", "NVIDIA 99999999999", "é 1.2"]
)
def test_other_texts_stay(text):
    assert spelled_out(text) == text


def test_files_of_former_versions_are_read_as_if_written_now():
    now = TuningKey("NVIDIA H200", "NVIDIA 580.159.4", "fp16")
    line = Record(
        "k", "conv", now, {"template": "direct_conv", "parameters": {}}, (1e-5,)
    ).to_json()
    former = line.replace("580.159.4", "2435301632")
    assert former != line and Record.from_json(former).to_json() == line
    info = PackageDevice.from_json({"name": now.device, "driver": "NVIDIA 2435301632"})
    assert info.driver == now.driver


def test_shipped_records_are_spelled_as_devices_are():
    """What is shipped for a device has to be found there."""
    files = sorted(SHIPPED.glob("*.jsonl"))
    assert files
    for path in files:
        for line in path.read_text("utf-8").splitlines():
            assert Record.from_json(line).to_json() == line


def test_a_target_and_its_packages_have_one_driver():
    from tvm_vision.api import _device_of

    target = parse_target(
        '{"kind": "vulkan", "device_name": "H", "driver_name": "NVIDIA",'
        ' "driver_version": 2435301632}'
    )
    compiled: Any = SimpleNamespace(target=target)
    assert _device_of(compiled) == PackageDevice("H", "NVIDIA 580.159.4")
    assert place_of(target, "fp32") == TuningKey("H", "NVIDIA 580.159.4", "fp32")
