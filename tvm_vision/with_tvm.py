"""The Vulkan backend comes with TVM: registered as soon as both are in one process.

TVM takes a second to import, which ``--help`` does not need. So the front door waits for whoever
needs TVM first: user code, or ours, which all comes through one module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .collecting import collected_seldom

BACKEND = "tvm_vision.vulkan"
# TVM, and where ours has it from: the first of them to come brings the backend once it is complete.
AWAITED = ("tvm", "tvm_vision.tvm_compat.ffi")


def register_with_tvm() -> None:
    """Register the backend now where TVM is imported, else when it is.

    Raises what ``tvm_vision.vulkan`` raises, here or out of that import: DeviceError where the
    native library is missing.
    """
    if "tvm" in sys.modules:
        importlib.import_module(BACKEND)
    elif not any(isinstance(finder, _AfterTvm) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTvm())


class _AfterTvm:
    """An import hook for one import: it has the backend imported after what it finds. Whoever only
    asks where TVM is leaves it there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in AWAITED:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, found), None)
        loader: Any = spec.loader if spec else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def and_then(module: ModuleType) -> None:
            # Whoever only looks around imports nothing of it.
            from .tvm_compat.quick_import import quickly_imported

            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            del loader.exec_module
            # Of 150,000 objects that are made none is garbage.
            with collected_seldom(), quickly_imported() if name == "tvm" else nullcontext():
                execute(module)
            importlib.import_module(BACKEND)

        loader.exec_module = and_then
        return spec
