"""Write tvm_vision/devices/known/*.json: descriptions of devices, asked of their own drivers.

No such device is needed. Drivers of a newer Debian lie in a folder of their own (--drivers); what
they ask of a kernel is answered by the package mesa-drm-shim. What cannot be opened so is described
from the source of its driver, which its file names:

  python scripts/known_devices.py --drivers FOLDER --swiftshader FOLDER/vk_swiftshader_icd.json
  python scripts/known_devices.py --intel
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_vision.devices.description import (
    FORMAT,
    FORMAT_VERSION,
    PUBLISHED,
    DeviceDescription,
    read_description,
)
from tvm_vision.devices.known import FOLDER, SUFFIX
from tvm_vision.offline import intel
from tvm_vision.offline.drivers import find

EXPORT = "from tvm_vision.tools.cli import main; main()"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
STOCK = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
SHIM = ", asked through mesa-drm-shim"


@dataclass(frozen=True)
class Simulated:
    """A device that a driver takes for there: its title, driver, shim and the shim's variable."""

    title: str
    icd: str
    shim: str
    variable: tuple[str, str]
    machine: str = "x86_64"


AMD = "radeon_icd.json", "libamdgpu_noop_drm_shim.so"
ADRENO = "freedreno_icd.json", "libfreedreno_noop_drm_shim.so"
SIMULATED = {
    "renoir": Simulated(
        "AMD Vega of Ryzen 4000 and 5000, 7 units", *AMD, ("AMDGPU_GPU_ID", "renoir")
    ),
    "rembrandt": Simulated("AMD Radeon 680M of Ryzen 6000", *AMD, ("AMDGPU_GPU_ID", "rembrandt")),
    "phoenix": Simulated(
        "AMD Radeon 780M of Ryzen 7040 and 8040", *AMD, ("AMDGPU_GPU_ID", "phoenix")
    ),
    "strix": Simulated("AMD Radeon 890M of Ryzen AI 300", *AMD, ("AMDGPU_GPU_ID", "strix1")),
    "adreno-730": Simulated(
        "Qualcomm Adreno 730 of Snapdragon 8 Gen 1", *ADRENO, ("FD_GPU_ID", "730"), "aarch64"
    ),
}
# Debian's V3DV is built for Arm alone. Its numbers differ by release: these hold for all that know
# the device, 24.0 and later, of which newer ones have 32 KiB of shared memory and dot products.
V3D = {
    "format": FORMAT,
    "format_version": FORMAT_VERSION,
    "title": "Broadcom VideoCore VII of the Raspberry Pi 5",
    "origin": PUBLISHED,
    "source": "Mesa 24.0, src/broadcom/vulkan/v3dv_device.c and v3dv_limits.h",
    "machine": "aarch64",
    "attributes": {
        "device_name": "V3D 7.1.7.0",
        "device_type": "integrated",
        "driver_name": "V3DV Mesa",
        "driver_version": 24 << 22,
        "vulkan_api_version": 1 << 22 | 2 << 12 | 255,
        "max_spirv_version": 0x10500,
        "max_num_threads": 256,
        "max_threads_per_block": 256,
        "max_block_size_x": 256,
        "max_block_size_y": 256,
        "max_block_size_z": 256,
        "thread_warp_size": 16,
        # Basic, vote, arithmetic, ballot, shuffle, relative shuffle and quad, less arithmetic.
        "supported_subgroup_operations": 0b10111011,
        "max_shared_memory_per_block": 16384,
        "max_push_constants_size": 128,
        "max_per_stage_descriptor_storage_buffer": 8,
        "max_storage_buffer_range": 1 << 30,
        "max_uniform_buffer_range": 1 << 30,
        "supports_float16": False,
        "supports_float32": True,
        "supports_float64": False,
        "supports_int8": False,
        "supports_int16": False,
        "supports_int32": True,
        "supports_int64": False,
        "supports_8bit_buffer": True,
        "supports_16bit_buffer": True,
        "supports_storage_buffer_storage_class": True,
        "supports_dedicated_allocation": True,
        "supports_push_descriptor": False,
        "supports_integer_dot_product": False,
        "supports_cooperative_matrix": False,
    },
    "keys": [],
}


def export(command: list[str], variables: dict[str, str]) -> DeviceDescription:
    """What ``tvm-vision devices --export`` writes under a driver."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "device.json"
        done = subprocess.run(
            [*command, sys.executable, "-c", EXPORT, "devices", "--export", str(path)],
            env={**os.environ, **variables},
            text=True,
            capture_output=True,
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return read_description(path)


def simulated(device: Simulated, drivers: Path) -> DeviceDescription:
    """A device that is not there, by its own driver of the newer suite."""
    libraries = drivers / LIBRARIES
    loader = [
        str(libraries / "ld-linux-x86-64.so.2"),
        "--library-path", str(libraries), "--preload", str(libraries / device.shim),
    ]  # fmt: skip
    icd = drivers / "usr/share/vulkan/icd.d" / device.icd
    found = export(loader, {"VK_ICD_FILENAMES": str(icd), **dict([device.variable])})
    return replace(found, title=device.title, source=found.source + SHIM, machine=device.machine)


def of_intel(name: str) -> DeviceDescription:
    """One of Intel's GPUs, by the driver that ``make static-drivers`` unpacks."""
    driver = find(name)
    found = export(list(driver.launcher), dict(driver.settings))
    source = f"{found.source}, asked through {intel.SOURCE.name}"
    return replace(found, title=intel.GPUS[name].title, source=source, machine="x86_64")


def on_a_processor(title: str, icd: Path) -> DeviceDescription:
    """An implementation of Vulkan on the CPU."""
    return replace(export([], {"VK_ICD_FILENAMES": str(icd)}), title=title, machine="")


def main() -> None:
    """Write those whose drivers are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", type=Path, help="the newer suite's packages, unpacked")
    parser.add_argument("--intel", action="store_true", help="those of make static-drivers")
    parser.add_argument("--swiftshader", type=Path, help="its .json, of Debian's chromium-common")
    arguments = parser.parse_args()
    made = {"v3d-7.1": DeviceDescription.from_json(V3D)}
    if STOCK.exists():
        made["lavapipe"] = on_a_processor("lavapipe, a CPU (Mesa of Debian 12)", STOCK)
    if arguments.drivers:
        made |= {name: simulated(each, arguments.drivers) for name, each in SIMULATED.items()}
    if arguments.intel:
        made |= {name: of_intel(name) for name in intel.GPUS}
    if arguments.swiftshader:
        made["swiftshader"] = on_a_processor("SwiftShader, a CPU", arguments.swiftshader)
    for name, description in made.items():
        description.write(FOLDER / f"{name}{SUFFIX}")
        print(f"{name}: {description.name}, {description.source}")


if __name__ == "__main__":
    main()
