"""Operators that only this front end writes into graphs, as expressions of Relax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax


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


OWN_CONVERTERS: dict[str, Callable[[Any, Any, Any], relax.Expr]] = {
    "SearchSorted": search_sorted,
    "Suppression": suppression,
}
