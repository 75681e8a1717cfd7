"""Operators as TensorIR functions: TVM's, and those that this project has better ones for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import ir, relax, te, tirx, topi
from tvm.relax.utils import gen_call_tir_inputs

from ...topi.arg_reduce import arg_reduce, places_in_int32
from ...topi.borders import borders
from ...topi.transposed_convolution import TransposedAxis, transposed_convolution, whole_phases
from .operators import fixed_shape, pad_widths
from .rewriting import constant_of


def _of_places(largest: bool) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        axis = call.attrs.axis
        computed = partial(
            arg_reduce, axis=None if axis is None else int(axis),
            keepdims=bool(call.attrs.keepdims), largest=largest,
        )  # fmt: skip
        return call_of_places(builder, computed, call.args[0], name_of_places(largest))

    return legalize


def name_of_places(largest: bool) -> str:
    """Of functions that ``call_of_places`` takes."""
    return "argmax" if largest else "argmin"


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


def _transposed_convolution(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Summed over the weights that meet a pixel; TVM's own puts zeros between pixels."""
    attrs, name = call.attrs, call.op.name.rpartition(".")[2]
    tensors = [*call.args, call]
    image, weights, result = (fixed_shape(tensor) for tensor in tensors)
    space = "DHW"[5 - len(image or ()) :]
    channels = (f"NC{space}", f"IO{space}", f"NC{space}")
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    of_one_type = len({str(tensor.ty.dtype) for tensor in tensors}) == 1
    if not (image and weights and result) or layouts != channels or not of_one_type:
        return call.op.get_attr("FLegalize")(builder, call)
    numbers = zip(
        image[2:], weights[2:], result[2:], attrs.strides, attrs.padding, attrs.dilation,
        strict=False,  # padding is that of both sides
    )  # fmt: skip
    axes = [TransposedAxis(*map(int, of_axis)) for of_axis in numbers]
    kernel, rest = call.args[1], whole_phases(axes)
    if any(rest):
        kernel = builder.emit(
            builder.call_te(
                topi.nn.pad, kernel, [0, 0, *(0 for _ in rest)], [0, 0, *rest],
                primfunc_name_hint="whole_phases",
            )
        )  # fmt: skip
    computed = partial(transposed_convolution, axes=axes, groups=int(attrs.groups))
    return builder.call_te(computed, call.args[0], kernel, primfunc_name_hint=name)


def _borders(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Without a branch, and along other axes each element at its own place."""
    attrs = call.attrs
    around = (pad_widths(attrs), str(attrs.pad_mode), float(attrs.pad_value))
    return builder.call_te(lambda x: borders(x, *around), call.args[0], primfunc_name_hint="pad")


def _comparison(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Of truths by logic: LLVM has no such comparison in the words that TVM has for it."""
    if any(str(operand.ty.dtype) != "bool" for operand in call.args):
        return call.op.get_attr("FLegalize")(builder, call)
    name = call.op.name.rpartition(".")[2]

    def compared(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        differ = topi.logical_xor(a, b)
        return differ if name == "not_equal" else topi.logical_not(differ)

    return builder.call_te(compared, *call.args, primfunc_name_hint=name)


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
    "relax.equal": _comparison,
    "relax.nn.pad": _borders,
    "relax.not_equal": _comparison,
    "relax.take": _selection,
    **{f"relax.nn.conv{n}d_transpose": _transposed_convolution for n in (1, 2, 3)},
}


def legalize_ops() -> Any:
    """The pass."""
    return relax.transform.LegalizeOps(OWN)
