"""The GPUs that the kernel knows, and whether this user may open them."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .finding import FAIL, OK, WARN, Finding, Machine, read

# PCI vendor -> its name, the kernel's module, what brings its Vulkan driver.
VENDORS = {
    "0x1002": ("AMD", "amdgpu", "apt install mesa-vulkan-drivers"),
    "0x8086": ("Intel", "i915", "apt install mesa-vulkan-drivers"),
    "0x10de": ("NVIDIA", "nvidia", "install NVIDIA's driver with its Vulkan part (libnvidia-gl)"),
}
# Nodes without a GPU behind them.
VIRTUAL = {"vgem", "vkms"}
# The kernel's class of PCI devices that display or compute in three dimensions.
DISPLAY = "0x03"
GROUPS = ("render", "video")
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True)
class Gpu:
    """A GPU as the kernel has it: name for people, its module, and what brings its driver."""

    name: str
    module: str
    install: str


def expected(machine: Machine) -> list[Gpu]:
    """The GPUs of this machine, with a driver for Vulkan or without."""
    found = []
    for device in machine.glob("/sys/bus/pci/devices/*"):
        vendor = VENDORS.get(read(device / "vendor"))
        if vendor and read(device / "class").startswith(DISPLAY):
            name, module, install = vendor
            found.append(Gpu(f"{name} GPU at {device.name}", module, install))
    if not found:
        # A system on a chip has its GPU on no PCI bus.
        for node in machine.glob("/sys/class/drm/renderD*"):
            module = _module(node)
            if module not in VIRTUAL:
                install = "apt install mesa-vulkan-drivers, or its vendor's driver"
                found.append(Gpu(f"GPU of {module or 'an unknown driver'}", module, install))
    return found


def _module(node: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(node / "device" / "driver").rpartition("/")[2]
    return ""


def check_nodes(machine: Machine) -> Iterator[Finding]:
    """/dev/dri and NVIDIA's nodes: whether each GPU has one that this user may open."""
    nodes = [*machine.glob("/dev/dri/renderD*"), *machine.glob("/dev/nvidia[0-9]*")]
    gpus = expected(machine)
    if not nodes:
        yield _no_nodes(machine, gpus)
        return
    closed = [node for node in nodes if not machine.may(node, os.R_OK | os.W_OK)]
    names = ", ".join(machine.name(node) for node in nodes if node not in closed)
    if not closed:
        yield Finding("device nodes", OK, f"{names} can be opened")
        return
    state = FAIL if len(closed) == len(nodes) else WARN
    words = f"this user may not open {', '.join(map(machine.name, closed))}"
    words += f" ({names} can be opened)" if names else ""
    yield Finding("device nodes", state, words, _to_open(machine, closed[0]))


def _no_nodes(machine: Machine, gpus: list[Gpu]) -> Finding:
    if not gpus:
        return Finding(
            "device nodes", WARN, "no GPU is known to the kernel, and /dev/dri has no node",
            "on a machine with a GPU load its module, as 'sudo modprobe amdgpu'; networks run on "
            "the processor meanwhile",
        )  # fmt: skip
    remedy = f"sudo modprobe {gpus[0].module}, and look at 'sudo dmesg | grep {gpus[0].module}'"
    if _in_container(machine):
        nodes = "--gpus all" if gpus[0].module == "nvidia" else "--device /dev/dri"
        remedy = f"start the container with {nodes}"
    return Finding("device nodes", FAIL, f"{gpus[0].name}, and no device node for it", remedy)


def _to_open(machine: Machine, node: Path) -> str:
    """What lets this user open a node."""
    with contextlib.suppress(OSError):
        owner = node.stat().st_gid
        try:
            group = grp.getgrgid(owner).gr_name
        except KeyError:
            return f"start the container with --group-add {owner}"
        if group in _memberships(_user()) and owner not in os.getgroups():
            return f"log in again: the group {group} counts from the next login on"
    return "sudo usermod -aG render,video $USER, then log in again"


def check_groups(machine: Machine) -> Iterator[Finding]:
    """The groups of GPUs and cameras, and cameras that this user may not open."""
    user = _user()
    groups = _memberships(user)
    cameras = machine.glob("/dev/video*")
    closed = [camera for camera in cameras if not machine.may(camera, os.R_OK | os.W_OK)]
    if closed:
        yield Finding(
            "groups", WARN, f"this user may not open {', '.join(map(machine.name, closed))}",
            "sudo usermod -aG video $USER, then log in again",
        )  # fmt: skip
        return
    are = " and ".join(name for name in GROUPS if name in groups)
    words = f"in {are}" if are else "in neither render nor video, which no node here asks for"
    yield Finding("groups", OK, f"{user} is {words}")


def _user() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


def _memberships(user: str) -> set[str]:
    """Names of the groups that the group database gives a user."""
    return {group.gr_name for group in grp.getgrall() if user in group.gr_mem}


def _in_container(machine: Machine) -> bool:
    return any(machine.path(path).exists() for path in CONTAINER_FILES)
