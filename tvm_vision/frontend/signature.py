"""What goes into a model and what comes out: names, shapes and types, all fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnsupportedModelError
from ..package.tensors import IntegersInfo
from .refusals import Cut, Remedy


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    ``name`` as in the model file, ``shape`` in elements, ``dtype`` as numpy spells it ("float32").
    ``quantization``: of what the network keeps as integers, whether or not ``dtype`` is theirs.
    ``units``: words for people, such as how many of its rows are real.
    Raises ValueError for an empty name, a size below 0 or an empty dtype.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: IntegersInfo | None = None
    units: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("expected a name for the tensor, got an empty string")
        for size in self.shape:
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"expected sizes of at least 0 for '{self.name}', got {size!r}")
        if not self.dtype:
            raise ValueError(f"expected a dtype for '{self.name}', got an empty string")

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class OpenShape(UnsupportedModelError):
    """A tensor whose size depends on the data.

    reason: what was needed and found. remedy: what can be done about it.
    """

    def __init__(self, reason: str, remedy: Remedy) -> None:
        super().__init__(remedy.behind(reason))
        self.reason, self.remedy = reason, remedy

    def without_cut(self) -> OpenShape:
        """The same for whom the model was cut already."""
        return OpenShape(self.reason, self.remedy.without_cut())


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a model in the order of its parameters and results.

    cut: of a model that was cut, the names of its outputs that are none here any more.
    input_values: of inputs of the model that are constants here, name -> value.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    cut: tuple[str, ...] = ()
    input_values: Mapping[str, Any] = field(default_factory=dict)


def spec_of(name: str, tensor_type: Any) -> TensorSpec:
    """The spec of a relax.TensorType. Raises OpenShape where its shape is not fixed."""
    shape = getattr(tensor_type, "shape", None)
    sizes = [getattr(size, "value", None) for size in shape] if shape is not None else [None]
    # A slice that ends before it starts has a size below 0 for TVM.
    fixed = tuple(max(0, int(size)) for size in sizes if size is not None)
    if len(fixed) < len(sizes):
        raise OpenShape(
            f"fixed shapes are needed, and '{name}' depends on the data, found {tensor_type}",
            Remedy(Cut("what decides its size")),
        )
    return TensorSpec(name, fixed, str(tensor_type.dtype))
