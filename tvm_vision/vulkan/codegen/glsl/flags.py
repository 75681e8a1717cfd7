"""Flags that were made numbers to be compared with a number: the flags themselves.

TVM's Where takes its condition as a number, and asks whether 0 is less. Beside the instructions
this saves, llvmpipe of Mesa 22.3.6 computes ``0 < int64(flag)`` as true of every flag.
"""

from __future__ import annotations

import operator
from typing import Any

from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl.analysis import type_of

_TESTS: dict[Any, Any] = {
    prim.EQ: operator.eq,
    prim.NE: operator.ne,
    prim.LT: operator.lt,
    prim.LE: operator.le,
    prim.GT: operator.gt,
    prim.GE: operator.ge,
}


def compared_flag(node: Any) -> tuple[Any, bool] | None:
    """Of a comparison of a flag's number with a constant: the flag, and whether the comparison is
    true where the flag is (it is false of the other); None for any other comparison."""
    test = _TESTS[type(node)]
    for flag, number, turned in ((node.a, node.b, False), (node.b, node.a, True)):
        inner, value = _flag(flag), _number(number)
        if inner is None or value is None:
            continue
        results = [test(value, x) if turned else test(x, value) for x in (0, 1)]
        return (inner, results[1]) if results[0] != results[1] else None
    return None


def _flag(value: Any) -> Any:
    """The flag that was cast, perhaps more than once, to a number; None for what is none."""
    while type(value) is prim.Cast:
        value = value.value
        if type_of(value).kind == "bool":
            return value
    return None


def _number(value: Any) -> float | None:
    if type(value) is prim.Broadcast:
        value = value.value
    return value.value if isinstance(value, (prim.IntImm, prim.FloatImm)) else None
