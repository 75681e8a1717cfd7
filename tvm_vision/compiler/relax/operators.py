"""What passes ask of the operators of a Relax function."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tvm import relax

# Of one tensor, and of two, element by element; names without "relax.".
UNARY = (
    "abs ceil clip cos erf exp floor log negative round rsqrt sigmoid sign sin sqrt square tanh "
    "nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.relu6 nn.selu nn.silu nn.softplus"
).split()
BINARY = "add subtract multiply divide maximum minimum power".split()
RESIZE = "relax.image.resize2d"
ELEMENTWISE_OPERATORS = frozenset(f"relax.{name}" for name in (*UNARY, *BINARY))


def operator_of(expr: Any) -> str:
    """The name of the operator that an expression calls, "relax.add" for one; "" for any other."""
    return str(getattr(getattr(expr, "op", None), "name", ""))


def fixed_shape(expr: Any) -> tuple[int, ...] | None:
    """The extents of a tensor; None for anything else, and where one is known only at run time."""
    extents = getattr(getattr(getattr(expr, "ty", None), "shape", None), "values", None)
    if extents is None:
        return None
    found = [getattr(extent, "value", None) for extent in extents]
    return None if None in found else tuple(int(extent) for extent in found if extent is not None)


def pad_widths(attrs: Any) -> list[tuple[int, int]]:
    """How many elements a ``relax.nn.pad`` of these attributes adds before and after each axis."""
    widths = [int(width) for width in attrs.pad_width]
    return list(zip(widths[::2], widths[1::2], strict=True))


def padded_alike(attrs: Any, value: Any, widths: Iterable[tuple[int, int]]) -> relax.Call:
    """A ``relax.nn.pad`` of another tensor, in the mode and with the number of these attributes."""
    flat = [int(width) for side in widths for width in side]
    return relax.op.nn.pad(value, flat, str(attrs.pad_mode), float(attrs.pad_value))


def elements_of(expr: Any) -> int | None:
    """Of a tensor of fixed shape; None for anything else."""
    shape = fixed_shape(expr)
    return None if shape is None else math.prod(shape)


def resized(resize: relax.Call, image: Any, layout: str, out_dtype: str = "") -> relax.Call:
    """Another image resized as a call resizes its own. layout: of both; out_dtype: of the result,
    "" for that of the call."""
    attrs = resize.attrs
    return relax.op.image.resize2d(
        image, resize.args[1], [float(number) for number in attrs.roi], layout, str(attrs.method),
        str(attrs.coordinate_transformation_mode), str(attrs.rounding_method),
        float(attrs.cubic_alpha), int(attrs.cubic_exclude), float(attrs.extrapolation_value),
        out_dtype or attrs.out_dtype or None,
    )  # fmt: skip


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its axes of one element."""
    return tuple(extent for extent in shape if extent > 1)


def is_int8(convolution: relax.Call) -> bool:
    """Whether it sums whole numbers, as ``qdq`` writes convolutions of bytes."""
    return str(convolution.ty.dtype) == "int32"
