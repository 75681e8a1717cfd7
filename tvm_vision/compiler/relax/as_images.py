"""Tensors of other forms as images, as long as what follows has that form: what passes share that
make them so.

A tensor becomes an image at a convolution, and stays one through all that has a rule; what has none
gets it back as it was, once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from .operators import BINARY, UNARY, fixed_shape, operator_of
from .rewriting import calls_any, is_constant, rebind, rewritten, value_of

OP = relax.op
Rule = Callable[[Any, Any], Any]
QUANTIZATION = {"relax.quantize": OP.quantize, "relax.dequantize": OP.dequantize}


class AsImages(PyExprMutator):
    """Rewrites a function; rules ask it for images and emit through it.

    Those that inherit say what the image of a tensor is, and have ``rules`` by operators' names.
    """

    axes: int
    """Of the tensors that become images."""
    rules: Mapping[str, Rule]

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        # By variables as they were: what they are as images, and in their own form again; and
        # normalizations, which give several tensors.
        self._images: dict[Any, Any] = {}
        self._plain: dict[Any, Any] = {}
        self._normalized: dict[Any, Any] = {}

    # What those that inherit say.

    def made(self, expr: Any) -> Any:
        """The image of an expression of the new function."""
        raise NotImplementedError

    def back(self, image: Any, type_: Any) -> Any:
        """An image as the tensor of a type."""
        raise NotImplementedError

    def axis(self, number: int) -> int:
        """Where an axis is in images."""
        raise NotImplementedError

    # What rules use.

    def known(self, expr: Any) -> Any:
        """The image that a tensor is already; None where it is none."""
        return self._images.get(expr) if isinstance(expr, relax.Var) else None

    def image(self, expr: Any) -> Any:
        """A tensor as an image."""
        found = self.known(expr)
        return self.made(self.visit_expr(expr)) if found is None else found

    def is_one(self, expr: Any) -> bool:
        """Whether an expression has the form that becomes images, and fixed sizes."""
        return len(fixed_shape(expr) or ()) == self.axes

    # The walk.

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        if operator_of(value) == "relax.nn.batch_norm" and self.known(value.args[0]) is not None:
            self._normalized[var] = self.builder_.emit(_normalized(self, value))
        if self.known(value) is not None and isinstance(var, relax.DataflowVar):
            self._images[var] = self._images[value]  # another name
            return
        rule = self.rules.get(operator_of(value))
        found = rule(self, value) if rule is not None else self._first_of(value)
        if found is None:
            super().visit_var_binding_(binding)
            return
        image = self.builder_.emit(found, str(var.name))
        if isinstance(var, relax.DataflowVar) and self.is_one(value):
            self._images[var] = image
        else:
            rebind(self, var, self.back(image, var.ty))

    def _first_of(self, value: Any) -> Any:
        """Of a normalization the tensor itself; None for anything else."""
        if not isinstance(value, relax.TupleGetItem) or value.index != 0:
            return None
        whole = self._normalized.get(value.tuple_value)
        return None if whole is None else relax.TupleGetItem(whole, 0)

    def visit_var_(self, op: Any) -> Any:
        return self._as_it_was(op) if op in self._images else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._as_it_was(op) if op in self._images else super().visit_dataflow_var_(op)

    def _as_it_was(self, var: Any) -> Any:
        if var not in self._plain:
            self._plain[var] = self.builder_.emit(self.back(self._images[var], var.ty))
        return self._plain[var]


def _unary(images: AsImages, call: Any) -> Any:
    image = images.known(call.args[0])
    if image is None:
        return None
    return relax.Call(call.op, [image, *call.args[1:]], call.attrs, call.ty_args)


def _quantization(images: AsImages, call: Any) -> Any:
    image = images.known(call.args[0])
    return None if image is None else _quantized(images, call, image)


def _quantized(images: AsImages, call: Any, image: Any) -> Any:
    """Of an image what a call makes of a tensor; its scales are numbers or of one axis."""
    attrs = call.attrs
    make = QUANTIZATION[operator_of(call)]
    return make(image, *call.args[1:], images.axis(int(attrs.axis)), str(attrs.out_dtype))


def of_bytes(images: AsImages, expr: Any) -> Any:
    """The image of quantized weights, where an expression of the new function is such: numbers that
    one operator away are constants; else None."""
    made = value_of(expr, images.lookup_binding)
    if operator_of(made) not in QUANTIZATION:
        return None
    if not is_constant(made.args[0], images.lookup_binding):
        return None
    return images.builder_.emit(_quantized(images, made, images.made(made.args[0])))


def _concatenation(images: AsImages, call: Any) -> Any:
    if not isinstance(call.args[0], relax.Tuple):
        return None
    parts = list(call.args[0].fields)
    if all(images.known(part) is None for part in parts):
        return None
    if not all(map(images.is_one, (call, *parts))):
        return None
    return OP.concat([images.image(part) for part in parts], images.axis(int(call.attrs.axis)))


def _normalized(images: AsImages, call: Any) -> Any:
    attrs = call.attrs
    return OP.nn.batch_norm(
        images.image(call.args[0]), *map(images.visit_expr, call.args[1:]),
        images.axis(int(attrs.axis)), float(attrs.epsilon), bool(attrs.center), bool(attrs.scale),
        float(attrs.momentum), bool(attrs.training),
    )  # fmt: skip


def shared_rules(binary: Rule) -> dict[str, Rule]:
    """Rules that hold for images of whatever was made one; ``binary``: of two tensors element by
    element."""
    return {
        **{f"relax.{name}": _unary for name in UNARY},
        **dict.fromkeys(QUANTIZATION, _quantization),
        **{f"relax.{name}": binary for name in BINARY},
        "relax.concat": _concatenation,
    }


def in_images(mod: tvm.IRModule, rewriter: type[Any], operators: Collection[str]) -> tvm.IRModule:
    """``main`` as a rewriter makes it; the module itself where none of some operators is called."""
    if not calls_any(mod, operators):
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, rewriter(mod)))
