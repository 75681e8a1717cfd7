"""Guarded loads without a branch: of a valid index where the guard fails, the value then dropped.

``guard ? image[i] : 0.0`` is a branch around the load. Some compilers (Mesa's for AMD) wait for a
load within its branch, so that a thread has one under way where it could have dozens. As
``v = image[guard ? i : 0]; guard ? v : 0.0`` all loads are under way together. It costs two
selections, and the load where the guard fails; element 0 is in a cache by then.
"""

from __future__ import annotations

import re
from typing import Any

import tvm_ffi
from tvm import ir
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl.analysis import operator_name, type_of
from tvm_vision.vulkan.codegen.glsl.memory import KernelMemory
from tvm_vision.vulkan.codegen.glsl.printer import Printer
from tvm_vision.vulkan.codegen.glsl.types import BOOL
from tvm_vision.vulkan.codegen.glsl.vector import (
    CONDITIONAL,
    Code,
    Value,
    in_words,
    pack,
    partwise,
    unpack,
    widths,
    wrap,
)

_CONSTANTS = (prim.FloatImm, prim.IntImm)
# By the models of renoir and tgl: convolutions that read five tensors as one gain by a quarter, and
# kernels that copy from sixteen take twice as long.
MOST_LOADS = 5
_DIVISIONS = (prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod)
# Calls that are an instruction or two, as places between pixels are rounded by.
_CHEAP = {f"{name}{of}" for name in ("floor", "ceil", "trunc", "round", "fabs") for of in ("", "f")}


def is_harmless(memory: KernelMemory, call: Any) -> bool:
    """Whether both values of a choice can be computed whatever its condition.

    They then load from arguments that are known to have an element 0, call nothing but further
    choices and what rounds, and divide by constants. One of them may be a constant. Of two that
    load, as where tensors are concatenated, each is one load, or a choice of such, few in all: more
    would be made for nothing.
    """
    loads = [_loads(memory, value) for value in call.args[1:]]
    if None in loads or loads == [0, 0]:
        return False
    if 0 in loads:
        return True
    few = sum(filter(None, loads)) <= MOST_LOADS
    return few and all(_is_one_load(memory, value) for value in call.args[1:])


def _is_one_load(memory: KernelMemory, value: Any) -> bool:
    """Whether a value is made of one load or none, whatever is chosen on the way to it."""
    if isinstance(value, ir.Call) and operator_name(value) == _CHOICE:
        return all(_is_one_load(memory, each) for each in value.args[1:])
    return _loads(memory, value) in (0, 1)


def _loads(memory: KernelMemory, value: Any) -> int | None:
    """How many loads a value is made of; None where it may do harm, or is made of other things."""
    constant = value.value if isinstance(value, prim.Broadcast) else value
    if type(constant) in _CONSTANTS:
        return 0
    loads: list[Any] = []
    others: list[Any] = []
    tvm_ffi.structural_walk(
        value,
        [
            (ir.TensorLoad, loads.append),
            (ir.Call, lambda call: None if _is_cheap(call) else others.append(call)),
            (_DIVISIONS, lambda d: others.append(d) if type(d.b) not in _CONSTANTS else None),
        ],
    )
    known = all(memory.holds(load.source, type_of(load)) for load in loads)
    return len(loads) if loads and not others and known else None


def _is_cheap(call: Any) -> bool:
    name = operator_name(call)
    if name == "tirx.call_pure_extern":
        return str(call.args[0].value) in _CHEAP
    return name == _CHOICE or name.removeprefix("tirx.") in _CHEAP


def selected(printer: Printer, condition: str, call: Any) -> Value:
    """The choice, for which ``is_harmless`` holds; may emit temporaries."""
    outer = printer.guard
    holds = printer.atom(condition, BOOL, "t")
    guards = [holds, f"!{holds}"]
    if outer:
        guards = [printer.atom(f"{outer} && {guard}", BOOL, "t") for guard in guards]
    values = []
    for guard, value in zip(guards, call.args[1:], strict=True):
        printer.guard = guard
        values.append(printer.visit(value))
    printer.guard = outer
    found, otherwise = (_held(printer, value) for value in values)
    of = found.type
    words = in_words(found) and in_words(otherwise)
    if words:
        found, otherwise = pack(found), pack(otherwise)
    chosen = partwise(
        found.type,
        lambda w, x, y: Code(
            f"{holds} ? {wrap(x, CONDITIONAL + 1)} : {wrap(y, CONDITIONAL + 1)}", CONDITIONAL
        ),
        found,
        otherwise,
    )
    if not words:
        return chosen
    return unpack(printer.atomic(chosen) if chosen.type.lanes > 1 else chosen, of)


def _held(printer: Printer, value: Value) -> Value:
    """A value in variables, but for constants: what is neither glslang chooses by a branch."""
    of, words = value.type, in_words(value)
    value = pack(value) if words else value
    parts = zip(value.parts, widths(value.type.lanes), strict=True)
    held = [
        part
        if _CONSTANT.fullmatch(part)
        else printer.temporary(part, value.type.with_lanes(w), "v")
        for part, w in parts
    ]
    value = Value(value.type, held)
    return unpack(value, of) if words else value


_CONSTANT = re.compile(r"\w*\(?-?[\w.+-]+\)?")
_CHOICE = "prim.if_then_else"
