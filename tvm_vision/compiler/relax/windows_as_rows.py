"""Patches of an image as rows of a product: the first layer of a transformer.

Windows that lie beside each other share no number, so they are rows of a matrix, and the weights of
each channel its columns. A convolution over the one to three channels of an image fills them up
with zeros, and what a transformer wants is rows: a product has neither those zeros nor the turn
behind it. Networks whose convolutions have more channels gain nothing
(benchmarks/schedules/convolutions.md).
"""

from __future__ import annotations

import math

import tvm
from tvm import relax

from .operators import fixed_shape, operator_of
from .rewriting import calls_any, constant_of, rewritten, value_of

OP = relax.op
# By operator: the layouts of its images and of its weights.
_CONVOLUTIONS = {
    "relax.nn.conv1d": ("NCW", "OIW"),
    "relax.nn.conv2d": ("NCHW", "OIHW"),
    "relax.nn.conv3d": ("NCDHW", "OIDHW"),
}
# Of more channels a convolution fills nothing up.
MOST_CHANNELS = 3
LEAST_PLACES = 16  # of a window
LEAST_ROWS = 16


def windows_as_rows(mod: tvm.IRModule, terms: int = 1) -> tvm.IRModule:
    """``main`` with products for such convolutions; the module itself where it has none. terms: of
    a row a product takes a multiple of so many, as matrices do."""
    if not calls_any(mod, _CONVOLUTIONS):
        return mod
    rewriter = _Rewriter(mod)
    rewriter.terms = terms
    return rewritten(mod, rewriter)


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    terms: int

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._rows: dict[relax.Var, relax.Var] = {}  # by the same with channels before pixels

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._name = str(binding.var.name)
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        found = None
        if operator_of(call) in _CONVOLUTIONS:
            found = self._product(call)
        elif operator_of(call) == "relax.add":
            found = self._with_bias(call)
        return call if found is None else found

    def _product(self, call: relax.Call) -> relax.Expr | None:
        shapes = [fixed_shape(expr) or () for expr in (*call.args, call)]
        if () in shapes or not _lie_apart(call, shapes[1][2:]):
            return None
        (number, channels, *image), (outputs, _, *window), (_, _, *result) = shapes
        places, terms = math.prod(result), channels * math.prod(window)
        few = math.prod(window) < LEAST_PLACES or number * places < LEAST_ROWS
        if few or channels > MOST_CHANNELS or terms % self.terms:
            return None
        value = call.args[0]
        whole = [count * size for count, size in zip(result, window, strict=True)]
        if whole != image:
            axes = list(range(2, 2 + len(image)))
            value = self._emit(OP.strided_slice(value, axes, [0] * len(axes), whole))
        sides = [n for pair in zip(result, window, strict=True) for n in pair]
        value = self._emit(OP.reshape(value, [number, channels, *sides]))
        order = [0, *range(2, 2 + len(sides), 2), 1, *range(3, 3 + len(sides), 2)]
        value = self._emit(OP.permute_dims(value, order))
        value = self._emit(OP.reshape(value, [number * places, terms]))
        weights = self._emit(OP.reshape(call.args[1], [outputs, terms]))
        rows = self._emit(OP.matmul(value, self._emit(OP.permute_dims(weights, [1, 0]))))
        return self._as_image(rows, [number, outputs, *result])

    def _with_bias(self, call: relax.Call) -> relax.Expr | None:
        """A sum with a number for each channel, where one is a result of ours."""
        for image, bias in (call.args, reversed(call.args)):
            found = value_of(image, self.lookup_binding)
            rows = self._rows.get(found.args[0]) if operator_of(found) == "relax.reshape" else None
            numbers = constant_of(bias, self.lookup_binding)
            shape = fixed_shape(call)
            if rows is None or numbers is None or shape is None:
                continue
            channels = [shape[1], *[1] * (len(shape) - 2)]
            if list(numbers.shape) in (channels, [1, *channels]):
                added = OP.add(rows, relax.const(numbers.reshape(-1)))
                return self._as_image(self._emit(added), list(shape))
        return None

    def _as_image(self, rows: relax.Var, shape: list[int]) -> relax.Expr:
        number, outputs, *result = shape
        split = self._emit(OP.reshape(rows, [number, math.prod(result), outputs]))
        turned = self._emit(OP.permute_dims(split, [0, 2, 1]))
        self._rows[turned] = rows
        return OP.reshape(turned, shape)

    def _emit(self, expr: relax.Expr) -> relax.Var:
        return self.builder_.emit(expr, self._name)


def _lie_apart(call: relax.Call, window: tuple[int, ...]) -> bool:
    """Whether a dense convolution of floats has windows side by side, with nothing around."""
    attrs = call.attrs
    data, kernel = _CONVOLUTIONS[operator_of(call)]
    return (
        (str(attrs.data_layout), str(attrs.kernel_layout)) == (data, kernel)
        and str(attrs.out_layout or data) == data
        and int(attrs.groups) == 1
        and not any(int(n) for n in attrs.padding)
        and all(int(n) == 1 for n in attrs.dilation)
        and tuple(int(n) for n in attrs.strides) == window
        and str(call.ty.dtype).startswith("float")
        and str(call.args[0].ty.dtype) == str(call.ty.dtype)
    )
