"""What onnxruntime refuses of a node's inputs and neither ONNX's inference nor TVM does: TVM makes
something of it, as of the nearest place within a tensor where an index is beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from ..refusals import OTHER_SIZES, Remedy
from .graph import Unsupported

Shape = tuple[int, ...]
_INDICES = Remedy("correct the indices", OTHER_SIZES)


def check_inputs(operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    """Raise Unsupported for inputs that an operator cannot be computed of. Of shapes that are not
    known yet, and numbers that are no constants, nothing is said."""
    if operator in _RULES:
        _RULES[operator](inputs, attributes)


def check_places(places: np.ndarray, size: int) -> None:
    """Raise Unsupported for indices beyond an axis, which may count from its end."""
    if np.any((places < -size) | (places >= size)):
        raise Unsupported(
            f"indices from {places.min()} to {places.max()} of {size} places", _INDICES
        )


def _prelu(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    shape, slope = map(_shape, inputs[:2])
    if shape is None or slope is None or _broadcasts(slope, shape):
        return
    remedy: str | Remedy = OTHER_SIZES
    if len(slope) == 1 and len(shape) > 1 and slope[0] == shape[1]:
        ones = ", 1" * (len(shape) - 2)
        remedy = Remedy(f"for one slope a channel give it the shape ({slope[0]}{ones})", remedy)
    raise Unsupported(f"slopes of {slope} for a tensor of {shape}", remedy)


def _clip(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    for bound in filter(_is_given, inputs[1:3]):
        shape = _shape(bound)
        if shape is not None and shape not in ((), (1,)):
            raise Unsupported(
                f"a bound of {shape}, where one number is needed",
                Remedy("use Max and Min for bounds of a shape", OTHER_SIZES),
            )


def _cumulative_sum(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    shape, axis = _shape(inputs[0]), _constant(inputs[1])
    if shape is not None and axis is not None:
        found = int(axis.reshape(-1)[0])
        if not -len(shape) <= found < len(shape):
            raise Unsupported(f"the axis {found} of a tensor of {shape}", "correct the axis")


def _convolution(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    weights, kernel = _shape(inputs[1]), attributes.get("kernel_shape")
    if weights is not None and kernel and tuple(kernel) != weights[2:]:
        raise Unsupported(
            f"a kernel_shape of {tuple(kernel)} and weights of {weights}", "export the model again"
        )


def _transposed(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    """Also where a padding of a stride or more is for windows as wide as that: of those newer
    versions of onnxruntime refuse what older ones have other numbers for."""
    _convolution(inputs, attributes)
    more = tuple(attributes.get("output_padding") or ())
    strides = tuple(attributes.get("strides") or (1,) * len(more))
    if any(padding >= stride for padding, stride in zip(more, strides, strict=False)):
        raise Unsupported(
            f"an output_padding of {more} and strides of {strides}",
            "leave output_padding out and put a Pad behind it",
        )


def _of_images(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    shape = _shape(inputs[0])
    if shape is not None and len(shape) < 3:
        raise Unsupported(
            f"a tensor of {shape}", "give it an axis of size 1 behind the others, by an Unsqueeze"
        )


def _steps(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    if len(inputs) < 3:
        return
    scale, zero = map(_shape, inputs[1:3])
    if scale is None or zero is None or scale == zero or math.prod(scale) == math.prod(zero) == 1:
        return
    raise Unsupported(
        f"scales of {scale} and zero points of {zero}", "give as many of both, in one shape"
    )


def _product(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    added = _shape(inputs[2]) if len(inputs) > 2 else None
    if added is not None and len(added) > 2:
        raise Unsupported(f"a bias of {added} for a matrix", OTHER_SIZES)


def _boxes(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    boxes = _shape(inputs[1])
    if boxes is not None and boxes[1:] != (4,):
        raise Unsupported(f"boxes of {boxes}, where each has four numbers", OTHER_SIZES)


def _along_axis(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    shape, indices = map(_shape, inputs[:2])
    if shape is None or indices is None or len(shape) != len(indices):
        return
    axis = attributes.get("axis", 0) % len(shape)
    if any(i > s for d, (i, s) in enumerate(zip(indices, shape, strict=True)) if d != axis):
        raise Unsupported(f"indices of {indices} for a tensor of {shape}", OTHER_SIZES)
    places = _constant(inputs[1])
    if places is not None:
        check_places(places, shape[axis])


def _grid(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    sizes = _constant(inputs[1])
    if sizes is not None and attributes.get("align_corners", 0) and 1 in sizes[2:]:
        found = tuple(int(size) for size in sizes[2:])
        raise Unsupported(
            f"a grid of {found} from corner to corner, which are one: each engine has another",
            Remedy("leave align_corners out", OTHER_SIZES),
        )


def _of_points(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    shape, places = _shape(inputs[0]), _constant(inputs[1])
    if shape is None or places is None or not places.ndim:
        return
    first = attributes.get("batch_dims", 0)
    for axis, size in enumerate(shape[first : first + places.shape[-1]]):
        check_places(places[..., axis], size)


def _counted(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    step = _constant(inputs[2])
    if step is not None and not np.all(step):
        raise Unsupported("a step of 0, which never ends", "correct the step")


_RULES = {
    "AffineGrid": _grid,
    "Clip": _clip,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "CumSum": _cumulative_sum,
    "DequantizeLinear": _steps,
    "GatherElements": _along_axis,
    "GatherND": _of_points,
    "Gemm": _product,
    "GlobalAveragePool": _of_images,
    "GlobalLpPool": _of_images,
    "GlobalMaxPool": _of_images,
    "InstanceNormalization": _of_images,
    "PRelu": _prelu,
    "QuantizeLinear": _steps,
    "Range": _counted,
    "RoiAlign": _boxes,
    "ScatterElements": _along_axis,
    "ScatterND": _of_points,
}


def _shape(value: Any) -> Shape | None:
    """A tensor's shape, where it is known."""
    kind = getattr(value, "ty", None)
    shape = getattr(kind, "shape", None) if isinstance(kind, relax.TensorType) else None
    if shape is None or not all(hasattr(size, "value") for size in shape):
        return None
    return tuple(int(size.value) for size in shape)


def _constant(value: Any) -> np.ndarray | None:
    """The numbers of a constant that has some."""
    found = value.value.numpy() if isinstance(value, GenericConst) else None
    return found if found is not None and found.size else None


def _is_given(value: Any) -> bool:
    return value is not None


def _broadcasts(one: Shape, other: Shape) -> bool:
    """Whether two shapes broadcast to one."""
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True
