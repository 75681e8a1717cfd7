"""What ``tvm-vision devices --report`` prints: one block to paste where help is asked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tvm_vision import __version__, vulkan
from tvm_vision.devices import DeviceDescription
from tvm_vision.devices.kept import described_here

from .device_lines import describe

OURS = ("TVM_VISION_", "VK_", "RADV_", "MESA_", "TVM_USE_RUNTIME_LIB")


def report_lines() -> Iterator[str]:
    """Versions, machine, environment and devices; nothing that names a user or a file of theirs."""
    yield f"tvm_vision    {__version__}, TVM {_version('apache-tvm')}"
    yield f"python        {platform.python_version()}, {platform.machine()}, {_cpu()}"
    yield f"system        {_system()}, Linux {platform.release()}"
    for name in sorted(os.environ):
        if name.startswith(OURS):
            yield f"environment   {name}"
    found = vulkan.devices()
    if not found:
        # It may name a file that the environment names.
        yield f"no device     {vulkan.status().replace(str(Path.home()), '~')}"
    for device in found:
        yield from describe(device)
        described: DeviceDescription = described_here(device)
        yield f"  keys       {' '.join(described.keys) or 'none'}"
        if described.measured is not None:
            yield from (f"  {line}" for line in described.measured.lines())
        else:
            yield "  measured   no: tvm-vision calibrate"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of another installation"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [
        line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))
    ]
    return f"{names[0] if names else 'processor unknown'}, {os.cpu_count()} threads"


def _system() -> str:
    try:
        return str(platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"))
    except OSError:
        return "unknown system"
