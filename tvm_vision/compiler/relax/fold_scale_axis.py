"""Scales and shifts of channels move into the weights of the operator before them.

A convolution followed by additions and products with one constant a channel (a bias, a batch norm
taken apart) computes ``(w * x) * scale + shift``; that is ``(w * scale) * x + shift``, one addition
instead of four operators. Products with constant weights are treated alike.

What nothing linear comes before, as where a batch norm is the first of a block (He et al. 2016,
"Identity mappings in deep residual networks"), is a product and an addition at least.

A layer scale that has not learned much, as 1e-5, would leave weights that fp16 has no digits for.
One number, a power of 2, is then left out of them and multiplies the sums. So it is of weights that
are as small in the model, where exporters have folded such a scale already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .kernel_calls import bindings_of
from .operators import fixed_shape
from .rewriting import Lookup, bind, constant_of, is_constant, rebind, resolve

Array = np.ndarray

# Operator -> (axis of channels in the result, axis of channels in the weights); axes of the result
# count from its end where they are negative. The layouts are checked, not assumed.
_CHANNELS = {
    "relax.nn.conv2d": (1, 0),
    "relax.nn.conv3d": (1, 0),
    "relax.nn.conv2d_transpose": (1, 1),
    "relax.nn.conv3d_transpose": (1, 1),
    "relax.matmul": (-1, -1),
}

_FLOATS = ("float16", "float32", "float64")
# Shifts from here on round what they are added to: float32 has steps of 2^-11 behind them.
ROUNDS = 4096.0
# The largest weight below which many others have fewer digits as fp16: its normal numbers end at
# 2^-14.
SMALL = 2.0**-10
USUAL = 2.0**-4  # what the largest of such weights is then, where the model's are as small
LEAST_EXPONENT = -126  # of what is left out of them, a normal number of float32

# Operator -> new (scale, shift) from the old ones and a constant; second where the constant stands
# first, None where that is no scale and shift.
_Step = Callable[[Array, Array, Array], tuple[Array, Array]]
_STEPS: dict[str, tuple[_Step, _Step | None]] = {
    "relax.add": (lambda a, b, c: (a, b + c), lambda a, b, c: (a, b + c)),
    "relax.subtract": (lambda a, b, c: (a, b - c), lambda a, b, c: (-a, c - b)),
    "relax.multiply": (lambda a, b, c: (a * c, b * c), lambda a, b, c: (a * c, b * c)),
    "relax.divide": (lambda a, b, c: (a / c, b / c), None),
}


@dataclass
class _Chain:
    """A tensor and the constants applied to it so far.

    Attributes:
        start: the tensor.
        call: the linear operator that makes it; None for another, of which ``of`` is the type.
        axis: of its channels.
        scale, shift: one number for each.
        steps: operators.
    """

    start: relax.Var
    call: relax.Call | None
    of: Any
    axis: int
    scale: Array
    shift: Array
    steps: int


@tvm.transform.module_pass(opt_level=0, name="FoldScalesIntoWeights")
def fold_scales(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """A pass over ``main``: see this file's first lines. Dead bindings are left behind."""
    folder = _Folder(mod)
    folder.builder_.update_func(mod.get_global_var("main"), folder.rewrite(mod["main"]))
    return folder.builder_.get()


