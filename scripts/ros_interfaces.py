"""Build the messages of ros2_node/interfaces/ into this environment: for machines without ROS.

rclpy is on PyPI, vision_msgs is not. The definitions here have the fields of the published ones,
so both sides of a connection understand each other. On a robot the real packages are installed,
and this is not used. Nothing is done where the same definitions were built before.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = ROOT / "ros2_node" / "interfaces"
PREFIX = Path(sys.prefix)
WORK = ROOT / "build" / "ros_interfaces"

# In the order in which they need each other.
PACKAGES: dict[str, tuple[str, ...]] = {
    "tf2_msgs": ("geometry_msgs",),
    "vision_msgs": ("std_msgs", "geometry_msgs"),
    "soccer_vision_attribute_msgs": (),
    "soccer_vision_2d_msgs": ("std_msgs", "vision_msgs", "soccer_vision_attribute_msgs"),
}
PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project({name})
find_package(ament_cmake REQUIRED)
find_package(rosidl_default_generators REQUIRED)
{finds}
rosidl_generate_interfaces(${{PROJECT_NAME}} {messages} DEPENDENCIES {needs})
ament_package()
"""
MANIFEST = """\
<package format="3">
  <name>{name}</name><version>0.0.0</version><description>Messages</description>
  <maintainer email="maintainers@example.org">tvm_vision</maintainer><license>Apache-2.0</license>
  <buildtool_depend>ament_cmake</buildtool_depend>{needs}
  <member_of_group>rosidl_interface_packages</member_of_group>
  <export><build_type>ament_cmake</build_type></export>
</package>
"""


def main() -> None:
    stamp = PREFIX / ".ros_interfaces"
    content = digest()
    if stamp.exists() and stamp.read_text("utf-8") == content:
        return
    print(f"building the messages {', '.join(PACKAGES)}, one to two minutes", flush=True)
    correct_paths()
    shutil.rmtree(WORK, ignore_errors=True)
    for name, needs in PACKAGES.items():
        build(name, needs)
    stamp.write_text(content, "utf-8")


def digest() -> str:
    """Of everything that decides what is built."""
    state = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(DEFINITIONS.glob("*/msg/*.msg")):
        state.update(f"{path.relative_to(DEFINITIONS)}\n{path.read_text('utf-8')}\0".encode())
    for package in ("ros-rclpy", "ros-rosidl-generator-py", "numpy"):
        state.update(f"{package} {importlib.metadata.version(package)}\n".encode())
    return state.hexdigest()


def correct_paths() -> None:
    """Put this Python's folders where the wheels name those of the machine that built them."""
    python = sysconfig.get_paths()["include"]
    for path in PREFIX.glob("share/**/*.cmake"):
        text = path.read_text("utf-8")
        right = re.sub(r"/opt/python/[\w-]+/include/python3\.\d+", python, text)
        right = re.sub(
            r"/opt/python/[^;\"]*/site-packages/numpy/_?core/include", np.get_include(), right
        )
        if right != text:
            path.write_text(right, "utf-8")


def build(name: str, needs: tuple[str, ...]) -> None:
    source, work = WORK / name, WORK / f"{name}-build"
    shutil.copytree(DEFINITIONS / name, source)
    messages = " ".join(sorted(f"msg/{path.name}" for path in (source / "msg").glob("*.msg")))
    finds = "\n".join(f"find_package({package} REQUIRED)" for package in needs)
    text = PROJECT.format(name=name, finds=finds, messages=messages, needs=" ".join(needs))
    (source / "CMakeLists.txt").write_text(text, "utf-8")
    depends = "".join(f"<depend>{package}</depend>" for package in needs)
    (source / "package.xml").write_text(MANIFEST.format(name=name, needs=depends), "utf-8")
    for command in commands(source, work):
        run(command)


def commands(source: Path, work: Path) -> Iterator[list[str]]:
    cmake = str(PREFIX / "bin" / "cmake")
    yield [
        cmake, "-S", str(source), "-B", str(work), "-G", "Ninja",
        f"-DCMAKE_INSTALL_PREFIX={PREFIX}", "-DBUILD_TESTING=OFF",
        f"-DCMAKE_MAKE_PROGRAM={PREFIX / 'bin' / 'ninja'}",
        f"-DPython3_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    yield [cmake, "--build", str(work)]
    yield [cmake, "--install", str(work)]


def run(command: list[str]) -> None:
    environment = {
        **os.environ,
        "PATH": f"{PREFIX / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AMENT_PREFIX_PATH": str(PREFIX),
        "CMAKE_PREFIX_PATH": str(PREFIX),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")


if __name__ == "__main__":
    main()
