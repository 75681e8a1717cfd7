"""Builds and fetches what the tests run for another processor, in an emulation of it.

    make elsewhere HOST=aarch64

Beside TVM's runtime for it, which is there already: the runner of cpp/, built by Debian's cross
compiler; Debian's Vulkan drivers for that processor, unpacked; an emulator (qemu), installed where
it is missing. The tests skip what is not there, and say so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tvm_vision.errors import InputError
from tvm_vision.offline.unpacked import MANIFEST, unpack

ROOT = Path(__file__).resolve().parents[1]
# As dpkg names processors.
ARCHITECTURES = {"aarch64": "arm64"}
DRIVERS = ("mesa-vulkan-drivers", "libvulkan1", "libstdc++6")
# The C library of the cross compiler's own Debian is as new.
SUITES = ("bookworm",)


def build_runner(host: str, folder: Path) -> None:
    """The runner of cpp/ in folder/cpp, with the programs of its tests; only what changed.

    Raises CalledProcessError.
    """
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": host,
        "CMAKE_CXX_COMPILER": f"{host}-linux-gnu-g++",
        "CMAKE_C_COMPILER": f"{host}-linux-gnu-gcc",
        "TVM_VISION_SITE_PACKAGES": str(folder.resolve()),
        "TVM_VISION_OPENCV": "OFF",
        # What CMake would find is this machine's.
        "TVM_VISION_OPENSSL": "OFF",
        "TVM_VISION_TESTS": "ON",
    }
    cmake = str(Path(sys.executable).with_name("cmake"))
    options = [f"-D{name}={value}" for name, value in settings.items()]
    built = str(folder / "cpp")
    configure = [cmake, "-S", str(ROOT / "cpp"), "-B", built, "--log-level=WARNING", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", built, "-j2", "--", "-s"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("host", choices=sorted(ARCHITECTURES))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    host, folder = arguments.host, arguments.folder
    print(f"building cpp/ for {host} in {folder / 'cpp'}, some minutes at first", flush=True)
    try:
        build_runner(host, folder)
        if not shutil.which(f"qemu-{host}-static") and not shutil.which(f"qemu-{host}"):
            subprocess.run([ROOT / "scripts" / "apt_install.sh", "qemu-user-static"], check=True)
        if not (folder / "system" / MANIFEST).exists():
            unpack(folder / "system", DRIVERS, SUITES, print, ARCHITECTURES[host])
    except subprocess.CalledProcessError as error:
        sys.exit(f"elsewhere: {Path(str(error.cmd[0])).name} ended with {error.returncode}")
    except InputError as error:
        sys.exit(f"elsewhere: {error}")


if __name__ == "__main__":
    main()
