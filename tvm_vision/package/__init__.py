"""The artifact, a tar or folder of mod.json, mod.params and mod.so: write, read, check, repack.

Reading needs neither TVM nor numpy: everything is checked before anything native is loaded.
"""

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
    FORMAT_VERSIONS,
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
    "FORMAT_VERSIONS",
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
