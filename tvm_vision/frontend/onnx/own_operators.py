"""Operators that TVM's importer has not, and those that only this front end writes into graphs, as
expressions of Relax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from tvm import relax, te, tirx, topi

from ...topi.deformed_taps import TapForm
from ...topi.forms import TextForm
from ...topi.placed_max import PoolForm
from ...topi.recurrence.form import RecurrentForm
from ...topi.regions import POOL, RegionForm
from .graph import Unsupported

# The operator of numbers that are rounded to a type of fewer bits.
ROUNDED = "RoundedTo"
# A recurrent layer of which all steps are one operator.
RECURRENCE = "Recurrence"
# What a DeformConv reads.
DEFORMED_TAPS = "DeformedTaps"
# The largest of windows, and where in its plane each lies.
PLACED_MAX = "PlacedMax"
# A Pad whose numbers of elements are known, and ONNX's modes by Relax's names.
BORDERS = "Borders"
MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
# The bits of a fraction of float32, and the exponent of its smallest normal number.
SINGLE_DIGITS, SINGLE_LOWEST = 23, -126
# The same of the types that float32 is rounded to, and the largest number where it stands for those
# beyond it; 0 where they become infinite.
NARROW = {
    "bfloat16": (7, -126, 0.0),
    "float8_e4m3fn": (3, -6, 448.0),
    "float8_e4m3fnuz": (3, -7, 240.0),
    "float8_e5m2": (2, -14, 57344.0),
    "float8_e5m2fnuz": (2, -15, 57344.0),
}


def search_sorted(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """The first place of a rising vector whose element is at least a number, for each number."""
    rising, numbers = inputs
    return relax.op.bucketize(numbers, rising, out_int32=True, right=False)


def suppression(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.suppression`` without its scratch."""
    images, classes, count = (int(size) for size in inputs[1].ty.shape)
    rows, most = images * classes, int(attributes["most"])
    types = [relax.TensorType(shape, "int32") for shape in ((rows, most), (rows,), (rows, count))]
    found = builder.emit(relax.op.call_dps_packed("tvm_vision.suppression", list(inputs), types))
    return relax.Tuple([relax.TupleGetItem(found, place) for place in (0, 1)])


