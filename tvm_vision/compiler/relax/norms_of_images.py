"""Normalizations over a whole image, along the axes that it has.

Exporters write a group normalization of one group as a reshape to a row, an instance normalization
of it and a reshape back. A row has its elements in one order: whoever has channels last turns them
for it, and back. A mean and a variance know no order, nor does what is done element by element.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import ELEMENTWISE_OPERATORS, fixed_shape, operator_of
from .rewriting import bind, constant_of, rewritten

_MOMENTS = {"relax.mean": relax.op.mean, "relax.variance": relax.op.variance}


def norms_of_images(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with the rows of such normalizations as images."""
    rows = _varying_rows(mod)
    return (
        relax.transform.DeadCodeElimination()(rewritten(mod, _Images(mod, rows))) if rows else mod
    )


def _varying_rows(mod: tvm.IRModule) -> set[Any]:
    """The variables that are images as rows, whose variance is asked for, where rows become such
    images again."""
    bound = list(bindings_of(mod["main"]))
    moved = [(var, call) for var, call in bound if operator_of(call) == "relax.reshape"]
    back = {(fixed_shape(call.args[0]), fixed_shape(call)) for _, call in moved}
    rows = {
        var
        for var, call in moved
        if _is_row_of_image(call) and (fixed_shape(call), fixed_shape(call.args[0])) in back
    }
    return {
        call.args[0]
        for _, call in bound
        if operator_of(call) == "relax.variance" and call.args[0] in rows
    }


def _is_row_of_image(call: Any) -> bool:
    """Whether a reshape is of images (n, c, ...) to (n, 1, all)."""
    shape, row = fixed_shape(call.args[0]), fixed_shape(call)
    if shape is None or row is None or len(shape) < 3 or len(row) != 3:
        return False
    return row[:2] == (shape[0], 1)


@relax.expr_functor.mutator
class _Images(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, rows: set[Any]) -> None:
        super().__init__(mod)
        self._rows = rows
        # What stands for a variable of the row's three axes: an image, or one number of each.
        self._images: dict[Any, Any] = {}
        self._numbers: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var, call = binding.var, binding.value
        image = self._image_of(call)
        if image is None:
            super().visit_var_binding_(binding)
            if var in self._rows:
                self._images[var] = self.visit_expr(call.args[0])
            return
        if not isinstance(image, relax.Var):
            image = self.builder_.emit(image, str(var.name))
            kept = self._numbers if self._of_numbers(call) else self._images
            kept[var] = image
            image = relax.op.reshape(image, fixed_shape(var))
        bind(self, var, image)

    def _image_of(self, call: Any) -> Any:
        """What a call is on images; None where it has nothing to do with them."""
        name = operator_of(call)
        if name == "relax.reshape" and call.args[0] in self._images:
            image = self._images[call.args[0]]
            return image if fixed_shape(image) == fixed_shape(call) else None
        if name in _MOMENTS and call.args[0] in self._images:
            axes = call.attrs.axis
            if axes is None or [int(axis) % 3 for axis in axes] != [2] or not call.attrs.keepdims:
                return None
            image = self._images[call.args[0]]
            axes = list(range(1, len(fixed_shape(image))))  # type: ignore[arg-type]
            return _MOMENTS[name](image, axes, keepdims=True)
        known = [self._known(each) for each in call.args] if name in ELEMENTWISE_OPERATORS else []
        if all(each is None for each in known):
            return None
        pairs = zip(known, call.args, strict=True)
        operands = [self._number(each) if image is None else image for image, each in pairs]
        if any(each is None for each in operands):
            return None
        return relax.Call(call.op, operands, call.attrs)

    def _of_numbers(self, call: Any) -> bool:
        return operator_of(call) in _MOMENTS or not any(a in self._images for a in call.args)

    def _known(self, operand: Any) -> Any:
        """The image or the number that stands for an operand; None where none does."""
        found = self._images.get(operand)
        return self._numbers.get(operand) if found is None else found

    def _number(self, operand: Any) -> Any:
        """A constant of one element, without axes; None for anything else."""
        value = constant_of(operand, self.lookup_binding)
        if value is None or value.size != 1:
            return None
        return relax.const(value.reshape(()), str(value.dtype))
