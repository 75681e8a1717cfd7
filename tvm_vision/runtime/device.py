"""Which device a network runs on, said in one line: never a silent fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError
from .choices import need_device


@dataclass(frozen=True)
class DeviceChoice:
    """A device and why: ``kind`` is "vulkan" or "cpu", ``description`` one line for people."""

    kind: str
    description: str

    def tvm_device(self) -> Any:
        """The tvm.runtime.Device; for Vulkan, the backend is registered first."""
        from ..tvm_compat.ffi import tvm_ffi

        return tvm_ffi.device(self.kind, 0)


def choose_device(wanted: str = "auto") -> DeviceChoice:
    """The first Vulkan device, or TVM's CPU path where there is none.

    wanted: "auto", "vulkan" (no fallback) or "cpu". With TVM_VISION_VULKAN_DEVICE set, "auto" is
    "vulkan".

    Raises DeviceError when "vulkan" is wanted and there is none, InputError for a wrong value in
    the environment and for another word.
    """
    need_device(wanted)
    if wanted == "cpu":
        return plan_choice(wanted, (), "")
    from tvm_vision import vulkan

    if wanted == "auto" and vulkan.device_options()["TVM_VISION_VULKAN_DEVICE"]:
        # Who names a device does not want another one.
        wanted = "vulkan"
    return plan_choice(wanted, [info.describe() for info in vulkan.devices()], vulkan.status())


def choose_gpu(wanted: str = "auto") -> DeviceChoice:
    """As ``choose_device``, where "auto" takes no CPU implementation of Vulkan, such as lavapipe:
    kernels that are written for a GPU take it many times as long as LLVM's take the same CPU."""
    choice = choose_device(wanted)
    if wanted != "auto" or choice.kind != "vulkan":
        return choice
    from tvm_vision import vulkan

    first = vulkan.devices()[0]
    if not first.is_cpu or vulkan.device_options()["TVM_VISION_VULKAN_DEVICE"]:
        return choice
    return DeviceChoice(
        "cpu",
        f"CPU through LLVM, without a GPU: {first.name}, a CPU implementation of Vulkan, computes "
        "the same, slowly; --device vulkan shows it",
    )


def plan_choice(wanted: str, devices: Sequence[str], status: str) -> DeviceChoice:
    """The choice as a function of what there is.

    devices: a line for each Vulkan device; status: why there is none.
    """
    if wanted == "cpu":
        return DeviceChoice("cpu", "CPU through LLVM, as asked")
    if devices:
        return DeviceChoice("vulkan", devices[0])
    if wanted == "vulkan":
        raise DeviceError(f"a Vulkan device is needed: {status}")
    return DeviceChoice("cpu", f"CPU through LLVM, without Vulkan: {status}")
