"""Write tvm_vision/devices/known/*.json: descriptions of devices, asked of their own drivers.

No such device is needed: see ``tvm_vision.offline``, whose drivers `python -m benchmarks.static
--install` unpacks. What cannot be opened so is described from the source of its driver, which its
file names:

  python scripts/known_devices.py --swiftshader FOLDER/vk_swiftshader_icd.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tvm_vision.devices.description import (
    FORMAT,
    FORMAT_VERSION,
    PUBLISHED,
    DeviceDescription,
    read_description,
)
from tvm_vision.devices.known import FOLDER, SUFFIX
from tvm_vision.offline import drivers, machines, unpacked
from tvm_vision.offline.drivers import Driver
from tvm_vision.target_keys import COMPUTE_UNITS, number_key, numbers_in

EXPORT = "from tvm_vision.tools.cli import main; main()"
STOCK = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
# Devices of ``tvm_vision.offline``, by the names that they have there.
OFFLINE = {
    "renoir": "AMD Vega of Ryzen 4000 and 5000, 8 units",
    "rembrandt": "AMD Radeon 680M of Ryzen 6000",
    "phoenix": "AMD Radeon 780M of Ryzen 7040 and 8040",
    "strix": "AMD Radeon 890M of Ryzen AI 300",
    "tgl": "Intel Iris Xe of Core 11th generation, 96 units",
    "adl": "Intel Iris Xe of Core 12th generation, 96 units",
    "mtl": "Intel Arc of Core Ultra 1, 128 units",
    "arc": "Intel Arc A770, 32 Xe cores",
}
STAND_IN = "with the kernel's side stood in for"
ADRENO = "Qualcomm Adreno 730 of Snapdragon 8 Gen 1"
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


def export(driver: Driver) -> DeviceDescription:
    """What ``tvm-vision devices --export`` writes under a driver; nothing that was measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "device.json"
        done = driver.run(
            [sys.executable, "-c", EXPORT, "devices", "--export", str(path)],
        )
        if done.returncode:
            sys.exit(f"{driver.device}: {done.stderr}")
        return replace(read_description(path), measured=None)


def absent(name: str, title: str) -> DeviceDescription:
    """A device that is not there, by its own driver.

    With the units of the chip that its model is of: the kernel's stand-in may be one of fewer.
    """
    found = export(drivers.find(name))
    keys = found.keys
    if name in machines.MODELLED:
        units = number_key(COMPUTE_UNITS, machines.find(name).units)
        keys = tuple(units if COMPUTE_UNITS in numbers_in([key]) else key for key in keys)
    return replace(found, title=title, keys=keys, source=f"{found.source}, {STAND_IN}")


def adreno() -> DeviceDescription:
    """As the others; ``tvm_vision.offline`` has no model of it."""
    found = unpacked.find()
    if found is None:
        sys.exit(f"no drivers: {unpacked.REMEDY}")
    shim = found.libraries / "libfreedreno_noop_drm_shim.so"
    launcher = (str(found.linker), "--library-path", str(found.libraries), "--preload", str(shim))
    icd = found.root / "usr/share/vulkan/icd.d/freedreno_icd.json"
    driver = Driver("adreno-730", {"FD_GPU_ID": "730", "VK_ICD_FILENAMES": str(icd)}, launcher)
    described = export(driver)
    source = f"{described.source}, {STAND_IN}"
    return replace(described, title=ADRENO, source=source, machine="aarch64")


def on_a_processor(title: str, icd: Path) -> DeviceDescription:
    """An implementation of Vulkan on the CPU."""
    driver = Driver(title, {"VK_ICD_FILENAMES": str(icd), "VK_DRIVER_FILES": str(icd)})
    return replace(export(driver), title=title, machine="")


def main() -> None:
    """Write those whose drivers are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swiftshader", type=Path, help="its .json, of Debian's chromium-common")
    arguments = parser.parse_args()
    made = {"v3d-7.1": DeviceDescription.from_json(V3D)}
    if STOCK.exists():
        made["lavapipe"] = on_a_processor("lavapipe, a CPU (Mesa of Debian 12)", STOCK)
    made |= {name: absent(name, title) for name, title in OFFLINE.items()}
    made["adreno-730"] = adreno()
    if arguments.swiftshader:
        made["swiftshader"] = on_a_processor("SwiftShader, a CPU", arguments.swiftshader)
    for name, description in made.items():
        description.write(FOLDER / f"{name}{SUFFIX}")
        print(f"{name}: {description.name}, {description.source}")


if __name__ == "__main__":
    main()
