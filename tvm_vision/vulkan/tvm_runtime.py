"""TVM in this process: all of it, or its runtime library alone.

Where ``TVM_USE_RUNTIME_LIB=1`` says that networks are only run, ``import tvm`` would still execute
the Python of TVM's compiler, and prepare the backtrace of an error that it raises on the way: more
than all else before the first result. Running needs the library and ``tvm_ffi``. Who needs more of
TVM imports it, before this or after.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RUNTIME_ONLY = "TVM_USE_RUNTIME_LIB"


def load_tvm() -> None:
    """Load the libraries that ours links to, and tvm_ffi; with them the compiler, where there is
    one and it is wanted."""
    folder = _library_folder()
    if folder is None:
        importlib.import_module("tvm")
        return
    if "tvm" not in sys.modules:
        _import_without_torch("tvm_ffi")
        # As TVM loads it, so that it finds it loaded when it is imported later.
        ctypes.CDLL(str(folder / "libtvm_runtime.so"), ctypes.RTLD_GLOBAL)
        _give_tensors_numpy()
    # Sorts of the CPU path. TVM leaves it out where its compiler is not loaded.
    extra = folder / "libtvm_runtime_extra.so"
    if extra.exists():
        ctypes.CDLL(str(extra), ctypes.RTLD_LOCAL)


def _library_folder() -> Path | None:
    """Where TVM's runtime library can be taken from by itself; None where TVM must be imported."""
    if os.environ.get(RUNTIME_ONLY) != "1" or os.environ.get("TVM_LIBRARY_PATH"):
        return None
    found = find_spec("tvm")
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place).resolve() / "lib"
        if (folder / "libtvm_runtime.so").exists():
            return folder
    return None


def _give_tensors_numpy() -> None:
    """Tensors with ``numpy()``, as TVM's are; its own class takes over when it is imported."""
    import numpy as np
    import tvm_ffi

    copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyToBytes")

    class Tensor(tvm_ffi.core.Tensor):
        """A tensor whose content can be copied to numpy."""

        __slots__ = ()

        def numpy(self) -> Any:
            """A copy as numpy array."""
            array = np.empty(self.shape, str(self.dtype))
            copy(self, ctypes.c_void_p(array.ctypes.data), array.nbytes)
            return array

    # The two calls by which TVM makes its own class that of every tensor.
    tvm_ffi.register_object("ffi.Tensor")(Tensor)
    tvm_ffi.core._set_class_tensor(Tensor)


class _NoTorch:
    """An import hook by which PyTorch is not there, for one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("PyTorch is not needed to run networks", name=name)


def _import_without_torch(name: str) -> None:
    """Import a module that would import PyTorch wherever that is installed, for seconds.

    Where PyTorch is imported already it is left to it.
    """
    hook: Any = _NoTorch()
    sys.meta_path.insert(0, hook)
    try:
        importlib.import_module(name)
    finally:
        sys.meta_path.remove(hook)
