"""What is said of a package that was made for another device."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_vision import vulkan
from tvm_vision.devices import DeviceDescription
from tvm_vision.devices.difference import difference


@pytest.fixture
def own(device_info: vulkan.DeviceInfo) -> dict[str, Any]:
    """A target for this machine's device, as mod.json has it, under another name."""
    return {**DeviceDescription.of(device_info).target_config(), "device_name": "Other"}


def test_its_own_device_and_one_that_is_equal(
    own: dict[str, Any], device_info: vulkan.DeviceInfo
) -> None:
    assert difference({**own, "device_name": device_info.name}, device_info) == ""
    assert difference(own, device_info) == ""
    assert difference({"kind": "llvm"}, device_info) == ""
    assert difference({"kind": "vulkan", "max_threads_per_block": 64}, device_info) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_threads_per_block": 4096}, "1024 of 4096 threads a workgroup"),
        ({"max_shared_memory_per_block": 1 << 20}, "of 1024 KiB of shared memory"),
        ({"supports_integer_dot_product": True}, "no integer dot product"),
        ({"keys": ["cooperative_matrix_16x8x24"]}, "no 16x8x24 matrices of float16"),
        ({"keys": ["cooperative_matrix_int8_16x8x24"]}, "no 16x8x24 matrices of int8"),
    ],
)
def test_less_than_it_was_made_with(
    change: dict[str, Any], says: str, own: dict[str, Any], device_info: vulkan.DeviceInfo
) -> None:
    said = difference({**own, **change}, device_info)
    assert said.startswith(f"made for Other, and this is {device_info.name}: it may be slower")
    assert "or be refused, for here is less than it was made with (" in said and says in said
    assert "compile it with --target vulkan here" in said and "\n" not in said


@pytest.mark.parametrize(
    "change", [{"max_threads_per_block": 64}, {"supports_float16": False, "supports_int8": False}]
)
def test_more_than_it_was_made_with(
    change: dict[str, Any], own: dict[str, Any], device_info: vulkan.DeviceInfo
) -> None:
    said = difference({**own, **change}, device_info)
    assert "it may be slower than it could be, compile it with" in said and "refused" not in said


def test_other_subgroups(own: dict[str, Any], device_info: vulkan.DeviceInfo) -> None:
    other = 64 if device_info.thread_warp_size != 64 else 32
    said = difference({**own, "thread_warp_size": other}, device_info)
    assert f"(subgroups of {device_info.thread_warp_size} lanes, made for {other})" in said
