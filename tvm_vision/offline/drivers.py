"""How a driver is had to compile for a device that this machine has not.

Something stands in for the kernel's side of the device, and the driver opens it with memory and
queues, everything but execution: for AMD's driver in Mesa (RADV) ``mesa-drm-shim``, for Intel's a
library of this project's own (intel.py). Where only the system's Mesa is there, RADV_FORCE_FAMILY
makes AMD's compile for a family; there is no memory then, so that nothing but pipelines can be
made.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DeviceError, InputError
from . import intel, unpacked
from .finishing import finished

# What the shim and RADV call each device that this version describes (machines.py). RADV's families
# are those that Debian 12's knows.
SHIM_NAMES = {"renoir": "renoir", "rembrandt": "rembrandt", "phoenix": "phoenix", "strix": "strix1"}
FAMILIES = {"renoir": "renoir", "rembrandt": "rembrandt"}
DEVICES = (*SHIM_NAMES, *intel.GPUS)
# A driver compiles the largest kernels in seconds, and all of a network in minutes.
PATIENCE = 1800.0
_STOCK = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")
# Of the caller's: another driver, layers, and what is loaded into every process.
_FOREIGN = (
    "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_INSTANCE_LAYERS",
    "VK_LOADER_LAYERS_ENABLE", "LD_PRELOAD", "LD_LIBRARY_PATH", "RADV_DEBUG", "RADV_PERFTEST",
    "ACO_DEBUG", "MESA_LOADER_DRIVER_OVERRIDE",
)  # fmt: skip


@dataclass(frozen=True)
class Driver:
    """A driver as it is started for one device.

    Attributes:
        device: by the name that machines.py has.
        settings: environment variables that make it compile for the device.
        launcher: what a command begins with, so that it runs with this driver's libraries.
        opens: whether the driver opens the device with memory, and does not only compile.
    """

    device: str
    settings: Mapping[str, str]
    launcher: tuple[str, ...] = ()
    opens: bool = False
    _unset: tuple[str, ...] = field(default=_FOREIGN, repr=False)

    def run(self, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program with this driver; ``text`` is its input.

        Raises DeviceError for one that does not end.
        """
        environment = {k: v for k, v in os.environ.items() if k not in self._unset}
        environment |= {"MESA_SHADER_CACHE_DISABLE": "1", **self.settings}
        late = DeviceError(
            f"kernels compiled by the driver for {self.device} are needed, and it did not end in "
            f"{PATIENCE:g} s: name fewer networks, or another device"
        )
        return finished([*self.launcher, *command], PATIENCE, late, environment, text)


def find(device: str) -> Driver:
    """The driver for a device, unpacked or the system's.

    Raises InputError for a device that no driver is known to compile for, DeviceError where there
    is no driver that can.
    """
    if device not in DEVICES:
        raise InputError(
            f"a device of {', '.join(DEVICES)} is needed to compile without it, found '{device}'"
        )
    found = unpacked.find()
    if found is not None:
        return _shimmed(device, found)
    stock = next((path for each in _STOCK for path in Path(each).glob("radeon_icd*.json")), None)
    if device in FAMILIES and stock is not None:
        return Driver(device, {"RADV_FORCE_FAMILY": FAMILIES[device], **_icd(stock)})
    raise DeviceError(
        f"a driver that compiles for {device} without it is needed, and none was unpacked into "
        f"'{unpacked.folder()}': {unpacked.REMEDY}"
    )


def _shimmed(device: str, found: unpacked.Unpacked) -> Driver:
    libraries, manifests = found.libraries, found.root / "usr/share/vulkan/icd.d"
    if device in SHIM_NAMES:
        stand_in = libraries / "libamdgpu_noop_drm_shim.so"
        settings = {"AMDGPU_GPU_ID": SHIM_NAMES[device], **_icd(manifests / "radeon_icd.json")}
    else:
        stand_in = intel.stand_in(found)
        settings = {**intel.settings(device), **_icd(manifests / "intel_icd.json")}
    launcher = (
        str(found.linker), "--library-path", str(libraries), "--preload", str(stand_in),
    )  # fmt: skip
    return Driver(device, settings, launcher, opens=True)


def _icd(manifest: Path) -> dict[str, str]:
    # The second name is that of loaders before 1.3.207.
    return {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)}
