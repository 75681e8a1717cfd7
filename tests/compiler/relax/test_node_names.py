"""Which nodes a kernel computes, where fusion gives a reader another of two equal calls."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te

from tvm_vision.compiler.relax.node_names import NodeNames
from tvm_vision.frontend.node_names import variable_hint


def _halves(x: te.Tensor) -> list[te.Tensor]:
    n = int(x.shape[0]) // 2
    return [te.compute((n,), lambda i: x[i]), te.compute((n,), lambda i: x[i + n])]


def _module(read: int) -> tvm.IRModule:
    """Two equal calls, of which the later node reads one; it has two results, and both are read."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8,), "float32"))

    def call(node: str, of: Any, *inputs: relax.Expr) -> relax.Var:
        made = builder.call_te(of, *inputs, primfunc_name_hint=of.__name__)
        return builder.emit(made, name_hint=variable_hint(node))

    def twice(value: te.Tensor) -> te.Tensor:
        return te.compute(value.shape, lambda *i: value(*i) * 2)

    def added(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return te.compute(a.shape, lambda *i: a(*i) + b(*i))

    with builder.function("main", [x]):
        with builder.dataflow():
            equal = [call(node, twice, x) for node in ("First", "Second")]
            parts = call("Split", _halves, equal[read])
            sides = [builder.emit(relax.TupleGetItem(parts, at)) for at in (0, 1)]
            result = builder.emit_output(call("Add", added, *sides))
        builder.emit_func_output(result)
    return builder.finalize()


def test_equal_calls_have_one_result() -> None:
    names = NodeNames(_module(read=1)).of_calls(_module(read=0))
    assert names == [["First"], ["Second"], ["Split"], ["Add"]]
