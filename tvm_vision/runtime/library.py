"""Compiled libraries, for as long as something of them is used."""

from __future__ import annotations

import os
from typing import Any

from ..tvm_compat.ffi import tvm_ffi


def load_library(path: str | os.PathLike[str]) -> Any:
    """The module of a shared library that TVM has built, such as a package's mod.so.

    It is unloaded with the last of what refers to it: the module, its functions, executors. TVM's
    own ``load_module`` keeps every library, and every pipeline of its kernels, until the process
    ends. Raises OSError or RuntimeError where it cannot be loaded.
    """
    return tvm_ffi.load_module(os.path.realpath(path), keep_module_alive=False)
