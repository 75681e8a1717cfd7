"""Keys of a Vulkan target: what TVM's Vulkan targets have no attribute for, while keys are free.

A number is told as its name and value, ``compute_units_8``; a shape of cooperative matrices as
``cooperative_matrix_16x16x16``: m x n x k of fp16, added up in float32, and as
``cooperative_matrix_int8_16x16x32`` of int8, added up in int32. Others are words. A leaf without
TVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Parts of a device that run workgroups, and of one: schedulers, threads at once, registers.
COMPUTE_UNITS, SCHEDULERS = "compute_units", "unit_schedulers"
THREADS, REGISTERS = "unit_threads", "unit_registers"
# Lanes of the narrowest subgroups, where the driver compiles for several widths by its registers.
LEAST_LANES = "least_lanes"
# What a calibration measured: multiply-adds and additions in float32, in float16 and of four bytes
# at once, memory, shared memory, a launch.
FLOPS, FLOPS_FP16, DP4A = "measured_mflops", "measured_fp16_mflops", "measured_dp4a_mops"
BANDWIDTH, SHARED, LAUNCH = "measured_mb_s", "measured_shared_mb_s", "measured_launch_ns"
NUMBERS = (
    COMPUTE_UNITS, SCHEDULERS, THREADS, REGISTERS, LEAST_LANES,
    FLOPS, FLOPS_FP16, DP4A, BANDWIDTH, SHARED, LAUNCH,
)  # fmt: skip
FLOAT16_MATRICES, INT8_MATRICES = "", "int8_"
# The driver's compiler does not get over kernels of many branches.
FEW_BRANCHES = "few_branches"
_NUMBER = re.compile(rf"({'|'.join(NUMBERS)})_([1-9][0-9]{{0,14}})")
_MATRIX = re.compile(
    rf"cooperative_matrix_({INT8_MATRICES})?([1-9][0-9]{{0,3}})x([1-9][0-9]{{0,3}})"
    r"x([1-9][0-9]{0,3})"
)


def number_key(name: str, value: int) -> str:
    """The key of a number, of a name in NUMBERS; the value is 1 at least."""
    return f"{name}_{value}"


def numbers_in(keys: Iterable[object]) -> dict[str, int]:
    """The numbers that keys tell, by name; what tells none is passed over."""
    found = [_NUMBER.fullmatch(str(key)) for key in keys]
    return {match[1]: int(match[2]) for match in found if match}


def matrix_key(of: str, m: int, n: int, k: int) -> str:
    """The key of a shape of FLOAT16_MATRICES or INT8_MATRICES."""
    return f"cooperative_matrix_{of}{m}x{n}x{k}"


def matrices_in(keys: Iterable[object], of: str) -> tuple[tuple[int, int, int], ...]:
    """The shapes (m, n, k) of FLOAT16_MATRICES or INT8_MATRICES that keys tell, in their order."""
    found = [_MATRIX.fullmatch(str(key)) for key in keys]
    return tuple(
        (int(match[2]), int(match[3]), int(match[4]))
        for match in found
        if match and (match[1] or "") == of
    )


def is_key(text: str) -> bool:
    """Whether a text is a key of this form."""
    return text == FEW_BRANCHES or bool(_NUMBER.fullmatch(text) or _MATRIX.fullmatch(text))
