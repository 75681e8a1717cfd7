"""Object files become a shared library: by this package's own linker, and where that does not do,
by the C++ compiler for the processor that they are for."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..error_lines import last_line
from ..errors import PackageError
from ..whole_files import write_whole
from .machines import machine_of
from .objects import LinkError
from .shared import called_names, link_shared, undefined_names

# What a process has that runs a package: TVM's runtime, and the C library.
_OF_TVM = ("TVMFFI", "TVMBackend")
_OF_C = frozenset("memcpy memmove memset memcmp bcmp malloc free abort".split())
_MATHEMATICS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 "
    "expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ldexp lgamma llrint llround log log10 "
    "log1p log2 logb lrint lround modf nearbyint nextafter pow remainder rint round roundeven "
    "scalbn sin sincos sinh sqrt tan tanh tgamma trunc"
)
_OF_M = frozenset(name + kind for name in _MATHEMATICS.split() for kind in ("", "f"))
# TVM's own conversions between halves and floats, which each object has: they take and return
# halves as integers, which code for RISC-V has in registers for floats.
_HALVES = frozenset(("__truncsfhf2", "__extendhfsf2"))
_LIBRARIES = {"libm.so.6": _OF_M, "libc.so.6": _OF_C}
# The rest of what machine code may call is linked from the compiler's own library. No hash of the
# linker's own, so that the bytes are the same.
_OPTIONS = ["-nostdlib", "-Wl,--build-id=none"]
_SYSTEM = ["-lgcc", "-lm", "-lc"]


def link_library(path: str, files: Sequence[str]) -> None:
    """Write the shared library of object files, all for one processor, this one or another.

    Raises PackageError where that takes a C++ compiler, and none for the processor is installed, or
    where it fails, or the library cannot be written; OSError where an object cannot be read.
    """
    objects = [Path(file).read_bytes() for file in files]
    try:
        _check_halves(objects)
        names = undefined_names(objects)
        if unknown := sorted(name for name in names if not _is_there(name)):
            raise LinkError(f"code for it calls {', '.join(unknown[:3])}")
        needed = [library for library, known in _LIBRARIES.items() if known & names]
        content = link_shared(objects, needed)
    except LinkError as reason:
        _compile(path, files, machine_of(objects[0][:20]) or platform.machine(), reason)
    else:
        # A process may have the former one of that name loaded.
        write_whole(Path(path), content, PackageError)


def _check_halves(objects: Sequence[bytes]) -> None:
    for content in objects:
        if machine_of(content[:20]) == "riscv64" and _HALVES & called_names(content):
            raise PackageError(
                "float16 on riscv64 needs a processor with conversions of its own, and none was "
                "named: compile in fp32, or for -mattr=+m,+a,+f,+d,+c,+zfhmin"
            )


def _is_there(name: str) -> bool:
    return name.startswith(_OF_TVM) or name in _OF_C or name in _OF_M


def _compile(path: str, files: Sequence[str], machine: str, reason: LinkError) -> None:
    from tvm.support import cc

    compiler, debian = cc.get_cc(), "g++"
    if machine != platform.machine():
        prefix = f"{machine}-linux-gnu-"
        compiler = shutil.which(f"{prefix}g++") or shutil.which(f"{prefix}gcc")
        debian = f"g++-{machine.replace('_', '-')}-linux-gnu"
    if compiler is None:
        raise PackageError(
            f"linking mod.so for {machine} needs a C++ compiler for it ({reason}), and none is "
            f"installed: apt install {debian}"
        )
    try:
        cc.create_shared(path, [*files, *_SYSTEM], _OPTIONS, cc=str(compiler))
    except (RuntimeError, OSError) as error:
        raise PackageError(f"mod.so cannot be linked with {compiler}: {last_line(error)}") from None
