"""What pyproject.toml cannot say: the native library, folders installed under other names, ROS."""

from __future__ import annotations

import sys
from glob import glob
from pathlib import Path
from sysconfig import get_platform

import setuptools
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

if int(setuptools.__version__.split(".")[0]) < 77:
    # pip takes the version of pyproject.toml; colcon the one that is installed.
    sys.exit(
        f"tvm_vision: setuptools 77 or later is needed, found {setuptools.__version__}: "
        "pip install 'setuptools>=77'"
    )
from setuptools.command.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
from native_build import NativeBuildError, build_library  # noqa: E402

LIBRARY = "tvm_vision.vulkan.libtvm_vision_vulkan"
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tvm_vision/*/csrc/*.cc"))

# Folder in the repository -> package it installs as: nobody's site-packages gets a "tools".
PACKAGE_DIRS = {
    "tvm_vision.tools": "tools",
    "tvm_vision_ros": "ros2_node",
}


class BuildNative(build_ext):
    """Compiles with native_build.py; the library is plain C++ and carries no Python ABI tag."""

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def build_extension(self, ext: Extension) -> None:
        output = Path(self.get_ext_fullpath(ext.name))
        in_source_tree = bool(self.inplace) or getattr(self, "editable_mode", False)
        # Kept outside build_temp, which pip makes anew each time, so that objects can be reused.
        work = ROOT / "build" / f"native-{get_platform()}"
        sources = [Path(source) for source in ext.sources]
        try:
            build_library(sources, output, work, absolute_rpath=in_source_tree)
        except NativeBuildError as error:
            sys.exit(f"tvm_vision: {error}")


class PlatformWheel(bdist_wheel):
    """Tags the wheel py3-none-PLATFORM: one wheel serves every Python version."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def packages() -> tuple[list[str], dict[str, str]]:
    """Names of all packages and, where folder and name differ, the folder."""
    names = find_packages(str(ROOT), include=["tvm_vision", "tvm_vision.*"])
    folders = {}
    for name, folder in PACKAGE_DIRS.items():
        if (ROOT / folder).is_dir():
            names.append(name)
            folders[name] = folder
    return names, folders


PACKAGES, FOLDERS = packages()

setup(
    python_requires=">=3.10,<3.13",
    packages=PACKAGES,
    package_dir=FOLDERS,
    ext_modules=[Extension(LIBRARY, SOURCES)],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/tvm_vision"]),
        ("share/tvm_vision", ["package.xml"]),
        ("share/tvm_vision/launch", sorted(glob("launch/*.launch.py"))),
        ("share/tvm_vision/config", sorted(glob("config/*"))),
    ],
)
