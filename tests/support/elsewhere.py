"""Programs for other processors: made by Debian's cross compilers, run by qemu's emulation."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

# Where Debian's cross compilers have the C library of a processor.
SYSTEMS = {"aarch64": "/usr/aarch64-linux-gnu", "riscv64": "/usr/riscv64-linux-gnu"}


def cross_compiler(machine: str, language: str = "gcc") -> str:
    """The C (gcc) or C++ (g++) compiler for a processor. Skips where there is none."""
    if machine == platform.machine():
        found, package = shutil.which(language), language
    else:
        found, package = (
            shutil.which(f"{machine}-linux-gnu-{language}"),
            f"{language}-{machine.replace('_', '-')}-linux-gnu",
        )
    if found is None:
        pytest.skip(f"no compiler for {machine}: apt install {package}")
    return found


def emulated(
    machine: str,
    command: list[str | Path],
    *,
    system: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line that runs a program of a processor here. Skips where there is no qemu.

    system: the root of its system; None for the C library of the cross compiler. variables: of the
    program's environment, not of the emulator's, which is a program of this machine.
    """
    words = [str(word) for word in command]
    if machine == platform.machine():
        return words
    # Debian has both, of qemu-user and of qemu-user-static.
    names = (f"qemu-{machine}-static", f"qemu-{machine}")
    emulator = next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        pytest.skip(f"no emulator of {machine}: apt install qemu-user-static")
    given = [word for item in (variables or {}).items() for word in ("-E", "=".join(item))]
    return [emulator, "-L", str(system or SYSTEMS[machine]), *given, *words]


def run_there(machine: str, command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """The result of a program of a processor, with its output."""
    return subprocess.run(
        emulated(machine, command), capture_output=True, text=True, timeout=120, check=False
    )
