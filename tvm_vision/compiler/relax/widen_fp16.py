"""Files that compute in float16, in float32: what they are on every target.

In float16 6000 numbers lose a third of their sum, and a mean of numbers about 20 over an image is
infinite: what they add up to is beyond 65,504. Inputs and results keep their types, and what a Cast
rounds to float16 is rounded. Whether tensors lie in memory as float16 is decided as for any other
network (``precision/convert_fp16.py``), which keeps float32 where their range is too small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx

from .kernel_calls import bindings_of
from .operators import operator_of
from .rewriting import rebind, rewritten

FP16, FP32 = "float16", "float32"
CAST = "relax.astype"


def computes_in_fp16(mod: tvm.IRModule) -> bool:
    """Whether most of what ``main`` computes is of float16: files whose conversion left some
    operators in float32 do."""
    dtypes = [
        dtype
        for _, value in bindings_of(mod["main"])
        if isinstance(value, relax.Call) and operator_of(value) != CAST
        for dtype in _types(value.ty)
    ]
    return dtypes.count(FP16) > dtypes.count(FP32)


def widen_fp16(mod: tvm.IRModule) -> tvm.IRModule:
    """``mod`` with float32 between its inputs and its results wherever it has float16."""
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    made = [variable for function in functions for variable, _ in bindings_of(function)]
    given = [parameter for function in functions for parameter in function.params]
    if not any(_is_fp16(part) for value in (*made, *given) for part in _tensors(value.ty)):
        return mod
    return rewritten(mod, _Widener(mod))


@relax.expr_functor.mutator
class _Widener(relax.PyExprMutator):
    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        value = self.builder_.normalize(self.visit_expr(binding.value))
        if not isinstance(binding.var, relax.DataflowVar):
            rebind(self, binding.var, self._like(value, binding.var.ty))
        elif isinstance(value, relax.Var):
            self.set_var_remap(binding.var, value)
        else:
            rebind(self, binding.var, value)

    def visit_tuple_(self, whole: relax.Tuple) -> relax.Expr:
        return relax.Tuple([self.visit_expr(part) for part in whole.fields])

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        return relax.TupleGetItem(self.visit_expr(item.tuple_value), item.index)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        given = [self.visit_expr(argument) for argument in call.args]
        types = [*(argument.ty for argument in call.args), call.ty]
        if not any(_is_fp16(part) for each in types for part in _tensors(each)):
            return self._called(call, given)
        wide = [self._wide(argument) for argument in given]
        if operator_of(call) == CAST:
            return self._cast(wide[0], call)
        changed = _IN_FP32.get(operator_of(call), _same)(self._called(call, wide), call)
        try:
            made = self.builder_.normalize(changed)
        except (tvm.error.TVMError, TypeError, ValueError):
            made = None
        if made is not None and _types(made.ty) == [_wider(each) for each in _types(call.ty)]:
            return made
        # What says itself what types it has, as a kernel.
        narrow = [
            self._like(each, argument.ty) for each, argument in zip(wide, call.args, strict=True)
        ]
        return self._wide(self.builder_.emit(self._called(call, narrow)))

    def _called(self, call: relax.Call, arguments: list[Any]) -> relax.Call:
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _cast(self, x: Any, call: relax.Call) -> relax.Expr:
        """Rounded to float16 where it was of another type; in float32 either way."""
        dtype, source = str(call.attrs.dtype), str(call.args[0].ty.dtype)
        if dtype not in (FP16, FP32):
            return relax.op.astype(x, dtype)
        if source == FP16:
            return x
        return self._wide(self.builder_.emit(relax.op.astype(x, dtype)))

    def _wide(self, value: Any) -> Any:
        """Float32 in place of float16, in tuples, too."""
        value = self.builder_.normalize(value)
        return self._converted(value, [_wider(dtype) for dtype in _types(value.ty)])

    def _like(self, value: Any, kind: Any) -> Any:
        """With float16 where ``kind`` has it."""
        return self._converted(value, _types(kind))

    def _converted(self, value: Any, wanted: list[str]) -> Any:
        value = self.builder_.normalize(value)
        dtypes = _types(value.ty)
        if dtypes == wanted:
            return value
        if isinstance(value, tirx.FloatImm):  # a number among the arguments, as of one_hot
            return tirx.FloatImm(wanted[0], value.value)
        if not isinstance(value.ty, relax.TupleType):
            return self.builder_.emit(relax.op.astype(value, wanted[0]))
        items = [
            value.fields[i] if isinstance(value, relax.Tuple) else relax.TupleGetItem(value, i)
            for i in range(len(dtypes))
        ]
        return relax.Tuple(
            [self._converted(item, [dtype]) for item, dtype in zip(items, wanted, strict=True)]
        )


def _same(call: relax.Call, before: relax.Call) -> relax.Call:
    return call


def _product(call: relax.Call, before: relax.Call) -> relax.Call:
    return relax.op.matmul(*call.args, out_dtype=_wider(str(before.ty.dtype)))


def _real(call: relax.Call, before: relax.Call) -> relax.Call:
    return relax.op.dequantize(*call.args, axis=int(before.attrs.axis), out_dtype=FP32)


def _up_to_each(call: relax.Call, before: relax.Call) -> relax.Call:
    scan = {"relax.cumprod": relax.op.cumprod, "relax.cumsum": relax.op.cumsum}[operator_of(before)]
    return scan(*call.args, int(before.attrs.axis), FP32, bool(before.attrs.exclusive))


# What has the type of its result among its attributes.
_IN_FP32: dict[str, Callable[[relax.Call, relax.Call], relax.Call]] = {
    "relax.cumprod": _up_to_each,
    "relax.cumsum": _up_to_each,
    "relax.dequantize": _real,
    "relax.matmul": _product,
}


def _tensors(kind: Any) -> list[Any]:
    """The types of tensors in a type, in order; of what is no tensor as it is."""
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]


def _types(kind: Any) -> list[str]:
    return [str(getattr(part, "dtype", "")) for part in _tensors(kind)]


def _is_fp16(kind: Any) -> bool:
    return str(getattr(kind, "dtype", "")) == FP16


def _wider(dtype: str) -> str:
    return FP32 if dtype == FP16 else dtype
