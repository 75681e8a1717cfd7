"""Small programs and libraries of this room in C and C++, compiled when they are first needed."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..vulkan.options import device_options
from ..whole_files import whole
from .finishing import finished
from .unpacked import folder

PATIENCE = 300.0


def programs() -> Path:
    """Where they are kept: in $TVM_VISION_CACHE_DIR, or beside the unpacked drivers."""
    return Path(device_options()["TVM_VISION_CACHE_DIR"] or folder().parent) / "programs"


def build(source: Path, name: str, compiler: str, options: Sequence[str]) -> Path:
    """Compile ``source`` where the result of the same command is not there yet.

    Raises InputError where there is no compiler, it refuses the source, or it does not end.
    """
    words = shlex.split(compiler)
    command = [*words, *options, str(source), "-ldl", "-o"]
    key = hashlib.sha256(source.read_bytes() + shlex.join(command).encode()).hexdigest()[:16]
    output = programs() / key / name
    if output.exists():
        return output
    late = InputError(
        f"a compiler is needed to ask drivers about kernels, and '{words[0]}' did not end in "
        f"{PATIENCE:g} s: set CC and CXX to another"
    )
    with whole(output) as fresh:
        try:
            done = finished([*command, str(fresh)], PATIENCE, late)
        except OSError as error:
            raise InputError(
                f"a compiler is needed to ask drivers about kernels, and '{words[0]}' cannot be "
                f"run ({error.strerror}): apt install g++, or set CC and CXX"
            ) from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error:" in line]
            said = (lines or done.stderr.strip().splitlines() or ["no message"])[0]
            raise InputError(
                f"{source.name}, which asks drivers about kernels, cannot be built ({said}): "
                "apt install g++ libvulkan-dev"
            )
    return output
