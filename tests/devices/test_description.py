"""Descriptions of devices: from a device to a file and back, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tvm.target import Target

from tvm_vision import vulkan
from tvm_vision.devices import DeviceDescription, known_devices, read_description
from tvm_vision.devices.description import ATTRIBUTES, DRIVER, PUBLISHED
from tvm_vision.errors import InputError
from tvm_vision.schedules import TargetLimits

RENOIR = known_devices()["renoir"]


def test_a_device_becomes_a_file_and_a_target_that_is_the_same(
    device_info: vulkan.DeviceInfo, tmp_path: Path
) -> None:
    """All that a target for the device itself has, and nothing else."""
    DeviceDescription.of(device_info).write(tmp_path / "robot.json")
    read = read_description(tmp_path / "robot.json")
    assert read == DeviceDescription.of(device_info)
    asked = Target({"kind": "vulkan", "from_device": 0})
    made = Target(read.target_config())
    assert dict(made.attrs) == dict(asked.attrs)
    assert list(made.keys) == list(asked.keys)
    assert TargetLimits.of(made) == TargetLimits.of(asked)


def test_descriptions_have_every_attribute_that_the_backend_tells() -> None:
    """Those of a target that TVM does not fill in by itself."""
    made = json.loads(str(Target({"kind": "vulkan", "from_device": 0})))
    assert set(made) - {"kind", "tag", "keys", "host"} == set(ATTRIBUTES)


def without(name: str) -> dict[str, Any]:
    document = RENOIR.to_json()
    holder = document if name in document else document["attributes"]
    del holder[name]
    return document


@pytest.mark.parametrize("name", [*RENOIR.to_json(), *ATTRIBUTES])
def test_a_field_that_is_missing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.json"
    path.write_text(json.dumps(without(name)))
    with pytest.raises(InputError, match=f"field .*{name} is missing: write it again"):
        read_description(path)


def changed(name: str, value: Any) -> dict[str, Any]:
    document = RENOIR.to_json()
    holder = document["attributes"] if name in ATTRIBUTES else document
    holder[name] = value
    return document


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("format", "tvm", "format must be 'tvm_vision device', found \"tvm\""),
        ("format_version", 2, "format_version must be 1, as this tvm_vision reads it, found 2"),
        ("format_version", True, "format_version must be 1"),
        ("origin", "a friend", "origin must be one of 'driver', 'published'"),
        ("machine", "sparc", "machine must be one of '', 'x86_64', 'aarch64'"),
        ("title", "two\nlines", "title must be a line of at most 256 characters"),
        ("device_name", "x" * 257, "attributes.device_name must be a line of at most 256"),
        ("device_type", "toaster", "attributes.device_type must be one of 'discrete'"),
        ("thread_warp_size", 24, "attributes.thread_warp_size must be a power of two, found 24"),
        ("thread_warp_size", 256, "attributes.thread_warp_size must be a whole number from 1 to"),
        ("max_threads_per_block", "256", 'must be a whole number from 128 to 65536, found "256"'),
        ("max_threads_per_block", 64, "must be a whole number from 128 to 65536, found 64"),
        ("max_block_size_z", 8, "attributes.max_block_size_z must be a whole number from 64 to"),
        ("max_shared_memory_per_block", 1024, "must be a whole number from 16384 to"),
        ("supports_int64", 1, "attributes.supports_int64 must be true or false, found 1"),
        ("keys", ["compute_units_0"], "keys\\[0\\] must be a key such as compute_units_8"),
        ("keys", ["from_device"], "keys\\[0\\] must be a key"),
        ("keys", "compute_units_8", "keys must be a list"),
        ("attributes", [], "attributes must be an object"),
        ("surplus", 1, "the field surplus is not known"),
    ],
)
def test_a_field_that_is_wrong(name: str, value: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.json"
    path.write_text(json.dumps(changed(name, value)))
    with pytest.raises(InputError, match=says) as error:
        read_description(path)
    assert str(error.value).startswith(f"'{path}': ") and "\n" not in str(error.value)


@pytest.mark.parametrize("name", known_devices())
def test_those_that_come_along(name: str) -> None:
    known = known_devices()[name]
    target = Target(known.target_config())
    assert target.attrs["device_name"] == known.name
    assert TargetLimits.of(target).threads == known.attributes["max_threads_per_block"]
    if known.origin == PUBLISHED:
        assert "src/" in known.source, "the source that the numbers are from"
    else:
        assert known.origin == DRIVER and known.driver


def test_a_host_of_another_processor_is_named() -> None:
    here = dataclasses.replace(RENOIR, machine="")
    assert here.target_config()["host"] == {"kind": "llvm"}
    for machine in ("x86_64", "aarch64"):
        host = dataclasses.replace(RENOIR, machine=machine).target_config()["host"]
        assert host.get("mtriple", f"{machine}-linux-gnu") == f"{machine}-linux-gnu"
