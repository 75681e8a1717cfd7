"""Shared by the tests of cpp/: the library and its programs, built once, and a network."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.runner import BACKEND, ROOT, SANITIZER, SITE
from support.runner_networks import unpacked_of

# Half of the compiler's time goes into headers, which sources that are joined read once. The
# sanitized build takes each by itself, as everybody's does: a header that one forgets is missed.
JOINED = {"CMAKE_UNITY_BUILD": "ON", "CMAKE_UNITY_BUILD_BATCH_SIZE": "12"}


# The sanitizers triple the compiler's work.
@pytest.fixture(scope="session", params=["", pytest.param(SANITIZER, marks=pytest.mark.slow)])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with library and programs, built by the first of pytest's processes to ask."""
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("cmake is needed to build cpp/: pip install -e '.[test]'")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / ("cpp-sanitized" if request.param else "cpp")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Others that a build was refused to ask again, and skip or fail as the first did.
        if not (folder / "complete").exists():
            build(cmake, folder, request.param)
            (folder / "complete").touch()
    return folder


@pytest.fixture
def plain(request: pytest.FixtureRequest, built: Path) -> Path:
    """That folder where nothing in it is sanitized: a sanitizer has to be the first library of its
    process, and ends where memory is refused to it."""
    if request.node.callspec.params["built"]:
        pytest.skip("a sanitizer has to come before all libraries, and to be refused no memory")
    return built


def build(cmake: Path, folder: Path, sanitizer: str) -> None:
    flags = f"-O0 {sanitizer}"
    settings = {
        "TVM_VISION_SITE_PACKAGES": SITE, "TVM_VISION_BACKEND": BACKEND, "TVM_VISION_TESTS": "ON",
        "TVM_VISION_OPENCV": "OFF", "CMAKE_BUILD_TYPE": "Debug", "CMAKE_CXX_FLAGS": flags,
        "CMAKE_C_FLAGS": flags, "CMAKE_INSTALL_PREFIX": folder / "installed",
    }  # fmt: skip
    if not sanitizer:
        # To write it takes an eighth of the compiler's time, and nobody reads it.
        settings |= {"CMAKE_CXX_FLAGS_DEBUG": "", **JOINED}
    command = [str(cmake), "-S", str(ROOT / "cpp"), "-B", str(folder)]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    configured = subprocess.run(command, text=True, capture_output=True)
    if "apt install libstb-dev" in configured.stderr:
        pytest.skip("stb is needed to build cpp/: apt install libstb-dev")
    assert configured.returncode == 0, configured.stdout + configured.stderr
    done = subprocess.run([cmake, "--build", folder, "-j2"], text=True, capture_output=True)
    assert done.returncode == 0 and "warning:" not in done.stderr, done.stdout + done.stderr


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package, in a folder, of a network that has outputs of every form."""
    return unpacked_of(3, tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def unpacked_gray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for grey images."""
    return unpacked_of(1, tmp_path_factory.mktemp("gray"))