@mutator
class _Folder(PyExprMutator):
    def rewrite(self, main: relax.Function) -> relax.Function:
        self._bound = dict(bindings_of(main))
        self._ends = _chains(main)
        return self.visit_expr(main)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        chain = self._ends.get(binding.var)
        if chain is None:
            super().visit_var_binding_(binding)
            return
        dtype, ndim = str(chain.of.dtype), len(binding.var.ty.shape)
        shift = relax.const(_along(chain.shift, ndim, chain.axis).astype(dtype))
        if chain.call is None:
            scale = relax.const(_along(chain.scale, ndim, chain.axis).astype(dtype))
            scaled = relax.op.multiply(self.visit_expr(chain.start), scale)
            linear = self.builder_.emit(scaled, str(binding.var.name))
        else:
            linear = self._folded(chain, chain.call)
        if chain.steps:
            rebind(self, binding.var, relax.op.add(linear, shift))
        else:
            bind(self, binding.var, linear)

    def _folded(self, chain: _Chain, call: relax.Call) -> relax.Var:
        """The result of a linear operator with a chain's scale in its weights."""
        data = self.visit_expr(call.args[0])
        # Not before: a chain that kept them would be a second copy of all weights.
        weights = constant_of(call.args[1], self._bound.get)
        assert weights is not None
        axis = _CHANNELS[call.op.name][1]
        scaled = weights * _along(chain.scale, weights.ndim, axis)
        left = _left_out(weights, scaled)
        folded = relax.const((scaled / left).astype(weights.dtype))
        linear = self.builder_.emit(
            relax.Call(call.op, [data, folded], call.attrs, call.ty_args), str(chain.start.name)
        )
        if left != 1:
            number = relax.const(np.asarray(left, weights.dtype))
            linear = self.builder_.emit(relax.op.multiply(linear, number))
        return linear


def _left_out(weights: Array, folded: Array) -> float:
    """What weights are not multiplied by, that they stay about as large as they were; 1 for those
    that do anyway."""
    before, after = map(_largest, (weights, folded))
    usual = before if before >= SMALL else USUAL
    if not 0 < after < min(SMALL, usual / 2):
        return 1.0
    return float(2.0 ** max(np.round(np.log2(after / usual)), LEAST_EXPONENT))


def _largest(values: Array) -> float:
    """The largest absolute value, without a copy of all."""
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def _chains(main: relax.Function) -> dict[relax.Var, _Chain]:
    """The last variable of each chain that is worth folding, with the chain."""
    bound = dict(bindings_of(main))
    uses = _uses(main, bound.get)
    open_chains: dict[relax.Var, _Chain] = {}
    for var, value in bound.items():
        if not isinstance(value, relax.Call):
            continue
        started = _start(var, value, bound.get)
        if started is not None:
            open_chains[var] = started
            continue
        extended = _extend(value, open_chains, bound.get, uses)
        if extended is not None:
            before, chain = extended
            open_chains.pop(before, None)
            open_chains[var] = chain
    return {
        var: chain
        for var, chain in open_chains.items()
        if _gains(chain) or _is_small(chain, bound.get)
    }


def _gains(chain: _Chain) -> bool:
    """Whether there are fewer operators than before: an addition is left behind a linear one, a
    product and an addition behind anything else."""
    if chain.call is None:
        return chain.steps > 2
    return chain.steps > 1 or (chain.steps == 1 and not np.all(chain.scale == 1))


def _is_small(chain: _Chain, lookup: Lookup) -> bool:
    """Whether the weights that a chain begins with have fewer digits as fp16."""
    weights = None if chain.call is None else constant_of(chain.call.args[1], lookup)
    return weights is not None and 0 < _largest(weights) < SMALL


def _uses(main: relax.Function, lookup: Lookup) -> Counter[relax.Var]:
    """How often the result of each operator is an argument of another, or of the function."""
    uses: Counter[relax.Var] = Counter()

    def count(expr: Any) -> None:
        found = resolve(expr, lookup)
        if isinstance(found, relax.Var):
            uses[found] += 1
        elif isinstance(found, relax.Tuple):
            for item in found.fields:
                count(item)

    for _, value in bindings_of(main):
        for argument in value.args if isinstance(value, relax.Call) else ():
            count(argument)
    count(main.body.body)
    return uses


