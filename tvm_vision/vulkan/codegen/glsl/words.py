"""Elements in a buffer of words of 32 bits: halves of 64 bits, and bytes of small integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir.prim import expr as prim

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import ATOMIC_ADD, type_of
from tvm_vision.vulkan.codegen.glsl.missing_types import Missing
from tvm_vision.vulkan.codegen.glsl.types import INT32, Type


class Words:
    """Loads and stores of arguments that lie in words.

    new_var: makes a variable of a name and a dtype, and keeps it.
    """

    def __init__(self, missing: Missing, new_var: Callable[[str, str], Any]) -> None:
        self._missing = missing
        self._new_var = new_var

    def store(self, buffer: Any, of: Type, value: Any, index: Any) -> Any:
        """Statements that store a value at an index, lane by lane."""
        whole = self._new_var("stored", str(value.ty.dtype))
        parts = [tirx.Bind(whole, value)]
        lanes = type_of(value).lanes
        for lane in range(lanes):
            one = whole if lanes == 1 else prim.Shuffle([whole], [tirx.const(lane, "int32")])
            parts += self._store_one(buffer, of, one, lane_of(index, lane, lanes))
        return tirx.SeqStmt(parts)

    def _store_one(self, buffer: Any, of: Type, value: Any, index: Any) -> list[Any]:
        at = self._new_var("at", str(index.ty.dtype))
        parts = [tirx.Bind(at, index)]
        if of.bits == 64:
            high = value >> 31 if of.kind == "int" else tirx.const(0, "uint32")
            words = [(at * 2, value), (at * 2 + 1, high)]
            return [*parts, *(tirx.BufferStore(buffer, w, [place]) for place, w in words)]
        bits = types.storage(of).bits
        if of.kind == "bool":
            value = prim.Select(value, tirx.const(1, "uint32"), tirx.const(0, "uint32"))
        each = 32 // bits
        place, shift = at // each, prim.Cast("uint32", at % each * bits)
        mask = tirx.const((1 << bits) - 1, "uint32")
        new = prim.Cast("uint32", value) & mask
        word = self._new_var("word", "uint32")

        def add(what: Any) -> Any:
            address = tirx.address_of(tirx.BufferLoad(buffer, [place]))
            return tirx.call_intrin("uint32", ATOMIC_ADD, address, what)

        # Read atomically, too: other threads change the word's other bytes meanwhile.
        parts.append(tirx.Bind(word, add(tirx.const(0, "uint32"))))
        change = (new - ((word >> shift) & mask)) << shift
        return [*parts, tirx.Evaluate(add(change))]

    def load(self, buffer: Any, of: Type, index: Any) -> Any:
        """One element."""
        at = self._new_var("at", str(index.ty.dtype))
        if of.bits == 64:
            low = self._new_var("low", str(self._missing.held(of)))
            high = tirx.BufferLoad(buffer, [at * 2 + 1])
            value = prim.Let(low, tirx.BufferLoad(buffer, [at * 2]), _nearest(low, high, of))
            return prim.Let(at, index, value)
        bits = types.storage(of).bits
        each = 32 // bits
        word = tirx.BufferLoad(buffer, [at // each])
        small = (word >> prim.Cast("uint32", at % each * bits)) & tirx.const(
            (1 << bits) - 1, "uint32"
        )
        if of.kind == "bool":
            return prim.Let(at, index, prim.NE(small, tirx.const(0, "uint32")))
        value = prim.Cast("int32", small)
        if of.kind == "int":
            by = tirx.const(32 - bits, "int32")
            value = prim.RShift(prim.LShift(value, by), by)
        held = self._missing.held(of)
        if held != INT32:
            value = prim.Cast(str(held), value)
        return prim.Let(at, index, value)


def words_of(shape: Any, of: Type) -> Any:
    """How many words of 32 bits elements of a type take."""
    count: Any = tirx.const(1, "int32")
    for extent in shape:
        count = count * extent
    bits = types.storage(of).bits
    return count * 2 if bits == 64 else (count + (32 // bits - 1)) // (32 // bits)


def lane_of(index: Any, lane: int, lanes: int) -> Any:
    """The index of one element of an access of several."""
    if lanes == 1:
        return index
    if type(index) is prim.Ramp:
        return index.base + index.stride * lane
    return prim.Shuffle([index], [tirx.const(lane, "int32")])


def _nearest(low: Any, high: Any, of: Type) -> Any:
    """Of two words the number of 32 bits that is nearest."""
    if of.kind == "uint":
        return prim.Select(
            prim.EQ(high, tirx.const(0, "uint32")), low, tirx.const((1 << 32) - 1, "uint32")
        )
    least, most = tirx.const(-(1 << 31), "int32"), tirx.const((1 << 31) - 1, "int32")
    beyond = prim.Select(prim.LT(high, tirx.const(0, "int32")), least, most)
    return prim.Select(prim.EQ(high, low >> 31), low, beyond)
