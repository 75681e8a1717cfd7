"""Operators that change what numbers are kept as, and those that make constants."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ..onnx.graph import Unsupported
from .network import EXPORT
from .step import Converter, Step
from .values import is_rounded, real_numbers


def quantize(step: Step) -> None:
    order = step.order(0)
    step.give(step.real(0, order), order)


def dequantize(step: Step) -> None:
    """Of a weight, as those of fp16 are: its numbers as float32."""
    data, by = step.array(0), step.tensor(0).quantization
    if data is not None:
        whole = by is not None and data.dtype.kind in "iu"
        numbers = real_numbers(data, by) if whole and by is not None else data.astype(np.float32)
        step.values.set_array(step.operator.outputs[0], numbers)
        return
    order = step.order(0)
    value = step.real(0, order)
    if step.network.dtype(value) == np.float16:
        value = step.emit("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)))
    step.give(value, order)


def densify(step: Step) -> None:
    """Sparse weights, which are dense from the file's reading on."""
    data = step.array(0)
    if data is None:
        raise Unsupported("it makes dense what is no weight", EXPORT)
    step.values.set_array(step.operator.outputs[0], data)


def cast(step: Step) -> None:
    order = step.order(0)
    if step.result().dtype.startswith("type "):
        raise Unsupported(f"its result is of TFLite's {step.result().dtype}", EXPORT)
    dtype = np.dtype(step.result().dtype)
    value = step.stored(0, order)
    if step.network.dtype(value) != dtype:
        value = step.emit("Cast", value, to=helper.np_dtype_to_tensor_dtype(dtype))
    step.keep(value, order)


def fake_quant(step: Step) -> None:
    """Rounded as if it were quantized: its range is moved so that 0 is a step."""
    options = step.options
    low, high = min(options.Min(), 0.0), max(options.Max(), 0.0)
    least, most = int(bool(options.NarrowRange())), (1 << options.NumBits()) - 1
    if high <= low or most <= least:
        raise Unsupported(f"its range is {low} to {high} in {options.NumBits()} bits", EXPORT)
    scale = np.float32((high - low) / (most - least))
    zero = np.float32(np.clip(np.round(least - low / scale), least, most))
    order = step.order(0)
    steps = step.emit("Round", step.emit("Div", step.real(0, order), scale))
    bounds = (np.float32(least) - zero, np.float32(most) - zero)
    step.give(step.emit("Mul", step.emit("Clip", steps, *bounds), scale), order)


def shape_of(step: Step) -> None:
    dtype = np.dtype(step.result().dtype)
    step.values.set_array(step.operator.outputs[0], np.array(step.shape(0), dtype))


def rank_of(step: Step) -> None:
    step.values.set_array(step.operator.outputs[0], np.array(len(step.shape(0)), np.int32))


def fill(step: Step) -> None:
    shape = np.array(step.numbers(0, "its sizes"), np.int64)
    number = step.stored(1)
    step.keep(step.emit("Expand", number, shape))


def zeros_like(step: Step) -> None:
    dtype = np.dtype(step.result().dtype)
    zero = np.zeros((), np.float32 if is_rounded(step.result()) else dtype)
    step.give(step.emit("Expand", zero, np.array(step.shape(0), np.int64)))


def range_(step: Step) -> None:
    """Of constants: its size would depend on the data."""
    found = [step.array(place) for place in range(3)]
    if any(number is None or number.size != 1 for number in found):
        raise Unsupported("its ends depend on the data", "make constants of them")
    first, last, by = (number.reshape(-1)[0] for number in found if number is not None)
    if not by or abs((last - first) / by) > 1 << 24:
        raise Unsupported(f"it runs from {first} to {last} by {by}", EXPORT)
    values = np.arange(first, last, by, dtype=first.dtype)
    step.values.set_array(step.operator.outputs[0], values)


def one_hot(step: Step) -> None:
    depth = np.array([step.number(1, "its depth")], np.int64)
    if step.has(2) != step.has(3):
        raise Unsupported("its numbers for on and off are missing", EXPORT)
    both = [step.emit("Reshape", step.stored(place), np.array([1])) for place in (3, 2)]
    numbers = step.emit("Concat", *both, axis=0)
    step.keep(step.emit("OneHot", step.stored(0), depth, numbers, axis=step.options.Axis()))


TYPES: dict[str, Converter] = {
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
    "DENSIFY": densify,
    "CAST": cast,
    "FAKE_QUANT": fake_quant,
    "SHAPE": shape_of,
    "RANK": rank_of,
    "FILL": fill,
    "ZEROS_LIKE": zeros_like,
    "RANGE": range_,
    "ONE_HOT": one_hot,
}
