"""64-bit index arithmetic in 32 bits.

A buffer holds fewer than 2^32 elements, so the low word of an index is the index, and the low word
of a sum or product is that of its operands' low words. Quotients, comparisons and the like are
computed in 32 bits where the ranges of the operands prove it exact. That is faster everywhere, and
some drivers miscompile 64-bit integers.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl.analysis import Access, Analysis, handle, type_of
from tvm_vision.vulkan.codegen.glsl.memory import KernelMemory
from tvm_vision.vulkan.codegen.glsl.printer import Printer
from tvm_vision.vulkan.codegen.glsl.types import INT32, INT64
from tvm_vision.vulkan.codegen.glsl.vector import Code, Value, infix

_REBUILT = (prim.Add, prim.Sub, prim.Mul)


class NarrowingPrinter(Printer):
    """The part of the expression printer that deals with indices and 64-bit integers."""

    def __init__(self, kernel: str, analysis: Analysis, attributes: dict) -> None:
        super().__init__(kernel, analysis, attributes)
        self.memory = KernelMemory(analysis, self.requirements, self)
        self.variables: dict[int, Value] = {}
        self.narrow_names: dict[int, str] = {}  # int64 variables held in 32 bits
        self._kept: list[Any] = []  # placeholders must outlive their handles

    def scalar(self, expression: Any) -> str:
        """The text of an expression of one lane."""
        value = self.visit(expression)
        if value.type.lanes != 1:
            raise UnsupportedKernelError(
                f"kernel {self.kernel}: needs a scalar, got {value.type}: {expression}"
            )
        return value.text

    def index(self, expression: Any) -> str:
        """A buffer index in 32 bits. Exact for 64-bit ones: an index below 2^32 is its low word."""
        of = type_of(expression)
        if of.bits == 64:
            expression = self.to_32_bits(expression)
        text = self.scalar(expression)
        return text if of.bits >= 32 else f"int({text})"

    def indices(self, expression: Any, first: int) -> list[str]:
        """One index a lane, less ``first``."""
        if type(expression) is prim.Ramp:
            base = self.atom_text(self.index(expression.base), INT32)
            stride = self.atom_text(self.index(expression.stride), INT32)
            texts = []
            for lane in range(int(expression.lanes)):
                offset: str = infix("*", stride, str(lane))
                if stride.lstrip("-").isdigit():
                    offset = str(int(stride) * lane)
                texts.append(base if offset == "0" else infix("+", base, offset))
        else:
            if type_of(expression).bits == 64:
                expression = self.to_32_bits(expression)
            value = self.atomic(self.visit(expression))
            texts = [Code(f"int({value.lane(i)})") for i in range(value.type.lanes)]
        return [infix("-", text, str(first)) if first else text for text in texts]

    def to_32_bits(self, expression: Any) -> Any:
        """An int32 expression equal to an int64 one modulo 2^32 (exactly, where it fits), of as
        many lanes."""
        node, lanes = type(expression), type_of(expression).lanes
        wanted = f"int32x{lanes}" if lanes > 1 else "int32"
        if type(expression) is prim.IntImm:
            value = int(expression.value) & 0xFFFFFFFF
            return tirx.const(value - (1 << 32) if value >> 31 else value, "int32")
        if node in _REBUILT:
            return node(self.to_32_bits(expression.a), self.to_32_bits(expression.b))
        if type(expression) is prim.Cast:
            of = type_of(expression.value)
            if of.scalar == INT32:
                return expression.value
            # A real number that is no int32 is no place of a buffer either.
            if of.bits < 32 or of.kind == "float":
                return prim.Cast(wanted, expression.value)
        if type(expression) is prim.Ramp:
            return prim.Ramp(*map(self.to_32_bits, (expression.base, expression.stride)), lanes)
        if type(expression) is prim.Broadcast:
            return prim.Broadcast(self.to_32_bits(expression.value), lanes)
        if lanes > 1:
            return prim.Cast(wanted, expression)
        if type_of(expression) == INT64 and self.analysis.narrowable(expression):
            return self._narrowed(expression)
        if isinstance(expression, ir.Var) and handle(expression) in self.narrow_names:
            return self._placeholder(self.narrow_names[handle(expression)], expression)
        return self._placeholder(Code(f"int({self.scalar(expression)})"), expression)

    def narrow_sides(self, left: Any, right: Any) -> tuple[Any, Any] | None:
        """The sides of a comparison of int64 as int32 ones that compare the same; None where they
        cannot be. A number that is only known to have 32 bits may be a sum's term, as TVM writes
        ``5 - i < n``: it is compared with the rest, of which more is known."""
        if not all(type_of(side) == INT64 for side in (left, right)):
            return None
        terms = [*_terms(left), *_terms(right, added=False)]
        alone = [(left, right), *(_one_side(terms, n) for n in range(len(terms)))]
        for sides in alone:
            if all(map(self.analysis.narrowable, sides)):
                return self.to_32_bits(sides[0]), self.to_32_bits(sides[1])
        return None

    def _narrowed(self, expression: Any) -> Any:
        node = type(expression)
        if type(expression) is ir.TensorLoad:
            element = self.analysis.element(expression.source)
            access = Access(element, element, expression.indices[0])
            place = self.memory.narrow_place(expression.source, access)
            if place is not None:
                return self._placeholder(Code(place), expression)
        elif isinstance(expression, ir.Var):
            name = self.narrow_names.get(handle(expression))
            if name is not None:
                return self._placeholder(name, expression)
        elif type(expression) is prim.Select:
            branches = (expression.true_value, expression.false_value)
            return prim.Select(expression.condition, *map(self.to_32_bits, branches))
        elif type(expression) is ir.Call:
            condition, *branches = expression.args
            return tirx.if_then_else(condition, *map(self.to_32_bits, branches))
        elif isinstance(expression, (prim.BinaryOpExpr, prim.RShift, prim.BitwiseAnd)):
            return node(self.to_32_bits(expression.a), self.to_32_bits(expression.b))
        return self._placeholder(Code(f"int({self.plain(expression).text})"), expression)

    def _placeholder(self, text: str, stands_for: Any) -> Any:
        """An int32 variable that prints as ``text`` and has the bounds of what it stands for."""
        var = tirx.Var("narrow", "int32")
        self._kept.append(var)
        self.variables[handle(var)] = Value(INT32, [text])
        low, high = self.analysis.bounds(stands_for)
        if -(1 << 31) <= low and high < (1 << 31) - 1:
            self.analysis.analyzer.bind(
                var, ir.Range(tirx.const(low, "int32"), tirx.const(high + 1, "int32")), True
            )
        return var


def _terms(sum_of: Any, added: bool = True) -> list[tuple[Any, bool]]:
    """What is added up, and whether each is added or subtracted."""
    if type(sum_of) in (prim.Add, prim.Sub):
        second = added == (type(sum_of) is prim.Add)
        return [*_terms(sum_of.a, added), *_terms(sum_of.b, second)]
    return [(sum_of, added)]


def _one_side(terms: list[tuple[Any, bool]], number: int) -> tuple[Any, Any]:
    """The sides of a comparison of a sum with 0, one term on its own."""
    one, left = terms[number]
    rest: Any = tirx.const(0, "int64")
    others = [*terms[:number], *terms[number + 1 :]]
    # What is added on its side first, so that partial sums stay as small as the sum.
    for term, added in sorted(others, key=lambda other: other[1] == left):
        rest = (prim.Sub if added == left else prim.Add)(rest, term)
    return (one, rest) if left else (rest, one)
