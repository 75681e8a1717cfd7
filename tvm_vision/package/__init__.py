"""Packages, each a tar or folder of mod.json, mod.params and mod.so: write, read, check, repack.

Reading needs neither TVM nor numpy: everything is checked before anything native is loaded.
What is here is imported on first use, so that ``peek`` needs nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .detection import DetectionInfo
    from .files import repack_package, sign_package, unpack_package, write_fleet, write_package
    from .fleet import Fleet, Variant
    from .graph import PlannedGraph, PlannedKernel, PlannedTensor
    from .info import (
        FORMAT,
        FORMAT_VERSION,
        MemoryUse,
        ModelInfo,
        PackageDevice,
        PackageInfo,
        Preprocessing,
    )
    from .pixels import DepthInfo, SegmentationInfo
    from .precision import Fp32Layer, MeasuredPrecision
    from .reading import Package, read_fleet, read_package, verify_package
    from .signature import PrivateKey, PublicKeys
    from .tensors import TensorInfo
    from .yoeo import ClassGroup, YoeoHead, YoeoInfo

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "ClassGroup",
    "DepthInfo",
    "DetectionInfo",
    "Fleet",
    "Fp32Layer",
    "MeasuredPrecision",
    "MemoryUse",
    "ModelInfo",
    "Package",
    "PackageDevice",
    "PackageInfo",
    "PlannedGraph",
    "PlannedKernel",
    "PlannedTensor",
    "Preprocessing",
    "PrivateKey",
    "PublicKeys",
    "SegmentationInfo",
    "TensorInfo",
    "Variant",
    "YoeoHead",
    "YoeoInfo",
    "read_fleet",
    "read_package",
    "repack_package",
    "sign_package",
    "unpack_package",
    "verify_package",
    "write_fleet",
    "write_package",
]

if not TYPE_CHECKING:  # for which no name would be a wrong one
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(
                (
                    "repack_package",
                    "sign_package",
                    "unpack_package",
                    "write_fleet",
                    "write_package",
                ),
                ".files",
            ),
            **dict.fromkeys(
                ("Package", "read_fleet", "read_package", "verify_package"), ".reading"
            ),
            **dict.fromkeys(("PrivateKey", "PublicKeys"), ".signature"),
            **dict.fromkeys(("Fleet", "Variant"), ".fleet"),
            **dict.fromkeys(
                (
                    "FORMAT",
                    "FORMAT_VERSION",
                    "PackageDevice",
                    "MemoryUse",
                    "ModelInfo",
                    "PackageInfo",
                    "Preprocessing",
                ),
                ".info",
            ),
            "DetectionInfo": ".detection",
            **dict.fromkeys(("DepthInfo", "SegmentationInfo"), ".pixels"),
            "TensorInfo": ".tensors",
            **dict.fromkeys(("PlannedGraph", "PlannedKernel", "PlannedTensor"), ".graph"),
            **dict.fromkeys(("MeasuredPrecision", "Fp32Layer"), ".precision"),
            **dict.fromkeys(("ClassGroup", "YoeoHead", "YoeoInfo"), ".yoeo"),
        },
    )
