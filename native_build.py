"""Builds the native library, backend and executor, with g++ against the headers in the TVM wheels.

For another processor: CXX is a cross compiler, and TVM_VISION_SITE_PACKAGES the folder where TVM's
wheels for it are unpacked.

Used by setup.py. TVM is located but never imported: its import takes a second and loads LLVM.
Objects are kept under build/ and compiled again only when a source, a header or the command line
changed, so that an editable install is quick the second time.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "tvm_vision"
# A header of another room is included by its path from the package: "vulkan/csrc/error.h".
QUOTED = ("-iquote", str(PACKAGE))
# Stand-ins for two headers that the wheel's own headers include and it lacks.
COMPAT = PACKAGE / "vulkan" / "csrc" / "compat"

# Two compilations of TVM's headers fit into the memory of a small board; more may not.
JOBS = 2


class NativeBuildError(Exception):
    """The library cannot be built; the message says what is missing and which package brings it."""


@dataclass(frozen=True)
class Toolchain:
    """Everything the commands need: compiler, flags, folders of headers and of libraries."""

    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]

    def compile_command(self, source: Path, obj: Path) -> list[str]:
        """The command that makes ``obj`` and, beside it, the list of headers it read (.d)."""
        folders = (COMPAT, *self.include_dirs)
        includes = [*QUOTED, *(part for folder in folders for part in ("-isystem", str(folder)))]
        depfile = ["-MMD", "-MF", str(obj.with_suffix(".d"))]
        base = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
        output = ["-c", str(source), "-o", str(obj)]
        return [*self.compiler, *base, *includes, *depfile, *self.flags, *output]

    def link_command(self, objects: list[Path], rpaths: list[str], soname: str) -> list[str]:
        """The command that links ``objects`` into a shared library, without its ``-o FILE``."""
        libraries = [f"-L{folder}" for folder in self.library_dirs]
        libraries += ["-ltvm_runtime", "-ltvm_ffi", "-ldl", "-lpthread"]
        names = [f"-Wl,-rpath,{':'.join(rpaths)}", f"-Wl,-soname,{soname}"]
        inputs = [str(obj) for obj in objects]
        return [*self.compiler, "-shared", *inputs, *libraries, *names, *self.link_flags]


def package_dir(name: str) -> Path:
    """Folder of an installed package, found without importing it: of this interpreter, or in the
    folder that TVM_VISION_SITE_PACKAGES names, for another processor.

    Raises NativeBuildError where it is not there.
    """
    if elsewhere := os.environ.get("TVM_VISION_SITE_PACKAGES"):
        folder = Path(elsewhere) / name
        if not folder.is_dir():
            raise NativeBuildError(
                f"TVM_VISION_SITE_PACKAGES names a folder with tvm and tvm_ffi, and '{folder}' is "
                "not there: name another one, or unset it"
            )
        return folder
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pip_name = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}.get(name, name)
        raise NativeBuildError(
            f"the headers of {pip_name} are needed to build tvm_vision, and it is not installed: "
            f"build without --no-build-isolation, or pip install {pip_name} first"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def find_toolchain() -> Toolchain:
    """Compiler from CXX (default g++) and CXXFLAGS, headers and libraries from the wheels.

    Raises NativeBuildError naming the package to install for a missing compiler or header.
    """
    tvm, ffi = package_dir("tvm"), package_dir("tvm_ffi")
    toolchain = Toolchain(
        compiler=tuple(shlex.split(os.environ.get("CXX") or "g++")),
        flags=tuple(shlex.split(os.environ.get("CXXFLAGS", ""))),
        link_flags=tuple(shlex.split(os.environ.get("LDFLAGS", ""))),
        include_dirs=(tvm / "include", ffi / "include"),
        library_dirs=(tvm / "lib", ffi / "lib"),
    )
    _check_compiler(toolchain)
    return toolchain


def _check_compiler(toolchain: Toolchain) -> None:
    command = [*toolchain.compiler, *toolchain.flags, "-x", "c++", "-E", "-", "-o", os.devnull]
    try:
        probe = subprocess.run(
            command, input="#include <vulkan/vulkan_core.h>\n", text=True, capture_output=True
        )
    except OSError as error:
        raise NativeBuildError(
            f"a C++17 compiler is needed to build tvm_vision, and '{toolchain.compiler[0]}' "
            f"cannot be run ({error.strerror}): apt install g++, or set CXX"
        ) from None
    if probe.returncode == 0:
        return
    if "vulkan/vulkan_core.h" in probe.stderr:
        raise NativeBuildError(
            "the Vulkan headers are needed to build tvm_vision, and vulkan/vulkan_core.h was not "
            "found: apt install libvulkan-dev"
        )
    first = (probe.stderr.strip().splitlines() or ["no message"])[0]
    raise NativeBuildError(f"the compiler check failed ({shlex.join(command)}): {first}")


def is_stale(output: Path, command: list[str]) -> bool:
    """True when ``output`` is missing, was made by another command, or is older than an input.

    Inputs are those in the .d file beside ``output`` that the compiler wrote.
    """
    record, depfile = output.with_suffix(".cmd"), output.with_suffix(".d")
    if not (output.exists() and record.exists() and depfile.exists()):
        return True
    if record.read_text() != shlex.join(command):
        return True
    made = output.stat().st_mtime_ns
    inputs = shlex.split(depfile.read_text().replace("\\\n", " ").partition(":")[2])
    return any(not Path(path).exists() or Path(path).stat().st_mtime_ns > made for path in inputs)


def _run(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, text=True, stderr=subprocess.PIPE)
    if done.stderr:
        print(done.stderr, end="", file=sys.stderr)
    if done.returncode != 0:
        raise NativeBuildError(f"{purpose} failed: {command[0]} ended with {done.returncode}")


def _compile(toolchain: Toolchain, sources: list[Path], work: Path) -> list[Path]:
    objects = [work / f"{source.parent.parent.name}-{source.stem}.o" for source in sources]
    jobs = []
    for source, obj in zip(sources, objects, strict=True):
        command = toolchain.compile_command(source, obj)
        if is_stale(obj, command):
            jobs.append((source, obj, command))

    def compile_one(job: tuple[Path, Path, list[str]]) -> None:
        source, obj, command = job
        _run(command, f"compiling {source}")
        obj.with_suffix(".cmd").write_text(shlex.join(command))

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(compile_one, jobs))
    return objects


def build_library(sources: list[Path], output: Path, work: Path, absolute_rpath: bool) -> None:
    """Compile ``sources`` and link them into ``output``, doing only what is not up to date.

    ``work`` holds the objects. ``absolute_rpath`` adds the folders of this interpreter's
    site-packages, which an editable install needs because ``output`` then lies elsewhere.
    """
    toolchain = find_toolchain()
    work.mkdir(parents=True, exist_ok=True)
    objects = _compile(toolchain, sources, work)

    rpaths = ["$ORIGIN/../../tvm/lib", "$ORIGIN/../../tvm_ffi/lib"]
    if absolute_rpath:
        site = sysconfig.get_path("platlib")
        rpaths += [f"{site}/tvm/lib", f"{site}/tvm_ffi/lib"]
    command = toolchain.link_command(objects, rpaths, output.name)
    record = work / f"{output.name}.cmd"
    newest = max(obj.stat().st_mtime_ns for obj in objects)
    fresh = output.exists() and output.stat().st_mtime_ns >= newest
    if fresh and record.exists() and record.read_text() == shlex.join(command):
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    # A running process may have the old file mapped: replace the name, never the content.
    scratch = output.with_name(output.name + ".new")
    _run([*command, "-o", str(scratch)], f"linking {output.name}")
    scratch.replace(output)
    record.write_text(shlex.join(command))