def recurrence(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.recurrence`` with weights as ONNX has them; its form stands behind the name."""
    form = RecurrentForm.from_json(_text(attributes["form"]))
    tensors = [value for value in inputs if value is not None]
    projected, start = tensors[0].ty, tensors[1].ty
    steps, batch = projected.shape[0], projected.shape[1]
    shapes = [(steps, batch, start.shape[0], start.shape[2]), *[start.shape] * form.states]
    types = [relax.TensorType(shape, projected.dtype.dtype) for shape in shapes]
    found = _called(builder, "recurrence", form, tensors, types)
    return relax.Tuple([relax.TupleGetItem(found, place) for place in range(len(types))])


def taps(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.deformed_taps`` of an image, offsets and perhaps factors; its form is text."""
    form = TapForm.from_json(_text(attributes["form"]))
    given = [each for each in inputs if each is not None]
    image, offsets = given[0].ty, given[1].ty
    channels = int(image.shape[1]) * form.kernel[0] * form.kernel[1]
    shape = (image.shape[0], channels, offsets.shape[2], offsets.shape[3])
    kind = relax.TensorType(shape, image.dtype.dtype)
    return _called(builder, "deformed_taps", form, given, kind)


def placed_max(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.placed_max``, places as int64; its form is text."""
    form, image = PoolForm.from_json(_text(attributes["form"])), inputs[0].ty
    shape = (image.shape[0], image.shape[1], *form.after)
    types = [relax.TensorType(shape, dtype) for dtype in (image.dtype.dtype, "int32")]
    found = _called(builder, "placed_max", form, [inputs[0]], types)
    values, places = (builder.emit(relax.TupleGetItem(found, place)) for place in (0, 1))
    return relax.Tuple([values, builder.emit(relax.op.astype(places, "int64"))])


def borders(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """A tensor with elements more around it, or fewer: ``widths`` before and after each axis."""
    data, widths, value = inputs[0], list(map(int, attributes["widths"])), attributes["value"]
    mode, dtype = MODES[_text(attributes["mode"])], data.ty.dtype.dtype
    if mode == "constant" and not dtype.startswith("float"):
        # Relax has a number of float64 there, which is not all that integers are.
        number = tirx.const(int(value), dtype)
        return builder.emit_te(topi.nn.pad, data, widths[::2], widths[1::2], number)
    return relax.op.nn.pad(data, widths, mode, float(value))


def roi_align(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.regions`` of boxes with the number of the image of each."""
    data, boxes, images = inputs
    form = RegionForm(
        _text(attributes.get("mode", "avg")),
        int(attributes.get("output_height", 1)),
        int(attributes.get("output_width", 1)),
        float(attributes.get("spatial_scale", 1.0)),
        int(attributes.get("sampling_ratio", 0)),
        _text(attributes.get("coordinate_transformation_mode", "half_pixel")) == "half_pixel",
    )
    return _regions(builder, data, boxes, images, form)


def max_roi_pool(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """``topi.regions`` of boxes behind the number of the image of each."""
    data, rows = inputs
    images, boxes = (
        builder.emit(relax.op.strided_slice(rows, [1], [begin], [end]))
        for begin, end in ((0, 1), (1, 5))
    )
    images = builder.emit(relax.op.reshape(images, [rows.ty.shape[0]]))
    height, width = (int(size) for size in attributes["pooled_shape"])
    form = RegionForm(POOL, height, width, float(attributes.get("spatial_scale", 1.0)))
    return _regions(builder, data, boxes, images, form)


def _regions(builder: Any, data: Any, boxes: Any, images: Any, form: RegionForm) -> relax.Expr:
    boxes = builder.emit(relax.op.astype(boxes, "float32"))
    images = builder.emit(relax.op.astype(images, "int32"))
    shape = (boxes.ty.shape[0], data.ty.shape[1], form.height, form.width)
    kind = relax.TensorType(shape, data.ty.dtype.dtype)
    return _called(builder, "regions", form, [data, boxes, images], kind)


def _called(builder: Any, name: str, form: TextForm, tensors: list[Any], types: Any) -> relax.Expr:
    """A call of an operator of our own, its form behind the name, where the compiler finds it."""
    name = f"tvm_vision.{name} {form.to_json()}"
    return builder.emit(relax.op.call_dps_packed(name, tensors, types))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def local_response(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """LRN: numbers over a power of the mean of the squares of the channels around them; of an even
    size a channel more behind than before."""
    size = int(attributes["size"])
    alpha, beta, bias = (
        float(attributes.get(name, usual))
        for name, usual in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )

    def computed(data: te.Tensor) -> te.Tensor:
        dtype, before, k = str(data.dtype), (size - 1) // 2, te.reduce_axis((0, size), "k")

        def square(n: Any, c: Any, *at: Any) -> Any:
            channel = c + k.var - before
            inside = tirx.all(channel >= 0, channel < data.shape[1])
            value = data(n, channel, *at)
            return te.sum(tirx.if_then_else(inside, value * value, tirx.const(0, dtype)), axis=k)

        def divided(*at: Any) -> Any:
            base = tirx.const(bias, dtype) + tirx.const(alpha / size, dtype) * squares(*at)
            return data(*at) / tirx.power(base, tirx.const(beta, dtype))

        squares = te.compute(data.shape, square, name="squares")
        return te.compute(data.shape, divided, name="local_response")

    return builder.emit_te(computed, inputs[0], primfunc_name_hint="local_response")


def cumulative_product(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """The products of all elements along an axis up to each one, or from each one on."""
    data, axis = inputs[0], getattr(inputs[1], "value", None)
    if axis is None:
        raise Unsupported("its axis is computed at run time", "make it a constant")
    along, exclusive = int(axis.numpy().item()), bool(attributes.get("exclusive", 0))
    dtype, backwards = data.ty.dtype.dtype, bool(attributes.get("reverse", 0))
    if backwards:
        data = builder.emit_te(topi.flip, data, axis=along)
    data = builder.normalize(relax.op.cumprod(data, along, dtype, exclusive))
    return builder.emit_te(topi.flip, data, axis=along) if backwards else data


def bit_cast(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """The same bits read as another type of the same size."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]).name
    found = inputs[0].ty.dtype.dtype
    if "bool" in (dtype, found):
        return relax.op.astype(inputs[0], dtype)
    return builder.emit_te(lambda data: _as_bits(data, dtype), inputs[0])


def _as_bits(data: Any, dtype: str) -> Any:
    return te.compute(data.shape, lambda *at: tirx.reinterpret(dtype, data(*at)), name="bits")


def rounded_to(builder: Any, inputs: Any, attributes: Any) -> relax.Expr:
    """Numbers of float32 rounded to those that a narrower type has, halves to even, still in
    float32: a compiler leaves out a pair of casts, and what they round with them."""
    narrow = NARROW[onnx.helper.tensor_dtype_to_np_dtype(attributes["kind"]).name]
    return builder.emit_te(lambda data: _as_narrow(data, *narrow), inputs[0])


def _as_narrow(data: Any, digits: int, lowest: int, most: float) -> Any:
    dropped = SINGLE_DIGITS - digits
    kept, half = ((1 << 32) - 1) >> dropped << dropped, (1 << (dropped - 1)) - 1

    def rounded(*at: Any) -> Any:
        x = data(*at)
        bits = tirx.reinterpret("uint32", x)
        odd = tirx.bitwise_and(bits >> _word(dropped), _word(1))
        value = tirx.reinterpret("float32", tirx.bitwise_and(bits + _word(half) + odd, _word(kept)))
        if lowest > SINGLE_LOWEST:
            # Below the smallest normal number all are as far apart as there.
            step = tirx.const(2.0 ** (lowest - digits), "float32")
            fine = tirx.nearbyint(x / step) * step
            value = tirx.Select(tirx.abs(x) < tirx.const(2.0**lowest, "float32"), fine, value)
        if most:
            end = tirx.const(most, "float32")
            value = tirx.max(tirx.min(value, end), -end)
        return tirx.Select(tirx.isnan(x), x, value)

    return te.compute(data.shape, rounded, name="rounded")


def _word(value: int) -> Any:
    return tirx.const(value, "uint32")


OWN_CONVERTERS: dict[str, Callable[[Any, Any, Any], relax.Expr]] = {
    BORDERS: borders,
    "BitCast": bit_cast,
    "CumProd": cumulative_product,
    DEFORMED_TAPS: taps,
    "LRN": local_response,
    "MaxRoiPool": max_roi_pool,
    PLACED_MAX: placed_max,
    RECURRENCE: recurrence,
    ROUNDED: rounded_to,
    "RoiAlign": roi_align,
    "SearchSorted": search_sorted,
    "Suppression": suppression,
}
