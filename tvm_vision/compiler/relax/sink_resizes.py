"""Enlargements behind the convolutions of one pixel that read them.

What such a convolution computes of each pixel, and what an enlargement computes of each channel,
are linear in either order: of the small image it takes a fourth of the products or less, and the
large one is written once. Heads of segmentation and depth networks end so (SegFormer: four stages,
enlarged and concatenated; DPT: enlarged before each projection). Of a concatenation each part has
its share of the weights, and what they give is added up.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from .kernel_calls import bindings_of
from .operators import RESIZE, fixed_shape, operator_of
from .rewriting import Names, constant_of, is_constant, rebind, resolve, rewritten

LEAST_LARGER = 2  # times as many pixels
MOST_CHANNELS = 2  # times as many as there were: these are enlarged then
# Multiplications that are worth it: on a fast GPU a convolution of few pixels waits as long as one
# of many (DPT's small one lost 3 % on an H200). And those that are worth a kernel more: parts of a
# concatenation were written in its place, and what several convolutions read was enlarged once.
LEAST_SAVED, LEAST_FOR_A_KERNEL = 1 << 25, 1 << 27


@dataclass(frozen=True)
class _Part:
    """What a convolution reads: ``value``, enlarged by ``resize`` where that is not None; and
    where it begins among the channels."""

    value: Any
    resize: Any
    begin: int
    channels: int


def sink_resizes(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with enlargements that nothing but convolutions of one pixel reads behind these."""
    found = _found(mod["main"])
    if not found:
        return mod
    return relax.transform.DeadCodeElimination()(rewritten(mod, _Behind(mod, found)))


def _found(main: relax.Function) -> dict[Any, list[_Part]]:
    """The parts that such convolutions read, by their variables."""
    names, bound = Names(main), list(bindings_of(main))
    readers: dict[Any, list[Any]] = {}
    for var, value in bound:
        if _is_of_one_pixel(value, names):
            readers.setdefault(resolve(value.args[0], names.lookup), []).append(var)
    found = {}
    for read, convolutions in readers.items():
        parts = _parts(read, names)
        made = [int(names.lookup(var).ty.shape[1]) for var in convolutions]
        if names.uses(read) == len(convolutions) and _is_worth(parts, made):
            found.update(dict.fromkeys(convolutions, parts))
    return found


def _is_of_one_pixel(value: Any, names: Names) -> bool:
    """Whether a value is a convolution that sees one pixel at a time and all of its channels."""
    if operator_of(value) != "relax.nn.conv2d" or str(value.attrs.data_layout) != "NCHW":
        return False
    attrs, weight = value.attrs, fixed_shape(value.args[1])
    plain = all(int(size) == 1 for size in attrs.strides) and not any(map(int, attrs.padding))
    dtype = str(value.ty.dtype)
    return (
        plain
        and weight is not None
        and weight[2:] == (1, 1)
        and int(attrs.groups) == 1
        and str(attrs.kernel_layout) == "OIHW"
        and dtype.startswith("float")
        and all(str(given.ty.dtype) == dtype for given in value.args)
        and is_constant(value.args[1], names.lookup)
        and fixed_shape(value) is not None
    )


def _parts(read: Any, names: Names) -> list[_Part]:
    """What is read, in parts where it is concatenated along its channels."""
    concat: Any = names.lookup(read) if isinstance(read, relax.Var) else None
    fields = [read]
    if operator_of(concat) == "relax.concat" and int(concat.attrs.axis or 0) in (1, -3):
        whole = resolve(concat.args[0], names.lookup)
        fields = list(whole.fields) if isinstance(whole, relax.Tuple) else fields
    parts, begin = [], 0
    for field in fields:
        shape = fixed_shape(field)
        if shape is None:
            return []
        parts.append(_part(field, begin, shape[1], names, alone=len(fields) == 1))
        begin += shape[1]
    return parts


def _part(field: Any, begin: int, channels: int, names: Names, *, alone: bool) -> _Part:
    var = resolve(field, names.lookup)
    resize: Any = names.lookup(var) if isinstance(var, relax.Var) else None
    if (alone or names.uses(var) == 1) and _enlarges(resize):
        return _Part(resize.args[0], resize, begin, channels)
    return _Part(field, None, begin, channels)


def _enlarges(value: Any) -> bool:
    """Whether a value is a larger image each of whose pixels is a weighted mean."""
    if operator_of(value) != RESIZE or str(value.attrs.layout) != "NCHW":
        return False
    before, after = fixed_shape(value.args[0]), fixed_shape(value)
    if before is None or after is None or str(value.ty.dtype) != str(value.args[0].ty.dtype):
        return False
    # Beyond the image a cropping one has a number of its own.
    crops = "crop" in str(value.attrs.coordinate_transformation_mode)
    return not crops and math.prod(after[2:]) >= LEAST_LARGER * math.prod(before[2:])


def _is_worth(parts: list[_Part], made: list[int]) -> bool:
    """Whether convolutions, which make so many channels each, had better read the small images."""
    enlarged = [part for part in parts if part.resize is not None]
    if not enlarged or sum(made) > MOST_CHANNELS * sum(part.channels for part in enlarged):
        return False
    saved = sum(part.channels * sum(made) * _pixels_saved(part.resize) for part in enlarged)
    return saved >= (LEAST_SAVED if len(parts) == len(made) == 1 else LEAST_FOR_A_KERNEL)


def _pixels_saved(resize: Any) -> int:
    before, after = fixed_shape(resize.args[0]) or (), fixed_shape(resize) or ()
    return after[0] * (math.prod(after[2:]) - math.prod(before[2:]))


@relax.expr_functor.mutator
class _Behind(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, parts: dict[Any, list[_Part]]) -> None:
        super().__init__(mod)
        self._parts = parts

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        if binding.var not in self._parts:
            super().visit_var_binding_(binding)
            return
        call, name = binding.value, str(binding.var.name)
        weight = constant_of(call.args[1], self.lookup_binding)
        assert weight is not None  # as _is_of_one_pixel has it

        def convolved(value: Any, begins: list[_Part]) -> Any:
            columns = [c for p in begins for c in range(p.begin, p.begin + p.channels)]
            share = relax.const(weight[:, columns], str(weight.dtype))
            return self.builder_.emit(relax.Call(call.op, [value, share], call.attrs), name)

        enlarged, as_large = [], []
        for part in self._parts[binding.var]:
            if part.resize is None:
                as_large.append(part)
                continue
            small = convolved(self.visit_expr(part.value), [part])
            resize = relax.Call(part.resize.op, [small, part.resize.args[1]], part.resize.attrs)
            enlarged.append(self.builder_.emit(resize, name))
        # What is enlarged is added up first, by one kernel; the sum is a convolution's to add.
        total = functools.reduce(
            lambda a, b: self.builder_.emit(relax.op.add(a, b), name), enlarged
        )
        if as_large:
            values = [self.visit_expr(part.value) for part in as_large]
            value = (
                values[0]
                if len(values) == 1
                else self.builder_.emit(relax.op.concat(values, 1), name)
            )
            total = relax.op.add(convolved(value, as_large), total)
        rebind(self, binding.var, total)