def _start(var: relax.Var, call: relax.Call, lookup: Lookup) -> _Chain | None:
    name = getattr(call.op, "name", "")
    if name not in _CHANNELS:
        return None
    weights = call.args[1]
    if not is_constant(weights, lookup) or str(weights.ty.dtype) not in _FLOATS:
        return None
    shape = fixed_shape(weights)
    if shape is None or not _usual_layout(name, call):
        return None
    of_result, of_weights = _CHANNELS[name]
    channels = shape[of_weights]
    axis = of_result % len(call.ty.shape)
    return _Chain(var, call, call.ty, axis, np.ones(channels), np.zeros(channels), 0)


def _first(call: relax.Call, place: int, lookup: Lookup) -> _Chain | None:
    """The chain that begins with a call's operand, where the other has a number for each of the
    channels, which are more than one."""
    tensor, given = call.args[place], call.args[1 - place]
    shape, values = fixed_shape(tensor), fixed_shape(given)
    if shape is None or values is None or not is_constant(given, lookup):
        return None
    if shape != fixed_shape(call) or str(tensor.ty.dtype) not in _FLOATS:
        return None
    axes = [axis for axis, n in enumerate(values, len(shape) - len(values)) if n > 1]
    if len(axes) != 1 or shape[axes[0]] == 1:
        return None
    channels = shape[axes[0]]
    start = resolve(tensor, lookup)
    if not isinstance(start, relax.Var):
        return None
    return _Chain(start, None, tensor.ty, axes[0], np.ones(channels), np.zeros(channels), 0)


def _usual_layout(name: str, call: relax.Call) -> bool:
    """Channels on the axes of _CHANNELS, the result of the weights' type."""
    weights = call.args[1].ty
    if str(call.ty.dtype) != str(weights.dtype) or call.ty.ndim < 2:
        return False
    if name == "relax.matmul":
        return bool(weights.ndim == 2)
    attrs = call.attrs
    kernel = "IO" if name.endswith("_transpose") else "OI"
    grouped = name.endswith("_transpose") and int(attrs.groups) != 1
    layouts = (str(attrs.data_layout)[:2], str(attrs.out_layout or "NC")[:2])
    return layouts == ("NC", "NC") and str(attrs.kernel_layout).startswith(kernel) and not grouped


def _extend(
    call: relax.Call,
    chains: dict[relax.Var, _Chain],
    lookup: Lookup,
    uses: Counter[relax.Var],
) -> tuple[relax.Var, _Chain] | None:
    """The variable that ``call`` continues, and the longer chain."""
    steps = _STEPS.get(getattr(call.op, "name", ""))
    if steps is None:
        return None
    for place, step in enumerate(steps):
        var = resolve(call.args[place], lookup)
        chain = chains[var] if var in chains and uses[var] == 1 else _first(call, place, lookup)
        if step is None or chain is None:
            continue
        value = _by_channel(constant_of(call.args[1 - place], lookup), chain, call)
        if value is None:
            return None
        with np.errstate(all="ignore"):
            scale, shift = step(chain.scale, chain.shift, value)
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            return None
        # To add a large number and take it again is to round (cancelling.py).
        if np.abs(chain.shift).max() >= ROUNDS and np.abs(shift).max() < ROUNDS:
            return None
        return var, replace(chain, scale=scale, shift=shift, steps=chain.steps + 1)
    return None


def _by_channel(value: Array | None, chain: _Chain, call: relax.Call) -> Array | None:
    """The constant as one float64 a channel, or None where it is something else."""
    same_type = str(call.ty.dtype) == str(chain.of.dtype)
    same_shape = list(call.ty.shape) == list(chain.of.shape)
    if value is None or not same_type or not same_shape:
        return None
    channels, ndim = len(chain.scale), len(call.ty.shape)
    if value.size == 1:
        return np.full(channels, value.reshape(()), np.float64)
    expected = [1] * ndim
    expected[chain.axis] = channels
    if value.ndim > ndim or [1] * (ndim - value.ndim) + list(value.shape) != expected:
        return None
    return value.reshape(-1).astype(np.float64)


def _along(values: Array, ndim: int, axis: int) -> Array:
    """``values`` as a tensor of ``ndim`` axes that varies along ``axis`` alone."""
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)
