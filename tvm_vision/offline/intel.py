"""Intel's GPUs as their driver sees them where they are not: a preloaded library answers for i915.

Debian has no stand-in for the kernel's side of Intel's GPUs, so that this project has one of its
own (absent_i915.c), which is compiled where it is first needed against the kernel's header that the
unpacked packages bring. The device's files are real ones, in a folder of the cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..whole_files import whole
from .native import build, programs
from .unpacked import Unpacked

SOURCE = Path(__file__).with_name("absent_i915.c")
_NODE = "dev/dri/renderD128"
_DEVICE = "sys/dev/char/226:128/device"


@dataclass(frozen=True)
class Gpu:
    """One of Intel's GPUs.

    Attributes:
        title: for people, with the processors that have it.
        pci: its number.
        subslices: Xe cores (dual subslices), of its one slice.
        units: execution units of a subslice.
        memory: bytes of its own; 0 where it shares the processor's.
    """

    title: str
    pci: int
    subslices: int
    units: int = 16
    memory: int = 0


# Numbers of PCI devices and units: vulkan/device_keys.py has their sources.
GPUS = {
    "tgl": Gpu("Iris Xe, 96 units (Core i7-1165G7)", 0x9A49, 6),
    "adl": Gpu("Iris Xe, 96 units (Core i7-1260P)", 0x46A6, 6),
    "arc": Gpu("Arc A770, 512 units", 0x56A0, 32, memory=16 << 30),
    "mtl": Gpu("Arc graphics, 128 units (Core Ultra 7 155H)", 0x7D55, 8),
}


def settings(device: str) -> dict[str, str]:
    """Environment variables by which the preloaded library answers for a device.

    Raises InputError where its files cannot be written.
    """
    gpu = GPUS[device]
    return {
        "ABSENT_GPU_FILES": str(_files(gpu)),
        "ABSENT_GPU_ID": hex(gpu.pci),
        "ABSENT_GPU_SLICES": "1",
        "ABSENT_GPU_SUBSLICES": str(gpu.subslices),
        "ABSENT_GPU_EUS": str(gpu.units),
        "ABSENT_GPU_MEMORY": str(gpu.memory),
    }


def stand_in(found: Unpacked) -> Path:
    """The library to preload. Raises InputError where it cannot be built."""
    headers = found.root / "usr/include/libdrm"
    options = ["-O1", "-shared", "-fPIC", f"-I{headers}"]
    return build(SOURCE, "absent_i915.so", os.environ.get("CC") or "gcc", options)


def _files(gpu: Gpu) -> Path:
    """A folder with the files of the device that the driver reads, below /dev and /sys."""
    root = programs() / f"i915-{gpu.pci:04x}"
    if root.is_dir():
        return root
    with whole(root) as fresh:
        device, node = fresh / _DEVICE, fresh / _NODE
        (device / "drm" / node.name).mkdir(parents=True)
        node.parent.mkdir(parents=True)
        node.touch()
        bus = fresh / "sys/bus/pci"
        bus.mkdir(parents=True)
        (device / "subsystem").symlink_to(os.path.relpath(bus, device))
        numbers = {
            "vendor": 0x8086, "device": gpu.pci, "subsystem_vendor": 0x8086,
            "subsystem_device": 0, "revision": 1,
        }  # fmt: skip
        for name, number in numbers.items():
            (device / name).write_text(f"{number:#06x}\n")
        (device / "uevent").write_text("DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n")
    return root
