"""Compiles and runs the unit tests of the native library's pure parts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PACKAGE = ROOT / "tvm_vision"
# Tests by room and name, with the sources beside them that they need.
UNITS = {
    "runtime/test_one_user": [],
    "vulkan/test_device_options": ["device_options.cc"],
    "vulkan/test_device_plan": ["device_plan.cc"],
    "vulkan/test_errors": [],
    "vulkan/test_frame_wait": [],
    "vulkan/test_kernel_needs": [
        "kernel_needs.cc", "device_plan.cc", "spirv_reader.cc", "shader_types.cc"
    ],
    "vulkan/test_memory_and_hazards": ["range_allocator.cc"],
    "vulkan/test_module_format": [
        "module_format.cc", "spirv_reader.cc", "shader_types.cc", "cache_file.cc"
    ],
}  # fmt: skip
SANITIZED = ("-fsanitize=undefined", "-fno-sanitize-recover")


# What throws out of a destructor: an exception raised beside it ends the process.
THROWS_FROM_DESTRUCTOR = re.compile(r"\bTVM_FFI_(THROW|LOG_AND_THROW|I?CHECK\w*|DCHECK\w*)\b")


def test_errors_are_raised_with_their_text_whole() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.glob("*/csrc/**/*.[ch]*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if THROWS_FROM_DESTRUCTOR.search(line)
    ]
    assert found == [], "use TVM_VISION_THROW of error.h"


# What asks for memory in a function of the standard library that lets no exception pass.
ENDS_THE_PROCESS = re.compile(r"\bdirectory_iterator\b")


def test_no_function_ends_the_process_where_memory_is_refused() -> None:
    sources = [*PACKAGE.glob("*/csrc/**/*.[ch]*"), *ROOT.glob("cpp/src/*.[ch]*")]
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(sources)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ENDS_THE_PROCESS.search(line)
    ]
    assert found == [], "use FolderNames"


def test_every_unit_is_run() -> None:
    written = {f"{path.parents[1].name}/{path.stem}" for path in TESTS.glob("*/cpp/test_*.cc")}
    assert written == set(UNITS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Path]:
    """The object file of a source of a room, which several units may need: compiled once."""
    folder = tmp_path_factory.mktemp("objects")

    @cache
    def compile_source(source: Path, room: str) -> Path:
        folders = (PACKAGE / room / "csrc", PACKAGE, TESTS / "support" / "cpp")
        includes = [
            part for path in (*folders, *toolchain().include_dirs) for part in ("-I", str(path))
        ]
        made = folder / f"{room}-{source.stem}.o"
        # Unoptimized: quicker to compile, and nothing undefined is optimized away.
        command = [*toolchain().compiler, "-std=c++17", "-O0", *SANITIZED, *includes, "-c"]
        subprocess.run([*command, str(source), "-o", str(made)], check=True)
        return made

    return compile_source


@cache
def toolchain() -> Any:
    sys.path.insert(0, str(ROOT))
    try:
        from native_build import find_toolchain
    finally:
        sys.path.pop(0)
    return find_toolchain()


@pytest.mark.parametrize("unit", UNITS)
def test_native_unit(unit: str, compiled: Callable[[Path, str], Path], tmp_path: Path) -> None:
    room, name = unit.split("/")
    csrc = PACKAGE / room / "csrc"
    sources = [TESTS / room / "cpp" / f"{name}.cc", *(csrc / s for s in UNITS[unit])]
    objects = [str(compiled(source, room)) for source in sources]
    program = tmp_path / name
    libraries = [part for d in toolchain().library_dirs for part in (f"-L{d}", f"-Wl,-rpath,{d}")]
    command = [*toolchain().compiler, *SANITIZED, *objects, *libraries, "-ltvm_ffi"]
    subprocess.run([*command, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], text=True, capture_output=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
