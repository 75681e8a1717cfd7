"""Channels last: convolutions on NHWC and NDHWC tensors, so that what a thread fetches at once lies
together.

In NCHW the neighbours of a pixel's channel are other pixels, and whether they exist (padding) and
where they lie (strides) is decided one by one. In NHWC they are the other channels of the same
pixel: four or eight of them are one load under one condition. Weights are turned when the network
is compiled; the network's inputs and outputs keep their layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir.prim import expr as prim

from .kernel_calls import bindings_of
from .operators import operator_of
from .pads_as_pools import PadsAsPools
from .rewriting import is_constant, rewritten, value_of
from .shuffles import Shuffles, with_stand_ins
from .sink_turns import sink_turns

_CONVOLUTIONS = {
    "relax.nn.conv2d": ["NHWC", "HWIO"],
    "relax.nn.conv3d": ["NDHWC", "DHWIO"],
}
_LAYOUTS = {
    **_CONVOLUTIONS,
    # Which TVM would turn along, and has no kernel for then.
    "relax.nn.conv2d_transpose": ["NCHW", "IOHW"],
}


def channels_last(mod: tvm.IRModule, shuffles: bool = False) -> tvm.IRModule:
    """``main`` with its convolutions of two and three axes, and what stands between them, so;
    shuffles: also channels that are dealt out."""
    pads = PadsAsPools()
    mod = pads.put(with_stand_ins(mod) if shuffles else mod)
    turned = tvm.transform.Sequential(
        [
            _pass("ActivationsAsMaxima", _Activations),
            _pass("Stays", _Stays),
            relax.transform.ConvertLayout(_LAYOUTS),
            _pass("WithoutStays", _WithoutStays),
            relax.transform.Normalize(),
            _pass("ShufflesAgain", Shuffles),
            relax.transform.EliminateCommonSubexpr(),
            relax.transform.DeadCodeElimination(),
        ]
    )(mod)
    return sink_turns(pads.take_back(turned))


def transposes(mod: tvm.IRModule) -> int:
    """How many operators of ``main`` change the order of axes of what is no constant."""
    bound = dict(bindings_of(mod["main"]))
    turned = [v.args[0] for v in bound.values() if operator_of(v) == "relax.permute_dims"]
    return sum(not is_constant(source, bound.get) for source in turned)


def calls_of(mod: tvm.IRModule, *operators: str) -> list[relax.Call]:
    """The calls of some operators in ``main``."""
    return [value for _, value in bindings_of(mod["main"]) if operator_of(value) in operators]


def convolutions_of(mod: tvm.IRModule) -> list[relax.Call]:
    """The calls in ``main`` of what ``channels_last`` turns."""
    return calls_of(mod, *_CONVOLUTIONS)


@relax.expr_functor.mutator
class _Activations(relax.PyExprMutator):
    """Leaky ReLU and clips as maxima and minima: TVM turns no layouts through the operators
    themselves."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        name = getattr(call.op, "name", "")
        if name == "relax.nn.leakyrelu" and 0.0 <= float(call.attrs.alpha) <= 1.0:
            x = call.args[0]
            return relax.op.maximum(x, relax.op.multiply(x, _constant(call.attrs.alpha, x)))
        if name == "relax.clip":
            x, low, high = call.args
            if all(isinstance(bound, (tirx.IntImm, tirx.FloatImm)) for bound in (low, high)):
                raised = relax.op.maximum(x, _constant(low.value, x))
                return relax.op.minimum(raised, _constant(high.value, x))
        if name == "relax.call_tir":
            return self._of_kernel(call)
        return call

    def _of_kernel(self, call: relax.Call) -> relax.Expr:
        """TVM's importer writes a clip's bounds as kernels of a tensor and a number."""
        of = _EXTREMA.get(call.args[0].name_hint.rstrip("0123456789"))
        arguments = call.args[1]
        if of is None or not isinstance(arguments, relax.Tuple) or len(arguments.fields) != 2:
            return call
        x, bound = arguments.fields
        same = tvm_ffi.structural_equal(x.ty, call.ty)
        if not same or not isinstance(bound.ty, relax.TensorType) or bound.ty.ndim != 0:
            return call
        operator, node = of
        stores: list[Any] = []
        body = self.builder_.get()[call.args[0]].body
        tvm_ffi.structural_walk(body, (tirx.BufferStore, stores.append))
        if len(stores) != 1 or not isinstance(stores[0].value, node):
            return call
        return operator(x, bound)


# What TVM turns wrongly: of ScatterND the tensor and the updates, but not the places among the
# indices; of norms the axes alone, which TVM has no right kernels for then. By operators: which
# arguments keep their layout.
_KEPT = {
    "relax.scatter_nd": (0, 2),
    "relax.nn.layer_norm": (0,),
    "relax.nn.rms_norm": (0,),
}


def _kept(call: Any) -> tuple[int, ...]:
    """The arguments of a call that keep their layout."""
    name = operator_of(call)
    if name == "relax.nn.layer_norm" and len(call.attrs.axes) == 1:
        return ()  # has a kernel for any axis
    return _KEPT.get(name, ())


def _with_arguments(call: relax.Call, arguments: dict[int, Any]) -> relax.Call:
    args = [arguments.get(place, argument) for place, argument in enumerate(call.args)]
    return relax.Call(call.op, args, call.attrs, call.ty_args)


@relax.expr_functor.mutator
class _Stays(relax.PyExprMutator):
    """Reshapes before operators that TVM turns wrongly, to the shapes that tensors have: it turns
    no layouts through them. Axes that are squeezed are counted from the first."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if operator_of(call) == "relax.squeeze" and call.attrs.axis is not None:
            # TVM's pass looks for the letters of a layout at axes as they are, negative ones too.
            axes = [int(axis) % call.args[0].ty.ndim for axis in call.attrs.axis]
            return relax.op.squeeze(call.args[0], axes)
        if not _kept(call):
            return call
        args = {place: call.args[place] for place in _kept(call)}
        stays = {place: relax.op.reshape(x, x.ty.shape) for place, x in args.items()}
        return _with_arguments(call, stays)


@relax.expr_functor.mutator
class _WithoutStays(relax.PyExprMutator):
    """The operators without those reshapes."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not _kept(call):
            return call
        stays = {place: value_of(call.args[place], self.lookup_binding) for place in _kept(call)}
        before = {
            place: stay.args[0]
            for place, stay in stays.items()
            if operator_of(stay) == "relax.reshape"
        }
        return _with_arguments(call, before)


_EXTREMA = {
    "maximum": (relax.op.maximum, prim.Max),
    "minimum": (relax.op.minimum, prim.Min),
}


def _constant(value: float, like: relax.Expr) -> relax.Expr:
    return relax.const(np.array(value, str(like.ty.dtype)))


def _pass(name: str, mutator: Any) -> tvm.transform.Pass:
    """A pass of a mutator over all Relax functions."""

    def rewrite(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        return rewritten(mod, mutator(mod))

    return tvm.transform.module_pass(rewrite, opt_level=0, name=name)
