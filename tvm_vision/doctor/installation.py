"""What is installed: Python, the wheel and its pins, our library, a compiler, caches, ROS."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ..version import __version__
from .finding import FAIL, OK, WARN, Finding, Machine

PACKAGE = "tvm_vision"
TVM = "apache-tvm"
NATIVE = Path(__file__).resolve().parents[1] / "vulkan" / "libtvm_vision_vulkan.so"
# As TVM looks for one that links a package's library.
COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")
PROCESSORS = ("x86_64", "aarch64")
ROS_PACKAGES = ("rclpy", "sensor_msgs", "vision_msgs")
MIB = 1 << 20
# Free bytes of a disk below which a cache cannot be counted on.
LEAST_FREE = 256 * MIB
# Seconds that a compiler may take to say its version.
PATIENCE = 10


def check_python(machine: Machine) -> Iterator[Finding]:
    """The interpreter, and what processor it is for."""
    words = f"{platform.python_version()}, {platform.machine()}, {sys.executable}"
    wanted = _needed_python()
    if wanted and not _within(platform.python_version(), wanted):
        remedy = f"make a virtual environment with a Python of {wanted}"
        yield Finding("python", FAIL, words, remedy)
    elif platform.machine() not in PROCESSORS:
        yield Finding("python", FAIL, words, f"TVM's wheel is for {' and '.join(PROCESSORS)}")
    else:
        yield Finding("python", OK, words)


def check_pins(machine: Machine) -> Iterator[Finding]:
    """TVM's wheel, and each package that is needed, by the versions that this one names."""
    from packaging.requirements import Requirement

    try:
        wanted = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "packages", WARN, f"{PACKAGE} {__version__} is not installed: versions are not known",
            "pip install . in the repository",
        )  # fmt: skip
        return
    wrong = []
    for requirement in map(Requirement, wanted):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = _version(requirement.name)
        if not found or not requirement.specifier.contains(found, prereleases=True):
            wrong.append((requirement, found))
    for requirement, found in wrong:
        needed = f"{requirement.name}{requirement.specifier}"
        yield Finding(
            "packages", FAIL, f"{needed} is needed, found {found or 'none'}",
            f"{sys.executable} -m pip install '{needed}'",
        )  # fmt: skip
    if not wrong:
        yield Finding(
            "packages",
            OK,
            f"{PACKAGE} {__version__}, {TVM} {_version(TVM)}, all versions as needed",
        )


def _needed_python() -> str:
    """The versions of Python that our package asks for; "" where it is not installed."""
    try:
        return metadata.metadata(PACKAGE)["Requires-Python"]
    except metadata.PackageNotFoundError:
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _within(version: str, wanted: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(wanted).contains(version, prereleases=True)


def check_native(machine: Machine) -> Iterator[Finding]:
    """The file of the native library; a child loads it."""
    if NATIVE.is_file():
        size = NATIVE.stat().st_size / MIB
        yield Finding("native library", OK, f"{NATIVE} ({size:.1f} MiB)")
    else:
        yield Finding(
            "native library", FAIL, f"{NATIVE} is not there",
            "pip install . in the repository; it needs g++ and libvulkan-dev",
        )  # fmt: skip


def check_compiler(machine: Machine) -> Iterator[Finding]:
    """What links the few kernels that this package's own linker does not; running needs none."""
    said = machine.environment.get
    named = said("CXX") or said("CC") or ""
    path = said("PATH") or os.defpath
    found = [shutil.which(name, path=path) for name in ([named] if named else COMPILERS)]
    compiler = next(filter(None, found), None)
    if compiler is None and not named:
        yield Finding("compiler", OK, "none is installed, and networks are compiled without one")
        return
    remedy = f"unset {'CXX' if said('CXX') else 'CC'}" if named else "apt install g++"
    if compiler is None:
        yield Finding("compiler", WARN, f"{named} is not there", remedy)
        return
    try:
        done = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        yield Finding("compiler", OK, f"{compiler}: {done.stdout.partition(chr(10))[0].strip()}")
    except (OSError, subprocess.SubprocessError) as error:
        words = f"{compiler} cannot be run ({type(error).__name__})"
        yield Finding("compiler", WARN, words, remedy)


def check_caches(machine: Machine) -> Iterator[Finding]:
    """The folder of compiled shaders, pipelines and calibrations: whether it can be written."""
    folder = cache_folder(machine)
    if folder is None:
        yield Finding("cache", OK, "none, as TVM_VISION_CACHE_DIR says")
        return
    make = "" if folder.exists() else f"sudo mkdir -p {folder} && "
    mend = f"{make}sudo chown -R $USER {folder}, or name another one by TVM_VISION_CACHE_DIR"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        words = f"{folder} cannot be written ({error.strerror}): each start compiles anew"
        yield Finding("cache", WARN, words, mend)
        return
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(_size(path) for path in files)
    words = f"{folder}: {len(files)} files, {size / MIB:.1f} MiB, {free / MIB:.0f} MiB free"
    if free < LEAST_FREE:
        yield Finding("cache", WARN, words, "make room there, or set TVM_VISION_CACHE_DIR")
    else:
        yield Finding("cache", OK, words)


def cache_folder(machine: Machine) -> Path | None:
    """Where caches are (the native library's rule, which may not be loadable); None for nowhere."""
    said = machine.environment.get
    chosen = said("TVM_VISION_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    if said("XDG_CACHE_HOME"):
        return Path(said("XDG_CACHE_HOME", "")) / "tvm_vision"
    return Path(said("HOME", "")) / ".cache" / "tvm_vision" if said("HOME") else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def check_ros(machine: Machine) -> Iterator[Finding]:
    """What the node needs; nothing else does."""
    distribution = machine.environment.get("ROS_DISTRO", "")
    missing = [name for name in ROS_PACKAGES if find_spec(name) is None]
    if not missing:
        words = f"{distribution or 'rclpy from PyPI'}, with {', '.join(ROS_PACKAGES)}"
        yield Finding("ros", OK, words)
    elif distribution:
        yield Finding(
            "ros", WARN,
            f"ROS 2 {distribution} is sourced, and Python {platform.python_version()} finds no "
            f"{', '.join(missing)}",
            f"apt install {' '.join(f'ros-{distribution}-' + _debian(name) for name in missing)}, "
            "and use the Python that it is for",
        )  # fmt: skip
    else:
        yield Finding("ros", OK, "not here; only the node needs it")


def _debian(name: str) -> str:
    return name.replace("_", "-")
