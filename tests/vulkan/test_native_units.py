"""Compiles and runs the unit tests of the native library's pure parts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "tvm_vision" / "vulkan" / "csrc"
UNITS = {
    "test_device_plan": ["device_plan.cc"],
    "test_errors": [],
    "test_frame_wait": [],
    "test_memory_and_hazards": ["range_allocator.cc"],
    "test_module_format": ["module_format.cc", "spirv_reader.cc", "cache_file.cc"],
}


# What throws out of a destructor: an exception raised beside it ends the process.
THROWS_FROM_DESTRUCTOR = re.compile(r"\bTVM_FFI_(THROW|LOG_AND_THROW|I?CHECK\w*|DCHECK\w*)\b")


def test_errors_are_raised_with_their_text_whole() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(CSRC.rglob("*.[ch]*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if THROWS_FROM_DESTRUCTOR.search(line)
    ]
    assert found == [], "use TVM_VISION_THROW of error.h"


@pytest.mark.parametrize("name", UNITS)
def test_native_unit(name: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from native_build import find_toolchain
    finally:
        sys.path.pop(0)
    toolchain = find_toolchain()
    sources = [Path(__file__).parent / "cpp" / f"{name}.cc", *(CSRC / s for s in UNITS[name])]
    program = tmp_path / name
    includes = [part for d in (CSRC, *toolchain.include_dirs) for part in ("-I", str(d))]
    libraries = [part for d in toolchain.library_dirs for part in (f"-L{d}", f"-Wl,-rpath,{d}")]
    command = [
        *toolchain.compiler,
        "-std=c++17",
        "-O1",
        "-fsanitize=undefined",
        "-fno-sanitize-recover",
    ]
    command += [*includes, *map(str, sources), *libraries, "-ltvm_ffi", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], text=True, capture_output=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
