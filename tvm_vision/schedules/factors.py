"""The kinds of factors that are multiplied by intrinsics, and the types that go with them."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds; OTHERS where there are no intrinsics.
FP16, INT8, OTHERS = "float16", "int8", ""


@dataclass(frozen=True)
class Types:
    """Which matrices are multiplied.

    Attributes:
        factor, sum: types of their elements.
        turned: whether a matrix B[k, n] lies in memory as [n, k], as bytes do: four neighbours
            along k are multiplied at once.
    """

    factor: str
    sum: str
    transposed: bool

    def b(self, n: int, k: int) -> tuple[int, int]:
        """Rows and columns of B as it is kept."""
        return (n, k) if self.transposed else (k, n)


TYPES = {
    FP16: Types("float16", "float32", False),
    INT8: Types("int8", "int32", True),
}
_KINDS_OF_FACTORS = {(t.factor, t.factor, t.sum): kind for kind, t in TYPES.items()}


def kind_of_factors(one: str, other: str, total: str) -> str:
    """The kind of factors of these types, added up in that of the total; OTHERS where there are no
    intrinsics for them."""
    return _KINDS_OF_FACTORS.get((one, other, total), OTHERS)
