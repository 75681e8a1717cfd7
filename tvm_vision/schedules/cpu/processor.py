"""What schedules ask of a processor: how wide its vectors are, and how many it holds."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target, codegen


@dataclass(frozen=True)
class Processor:
    """What schedules ask of a processor: floats of a vector, vector registers."""

    lanes: int
    registers: int

    @classmethod
    def of(cls, target: Target) -> Processor:
        """Reads a target of LLVM."""
        return cls(vector_lanes(target), vector_registers(target))


def vector_lanes(target: Target) -> int:
    """Floats in a vector of a processor: 16 with AVX-512, 8 with AVX, 4 with SSE or NEON."""
    if not _is_x86(target):
        return max(4, int(codegen.llvm_get_vector_width(target)) // 32)
    # TVM's own answer is 512 bits for all of them, whatever the target says.
    for feature, lanes in (("avx512f", 16), ("avx", 8)):
        if codegen.llvm_cpu_has_features(feature, target):
            return lanes
    return 4


def vector_registers(target: Target) -> int:
    """Vector registers of a processor: 16 on x86 before AVX-512, else 32."""
    return 16 if _is_x86(target) and vector_lanes(target) < 16 else 32


def _is_x86(target: Target) -> bool:
    triple = str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple())
    return triple.startswith(("x86_64", "i386", "i686"))
