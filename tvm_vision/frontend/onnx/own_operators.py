"""Operators that TVM's importer has not, and those that only this front end writes into graphs, as
expressions of Relax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from tvm import relax, te, tirx, topi

from .graph import Unsupported


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


OWN_CONVERTERS: dict[str, Callable[[Any, Any, Any], relax.Expr]] = {
    "BitCast": bit_cast,
    "CumProd": cumulative_product,
    "SearchSorted": search_sorted,
    "Suppression": suppression,
}
