"""RemoveNoOp is left out where it changes nothing, and nowhere else."""

# TVM's scripts annotate arguments by values.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from support.compiled import FIXED
from support.small_network import model
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.tvm_compat import no_ops
from tvm_vision.tvm_compat.no_ops import lowering_context, may_have_no_ops


@T.prim_func(s_tir=True)
def nothing_within(a: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 3:
            T.evaluate(0)
        else:
            a[i] = 1.0


@T.prim_func(s_tir=True)
def no_turn(a: T.Buffer((8,), "float32")):
    for i in range(0):
        a[i] = 1.0
    a[0] = 2.0


@T.prim_func(s_tir=True)
def turns_that_are_not_known(a: T.Buffer((8,), "float32")):
    for i in range(8):
        for j in range(i):
            a[j] = 1.0


@T.prim_func(s_tir=True)
def skipped(a: T.Buffer((8,), "float32")):
    a[0] = 2.0
    with T.attr(0, "pragma_debug_skip_region", 1):
        a[1] = 1.0


@T.prim_func(s_tir=True)
def all_needed(a: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 3:
            a[i] = a[i] + 1.0
        T.evaluate(T.tvm_storage_sync("shared"))


def module(function: Any) -> tvm.IRModule:
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


@pytest.mark.parametrize(
    "function", [nothing_within, no_turn, turns_that_are_not_known, skipped, all_needed]
)
def test_what_the_pass_would_change_is_seen(function):
    plain = tirx.transform.RemoveNoOp()(module(function))
    with lowering_context():
        found = tirx.transform.RemoveNoOp()(module(function))
    assert tvm_ffi.structural_equal(plain, found)
    changes = not tvm_ffi.structural_equal(plain, module(function))
    assert may_have_no_ops(module(function)) or not changes
    assert may_have_no_ops(module(function)) == (function is not all_needed)


def test_a_network_is_lowered_without_it_and_misses_nothing(monkeypatch):
    left_out = []

    def asked(lowered: tvm.IRModule) -> bool:
        if not may_have_no_ops(lowered):
            left_out.append(lowered)
        return lowered not in left_out

    monkeypatch.setattr(no_ops, "may_have_no_ops", asked)
    compile_model(*import_onnx(model()), target=FIXED, kernel_cache=False)
    assert left_out
    for lowered in left_out:
        assert tvm_ffi.structural_equal(lowered, tirx.transform.RemoveNoOp()(lowered))
