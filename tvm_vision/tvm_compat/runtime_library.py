"""TVM in this process: all of it, or its runtime library alone.

Where ``TVM_USE_RUNTIME_LIB=1`` says that networks are only run, ``import tvm`` would still execute
the Python of TVM's compiler, and prepare the backtrace of an error that it raises on the way: more
than all else before the first result. Running needs the libraries and ``tvm_ffi``; opening a device
needs the libraries alone, so that it can go on while Python imports the rest (``ffi``). Who needs
more of TVM imports it, before this or after.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .. import environment


@dataclass(frozen=True)
class Libraries:
    """Where TVM's runtime can be taken from without its Python.

    Attributes:
        ffi, runtime: libtvm_ffi.so and libtvm_runtime.so.
    """

    ffi: Path
    runtime: Path

    def load(self) -> None:
        """Load them as TVM does, so that it finds them loaded when it is imported later."""
        for path in (self.ffi, self.runtime):
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        # Sorts of the CPU path. TVM leaves it out where its compiler is not loaded.
        extra = self.runtime.with_name("libtvm_runtime_extra.so")
        if extra.exists():
            ctypes.CDLL(str(extra), ctypes.RTLD_LOCAL)


def _runtime_libraries() -> Libraries | None:
    if not environment.only_runs():
        return None
    ffi, runtime = (_library(*of) for of in (("tvm_ffi", "tvm_ffi"), ("tvm", "tvm_runtime")))
    return Libraries(ffi, runtime) if ffi and runtime else None


def _library(package: str, name: str) -> Path | None:
    """A library in the folder lib of a package that is not imported; None where there is none."""
    loaded = sys.modules.get(package)
    found = loaded.__spec__ if loaded else find_spec(package)
    for place in (found.submodule_search_locations or ()) if found else ():
        path = Path(place).resolve() / "lib" / f"lib{name}.so"
        if path.exists():
            return path
    return None


# Of a process that only runs networks; None where TVM must be imported.
LIBRARIES = _runtime_libraries()


def is_runtime_alone() -> bool:
    """Whether the TVM of this process was imported without its compiler."""
    import tvm

    return bool(tvm.base._RUNTIME_ONLY)
