"""The artifact, a tar or folder of mod.json, mod.params and mod.so: write, read, check, repack.

Reading needs neither TVM nor numpy: everything is checked before anything native is loaded.
What is here is imported on first use, so that ``peek`` needs nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .artifact import (
        Package,
        read_package,
        repack_package,
        unpack_package,
        write_package,
    )
    from .graph import Graph, Kernel, PlannedTensor
    from .info import (
        FORMAT,
        FORMAT_VERSION,
        DeviceInfo,
        MemoryUse,
        ModelInfo,
        PackageInfo,
        Preprocessing,
        TensorInfo,
    )
    from .precision import MeasuredPrecision, SingleLayer
    from .yoeo import ClassGroup, YoeoHead, YoeoInfo

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "ClassGroup",
    "DeviceInfo",
    "Graph",
    "Kernel",
    "MeasuredPrecision",
    "MemoryUse",
    "ModelInfo",
    "Package",
    "PackageInfo",
    "PlannedTensor",
    "Preprocessing",
    "SingleLayer",
    "TensorInfo",
    "YoeoHead",
    "YoeoInfo",
    "read_package",
    "repack_package",
    "unpack_package",
    "write_package",
]

# Where the names above are.
_MODULES = ("artifact", "info", "graph", "precision", "yoeo")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in (import_module(f".{part}", __name__) for part in _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
