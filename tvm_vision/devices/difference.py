"""What it means that a package was made for another device than the one it is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..target_keys import FLOAT16_MATRICES, INT8_MATRICES, matrices_in

if TYPE_CHECKING:
    from ..vulkan import DeviceInfo

# What a package may use as much of as its device had: in words, and bytes in a unit.
_LIMITS = {
    "max_threads_per_block": ("threads a workgroup", 1),
    "max_shared_memory_per_block": ("KiB of shared memory", 1024),
    "max_push_constants_size": ("bytes of push constants", 1),
    "max_per_stage_descriptor_storage_buffer": ("storage buffers a kernel", 1),
    "max_storage_buffer_range": ("MiB a buffer", 1 << 20),
}
_FEATURES = (
    "float16", "float64", "int8", "int16", "int64", "8bit_buffer", "16bit_buffer",
    "integer_dot_product",
)  # fmt: skip
_MATRICES = {FLOAT16_MATRICES: "float16", INT8_MATRICES: "int8"}
REMEDY = (
    "compile it with --target vulkan here, or with --target robot.json elsewhere, which "
    "'tvm-vision devices --export robot.json' writes here"
)


def difference(target: Mapping[str, Any], device: DeviceInfo) -> str:
    """One line where a package was made for another device, with what that means and what to do;
    "" for its own device, one that is equal to it, or where the target names none.

    target: of the package, as mod.json has it. Whether its kernels need what this device lacks is
    told when they are loaded.
    """
    made_for = str(target.get("device_name", ""))
    if target.get("kind") != "vulkan" or made_for in ("", device.name):
        return ""
    lacks, differs = lacking(target, device), _lanes(target, device)
    if not lacks and not differs and not _gains(target, device):
        return ""
    less = f"or be refused, for here is less than it was made with ({', '.join(lacks)})"
    less = f"{less}; " if lacks else ""
    return (
        f"made for {made_for}, and this is {device.name}: it may be slower than it could "
        f"be{differs}, {less}{REMEDY}"
    )


def lacking(target: Mapping[str, Any], device: DeviceInfo) -> list[str]:
    """What this device has less of than a target, each in words."""
    found = []
    for name, (words, unit) in _LIMITS.items():
        made, here = int(target.get(name, 0)), int(device.properties[name])
        if here < made:
            found.append(f"{here // unit} of {made // unit} {words}")
    for name in _FEATURES:
        if target.get(f"supports_{name}", False) and not device.properties[f"supports_{name}"]:
            found.append(f"no {name.replace('_', ' ')}")
    for of, words in _MATRICES.items():
        here_too = matrices_in(device.target_keys, of)
        missing = [s for s in matrices_in(target.get("keys", ()), of) if s not in here_too]
        found += [f"no {'x'.join(map(str, shape))} matrices of {words}" for shape in missing]
    return found


def _gains(target: Mapping[str, Any], device: DeviceInfo) -> bool:
    """Whether this device has more, which kernels made for it would use."""
    more = any(device.properties[name] > target.get(name, 0) for name in _LIMITS)
    flags = (f"supports_{name}" for name in _FEATURES)
    matrices = any(
        set(matrices_in(device.target_keys, of)) - set(matrices_in(target.get("keys", ()), of))
        for of in _MATRICES
    )
    return more or matrices or any(device.properties[f] and not target.get(f) for f in flags)


def _lanes(target: Mapping[str, Any], device: DeviceInfo) -> str:
    made, here = int(target.get("thread_warp_size", 0)), device.thread_warp_size
    return f" (subgroups of {here} lanes, made for {made})" if made not in (0, here) else ""
