"""The choice of a device as a pure function, and the line that tells of it."""

from dataclasses import replace

import pytest

from tvm_vision.errors import DeviceError, InputError
from tvm_vision.runtime.device import choose_device, choose_gpu, plan_choice

GPU = "vulkan(0): Robot GPU (integrated GPU; radv Mesa 25.0.7; Vulkan 1.4.305)"
LAVAPIPE = "vulkan(1): llvmpipe (a CPU implementation of Vulkan, no GPU; Vulkan 1.3.230)"
NO_LOADER = "the Vulkan loader libvulkan.so.1 was not found: apt install libvulkan1"


@pytest.mark.parametrize(
    ("wanted", "devices", "status", "kind", "description"),
    [
        ("auto", [GPU], "", "vulkan", GPU),
        ("vulkan", [GPU, LAVAPIPE], "", "vulkan", GPU),
        ("cpu", [GPU], "", "cpu", "CPU through LLVM, as asked"),
        ("auto", [], NO_LOADER, "cpu", f"CPU through LLVM, without Vulkan: {NO_LOADER}"),
    ],
)
def test_choice(wanted, devices, status, kind, description):
    choice = plan_choice(wanted, devices, status)
    assert (choice.kind, choice.description) == (kind, description)


def test_no_fallback_when_vulkan_is_asked_for():
    with pytest.raises(DeviceError, match="a Vulkan device is needed: the Vulkan loader .* apt"):
        plan_choice("vulkan", [], NO_LOADER)


def test_no_fallback_when_a_device_is_named(monkeypatch):
    from tvm_vision import vulkan

    monkeypatch.setenv("TVM_VISION_VULKAN_DEVICE", "toaster")
    monkeypatch.setattr(vulkan, "devices", list)
    monkeypatch.setattr(vulkan, "status", lambda: "no device is called toaster")
    with pytest.raises(DeviceError, match="no device is called toaster"):
        choose_device("auto")


def test_an_unknown_word_is_refused():
    with pytest.raises(InputError, match="auto, vulkan, cpu is needed, found 'gpu': use vulkan$"):
        choose_device("gpu")


def test_cpu_needs_no_vulkan():
    device = choose_device("cpu").tvm_device()
    assert device.dlpack_device_type() == 1


@pytest.mark.parametrize(
    ("wanted", "is_cpu", "named", "kind"),
    [
        ("auto", False, "", "vulkan"),
        ("auto", True, "", "cpu"),
        ("auto", True, "llvmpipe", "vulkan"),
        ("vulkan", True, "", "vulkan"),
        ("cpu", False, "", "cpu"),
    ],
)
def test_a_cpu_implementation_is_no_gpu(wanted, is_cpu, named, kind, device_info, monkeypatch):
    """But where it is asked for, by --device or by the environment."""
    from tvm_vision import vulkan

    device = replace(device_info, type="cpu" if is_cpu else "integrated")
    monkeypatch.setattr(vulkan, "devices", lambda: [device])
    monkeypatch.setattr(vulkan, "device_options", lambda: {"TVM_VISION_VULKAN_DEVICE": named})
    choice = choose_gpu(wanted)
    assert choice.kind == kind
    left_out = wanted == "auto" and is_cpu and not named
    assert ("--device vulkan" in choice.description) == left_out
