"""``tvm_ffi`` as everything that runs needs it: without PyTorch, with our errors.

from .ffi import tvm_ffi
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from typing import Any

from .. import errors
from .quick_import import quickly_imported
from .runtime_library import LIBRARIES


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


def _give_tensors_numpy() -> None:
    """Tensors with ``numpy()``, as TVM's are; its own class takes over when it is imported."""
    import numpy as np

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


_lean = LIBRARIES is not None and "tvm" not in sys.modules
if LIBRARIES is not None and _lean:
    LIBRARIES.load()
    _import_without_torch("tvm_ffi")
else:
    with quickly_imported():
        importlib.import_module("tvm")

import tvm_ffi  # noqa: E402

if _lean:
    _give_tensors_numpy()

# An exception that passes through TVM's C++, in either direction, keeps its class by this name.
for _class in vars(errors).values():
    if isinstance(_class, type) and issubclass(_class, errors.TvmVisionError):
        tvm_ffi.error.register_error(_class.__name__, _class)

__all__ = ["tvm_ffi"]
