"""Keys that a device's target gets from what the device reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..target_keys import (
    COMPUTE_UNITS,
    FEW_BRANCHES,
    FLOAT16_MATRICES,
    INT8_MATRICES,
    LEAST_LANES,
    REGISTERS,
    SCHEDULERS,
    THREADS,
    matrix_key,
    number_key,
)

_OF_A_UNIT = (SCHEDULERS, THREADS, REGISTERS)

# Intel's driver does not tell its units: these are of the full chips, by PCI id, 16 vector engines
# each. Smaller models share ids with them. Names of ids: Mesa, include/pci_ids/iris_pci_ids.h.
# Units: of Tiger, Alder and Raptor Lake, Mesa, src/intel/dev/intel_device_info.c, six dual
# subslices of 16 (GFX12_GT_FEATURES for GT2, and rpl_p); of the others, Intel's product
# specifications (ark.intel.com), "Xe-cores": Core Ultra 7 155H 8, and of Arc's cards as they stand.
_INTEL = 0x8086  # its number among vendors of PCI devices
_INTEL_UNITS = {
    0x9A49: 6, 0x9A40: 6,  # Tiger Lake, Iris Xe
    0x46A6: 6, 0x46A8: 6,  # Alder Lake-P
    0xA7A0: 6, 0xA7A1: 6,  # Raptor Lake-P
    0x7D55: 8, 0x7DD5: 8,  # Meteor Lake
    0x56A0: 32, 0x56A1: 28, 0x56A5: 8, 0x56A6: 6,  # Arc A770, A750, A380, A310
}  # fmt: skip
# Types of A, B, C and result, as the backend names them.
_MATRICES: dict[tuple[str, ...], str] = {
    ("float16", "float16", "float32", "float32"): FLOAT16_MATRICES,
    ("int8", "int8", "int32", "int32"): INT8_MATRICES,
}
_SWIFTSHADER = "SwiftShader"


def keys_of(device: Mapping[str, Any]) -> list[str]:
    """The keys, see ``tvm_vision.target_keys``, of a device as the backend describes it."""
    told = [(name, int(device.get(name, 0))) for name in (COMPUTE_UNITS, *_OF_A_UNIT)]
    if int(device.get("vendor_id", 0)) == _INTEL:
        if not told[0][1]:
            told[0] = (COMPUTE_UNITS, _INTEL_UNITS.get(int(device.get("device_id", 0)), 0))
        told.append((LEAST_LANES, int(device["min_subgroup_size"])))
    numbers = [number_key(name, n) for name, n in told if n]
    return [*numbers, *_matrix_keys(device), *_driver_keys(device)]


def _driver_keys(device: Mapping[str, Any]) -> list[str]:
    """What a driver's compiler needs help with.

    SwiftShader takes twice as long, and twice the memory, for each branch that follows another one
    in a loop: a kernel of 21 takes 0.2 s, one of 24 takes 1.3 s, one of 45 had not ended after ten
    minutes and 15 GB.
    """
    return [FEW_BRANCHES] if str(device["driver_name"]).startswith(_SWIFTSHADER) else []


def _spills_matrices(device: Mapping[str, Any]) -> bool:
    """Whether a driver offers matrices that make kernels slow: Intel's of subgroups of 8 lanes.

    Mesa offers them from version 25 on for those that share the processor's memory, which have no
    units for them, and writes them out: a kernel of 1,199 instructions has 22,410. Arc's first
    cards have units, but registers are short there: of 52 tiles of ResNet-18's and SqueezeNet's
    convolutions each spills in the 32 lanes that Mesa takes, and in 8 all but the shortest sums
    (benchmarks/static.md).
    """
    return int(device["vendor_id"]) == _INTEL and int(device["min_subgroup_size"]) < 16


def _matrix_keys(device: Mapping[str, Any]) -> list[str]:
    if _spills_matrices(device):
        return []
    found: dict[str, None] = {}  # each once: shapes are told again for what saturates
    for m, n, k, *types in (tuple(shape) for shape in device["cooperative_matrix_shapes"]):
        of = _MATRICES.get(tuple(map(str, types)))
        if of is not None:
            found[matrix_key(of, int(m), int(n), int(k))] = None
    return list(found)
