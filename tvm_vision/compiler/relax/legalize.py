"""Operators as TensorIR functions: TVM's, and those that this project has better ones for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import ir, relax, te, tirx, topi
from tvm.relax.utils import gen_call_tir_inputs

from ...topi.arg_reduce import arg_reduce, places_in_int32
from .rewriting import constant_of


def _of_places(largest: bool) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        axis = call.attrs.axis
        computed = partial(
            arg_reduce, axis=None if axis is None else int(axis),
            keepdims=bool(call.attrs.keepdims), largest=largest,
        )  # fmt: skip
        return call_of_places(builder, computed, call.args[0], "argmax" if largest else "argmin")

    return legalize


def call_of_places(
    builder: relax.BlockBuilder, computed: Callable[[te.Tensor], te.Tensor], x: Any, name: str
) -> relax.Call:
    """A call of a function of a name that computes places by ``arg_reduce``."""
    function, arguments, result = gen_call_tir_inputs(computed, x)
    variable = builder.add_func(places_in_int32(function), name)
    return relax.call_tir(variable, arguments, result)


def _quotient(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """By a number that is known, a product: a GPU divides in about ten steps. It differs by the
    last bit at most."""
    inverse = _inverse(constant_of(call.args[1], builder.lookup_binding))
    if inverse is None:
        return ir.Op.get("relax.divide").get_attr("FLegalize")(builder, call)
    factor = tirx.const(float(inverse), "float32")
    return builder.call_te(topi.multiply, call.args[0], factor, primfunc_name_hint="divide")


def _selection(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """What lies at one place of an axis is read there by what uses it: with a tensor for the
    place it would take a kernel."""
    place, axis = constant_of(call.args[1], builder.lookup_binding), call.attrs.axis
    if place is None or place.shape or axis is None:
        return ir.Op.get("relax.take").get_attr("FLegalize")(builder, call)
    return builder.call_te(
        _selected, call.args[0], int(axis), int(place), primfunc_name_hint="select"
    )


def _selected(data: te.Tensor, axis: int, place: int) -> te.Tensor:
    axis, extent = axis % len(data.shape), int(data.shape[axis])
    at = place % extent if -extent <= place < extent else min(max(place, 0), extent - 1)
    shape = [*data.shape[:axis], *data.shape[axis + 1 :]]
    return te.compute(
        shape, lambda *i: data(*i[:axis], at, *i[axis:]), name="select", tag=topi.tag.INJECTIVE
    )


def _inverse(value: np.ndarray | None) -> Any:
    """1 / x of a number of float32 where that is 1 / 0 or neither overflows nor is denormal; else
    None."""
    if value is None or value.dtype != np.float32 or value.shape:
        return None
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / value
    exact = value == 0 or (np.isfinite(inverse) and abs(inverse) >= np.finfo("float32").tiny)
    return inverse if exact else None


OWN: dict[str, Any] = {
    "relax.argmax": _of_places(True),
    "relax.argmin": _of_places(False),
    "relax.divide": _quotient,
    "relax.take": _selection,
}


def legalize_ops() -> Any:
    """The pass."""
    return relax.transform.LegalizeOps(OWN)
