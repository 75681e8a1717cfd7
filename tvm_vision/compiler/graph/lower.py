"""From Relax to the static graph: a walk over the bindings of ``main``.

Calls of kernels stay, constants become parameters, tuples are taken apart, reshapes become views.
What depends on data (control flow, shapes known only at run time, calls into libraries) is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from tvm_vision.topi.copy import copy_kernel, copy_name

from ...errors import UnsupportedModelError
from ..relax.kernel_calls import called_function
from .slice_in_place import is_whole_copy
from .static_graph import KernelCall, StaticGraph, drop_unused, dtype_bytes

# What an expression stands for: a tensor's position, a tuple of such, or nothing on the device.
Value = Any

RUNTIME_RESHAPE = "vm.builtin.reshape"


def lower_to_graph(mod: tvm.IRModule, nodes: Sequence[Sequence[str]] = ()) -> StaticGraph:
    """The static graph of ``main`` in ``mod``, whose operators are calls of TensorIR functions.

    nodes: the names of the network's nodes in each of these calls, in order; where none are given,
    the name of the function serves.

    Raises UnsupportedModelError for what a static graph cannot hold.
    """
    return _Lowering(mod, nodes).run()


class _Lowering:
    def __init__(self, mod: tvm.IRModule, nodes: Sequence[Sequence[str]]) -> None:
        self._mod = mod
        self._main = mod["main"]
        self._functions = {gv.name_hint: f for gv, f in mod.functions_items()}
        self._nodes = iter(nodes)
        self._graph = StaticGraph()
        self._values: dict[relax.Var, Value] = {}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._views: dict[str, bool] = {}

    def run(self) -> StaticGraph:
        for param in self._main.params:
            tensor = self._tensor(param.ty, f"input '{param.name}'")
            self._graph.inputs.append(tensor)
            self._values[param] = tensor
        for block in self._main.body.blocks:
            for binding in block.bindings:
                self._values[binding.var] = self._value(binding.value)
        for tensor in _flat(self._value(self._main.body.body)):
            self._graph.outputs.append(self._own_output(tensor))
        return drop_unused(self._graph)

    def _value(self, expr: relax.Expr) -> Value:
        if isinstance(expr, relax.Var):
            if expr not in self._values:
                raise UnsupportedModelError(
                    f"fixed shapes are needed, and the size {expr} depends on data: pass "
                    "input_shapes, or replace the operator whose result depends on data"
                )
            return self._values[expr]
        if isinstance(expr, GenericConst):
            dtype = _stored(str(expr.ty.dtype), "a constant")
            return self._constant(expr.value.numpy(), dtype)
        if isinstance(expr, relax.Tuple):
            return tuple(self._value(item) for item in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self._value(expr.tuple_value)[expr.index]
        if isinstance(expr, relax.Call):
            return self._call(expr)
        if isinstance(getattr(expr, "ty", None), (relax.ShapeType, tvm.ir.PrimType)):
            return None
        raise UnsupportedModelError(
            f"a static graph is needed, and the model has a {type(expr).__name__} that depends on "
            "data: export the model without control flow"
        )

    def _constant(self, value: np.ndarray, dtype: str) -> int:
        value = np.ascontiguousarray(value).reshape(value.shape)
        key = (value.shape, dtype, hashlib.sha256(value.tobytes()).digest())
        if key not in self._constants:
            tensor = self._graph.add_tensor(value.shape, dtype)
            self._graph.params[tensor] = value
            self._constants[key] = tensor
        return self._constants[key]

    def _call(self, call: relax.Call) -> Value:
        if _shown(call) == RUNTIME_RESHAPE:
            # What TVM's scans are wrapped in: (tensor, shape).
            shape, dtype = _fixed(call.ty, RUNTIME_RESHAPE)
            return self._graph.add_tensor(shape, dtype, view_of=_flat(self._value(call.args[1]))[0])
        name = called_function(call)
        if name is None or not isinstance(self._functions.get(name), tirx.PrimFunc):
            raise UnsupportedModelError(
                f"kernels are needed, and '{_shown(call)}' has none for fixed shapes: "
                "replace the operator in the model"
            )
        nodes = list(next(self._nodes, ())) or [name]
        inputs = _flat(tuple(self._value(arg) for arg in call.args[1:2]))
        result = call.ty_args[0]
        single = not isinstance(result, relax.TupleType)
        fields = [result] if single else list(result.fields)
        if single and len(inputs) == 1 and self._is_view(name):
            shape, dtype = _fixed(result, name)
            return self._graph.add_tensor(shape, dtype, view_of=inputs[0])
        outputs = [self._tensor(field, f"a result of '{name}'") for field in fields]
        self._graph.functions[name] = self._functions[name]
        self._graph.kernels.append(KernelCall(name, inputs, outputs, nodes))
        return outputs[0] if single else tuple(outputs)

    def _is_view(self, name: str) -> bool:
        if name not in self._views:
            function = self._functions[name]
            # TVM's own rule knows no tensors without axes.
            known = relax.analysis.has_reshape_pattern(function)
            self._views[name] = known or is_whole_copy(function)
        return self._views[name]

    def _tensor(self, tensor_type: Any, what: str) -> int:
        return self._graph.add_tensor(*_fixed(tensor_type, what))

    def _own_output(self, tensor: int) -> int:
        """``tensor``, or a copy of it where its memory already belongs to the outside."""
        graph = self._graph
        root = graph.root(tensor)
        taken = {graph.root(t) for t in (*graph.inputs, *graph.params, *graph.outputs)}
        if root not in taken:
            return tensor
        source = graph.tensors[tensor]
        name = unused_name(copy_name(source.shape, source.dtype), graph.functions)
        graph.functions[name] = copy_kernel(source.shape, source.dtype)
        copied = graph.add_tensor(source.shape, source.dtype)
        graph.kernels.append(KernelCall(name, [tensor], [copied], ["copy"]))
        return copied


def unused_name(name: str, taken: dict[str, Any]) -> str:
    """``name``, with a number behind it where that is taken."""
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _flat(value: Value) -> list[int]:
    if isinstance(value, tuple):
        return [tensor for item in value for tensor in _flat(item)]
    if value is None:
        raise UnsupportedModelError(
            "tensors are needed, and the model hands on a shape: give every input a fixed shape"
        )
    return [value]


def _fixed(tensor_type: Any, what: str) -> tuple[tuple[int, ...], str]:
    shape = getattr(tensor_type, "shape", None)
    sizes = [getattr(size, "value", None) for size in shape] if shape is not None else [None]
    if not isinstance(tensor_type, relax.TensorType) or None in sizes:
        raise UnsupportedModelError(
            f"fixed shapes are needed, and {what} is {tensor_type}: pass input_shapes, or replace "
            "the operator whose result depends on data"
        )
    dtype = _stored(str(tensor_type.dtype), what)
    return tuple(int(size) for size in sizes if size is not None), dtype


def _stored(dtype: str, what: str) -> str:
    """``dtype``, where tensors in memory can have it."""
    try:
        dtype_bytes(dtype)
    except ValueError:
        raise UnsupportedModelError(
            f"a type from bool and int8 to float64 is needed, and {what} is {dtype}: convert it"
        ) from None
    return dtype


def _shown(call: relax.Call) -> str:
    """The operator's name, or the outside function's that it calls."""
    callee = getattr(call.args[0], "global_symbol", "") if len(call.args) else ""
    return callee or getattr(call.op, "name", "") or str(call.op)
