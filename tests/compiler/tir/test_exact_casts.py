"""Conversions to wider types and back go where no value can change, and stay everywhere else."""

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi
from tvm import te, tirx
from tvm.ir import prim

from tvm_vision.compiler.tir.exact_casts import without_exact_casts


@pytest.mark.parametrize(
    ("source", "way", "left"),
    [
        ("int8", ["float32", "int8"], []),
        ("int8", ["float32", "int32", "int8"], []),
        ("uint8", ["int16", "uint8"], []),
        ("int32", ["float64", "int32"], []),
        ("float16", ["float32", "float16"], []),
        ("bool", ["int8", "bool"], []),
        ("int32", ["float32", "int32"], ["float32", "int32"]),  # 24 bits
        ("float32", ["float16", "float32"], ["float16", "float32"]),
        ("int8", ["uint8", "int8"], ["uint8", "int8"]),  # wraps: left to those who know
        ("int8", ["float32", "uint8"], ["float32", "uint8"]),
        ("float32", ["int32", "float32"], ["int32", "float32"]),
    ],
)
def test_a_way_through_types(source: str, way: list[str], left: list[str]) -> None:
    x = te.placeholder((4,), source, "x")

    def converted(i: Any) -> Any:
        value = x[i]
        for dtype in way:
            value = prim.Cast(dtype, value)
        return value

    function = te.create_prim_func([x, te.compute((4,), converted)])
    found: list[str] = []
    tvm_ffi.structural_walk(
        without_exact_casts(function).body,
        (tirx.BufferStore, lambda store: found.extend(_types(store.value))),
    )
    assert found == left


def _types(value: Any) -> list[str]:
    """The types that a value is converted to, in order."""
    return [*_types(value.value), str(value.ty.dtype)] if isinstance(value, prim.Cast) else []


def test_a_function_without_conversions_stays_the_same() -> None:
    x = te.placeholder((4,), "float32", "x")
    function = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)])
    assert without_exact_casts(function).same_as(function)
