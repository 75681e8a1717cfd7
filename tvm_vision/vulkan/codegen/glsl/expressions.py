"""Expressions of TensorIR in GLSL: one method a node type, found by a table."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import ir
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import guards, intrinsics, types
from tvm_vision.vulkan.codegen.glsl.analysis import Access, Analysis, handle, operator_name, type_of
from tvm_vision.vulkan.codegen.glsl.flags import compared_flag
from tvm_vision.vulkan.codegen.glsl.narrow import NarrowingPrinter
from tvm_vision.vulkan.codegen.glsl.sums import Sum, Sums, Term
from tvm_vision.vulkan.codegen.glsl.types import BOOL, INT32, INT64, Type
from tvm_vision.vulkan.codegen.glsl.vector import (
    CONDITIONAL,
    UNARY,
    Code,
    Value,
    broadcast,
    compare,
    construct,
    in_words,
    infix,
    is_atom,
    lanewise,
    pack,
    partwise,
    repeat_in_words,
    unpack,
    widths,
    wrap,
)

_WORD = re.compile(r"[A-Za-z_]\w*")
_INFIX = {
    prim.Add: "+",
    prim.Sub: "-",
    prim.Mul: "*",
    prim.BitwiseAnd: "&",
    prim.BitwiseOr: "|",
    prim.BitwiseXor: "^",
}
_ON_BOOLS = {"&": "&&", "|": "||", "^": "!="}
_COMPARISONS = {
    prim.EQ: "==",
    prim.NE: "!=",
    prim.LT: "<",
    prim.LE: "<=",
    prim.GT: ">",
    prim.GE: ">=",
}
_INTEGER_HELPERS = {prim.FloorDiv: "floordiv", prim.FloorMod: "floormod", prim.Mod: "truncmod"}


class ExpressionPrinter(NarrowingPrinter):
    """Turns expressions into Values; may emit temporaries into the current block."""

    def __init__(self, kernel: str, analysis: Analysis, attributes: dict) -> None:
        super().__init__(kernel, analysis, attributes)
        self.sums = Sums(analysis)
        self.subgroup_size = 0  # lanes the kernel counts on; 0: any
        self.common: dict[str, str] = {}  # text of a named expression -> its name

    @contextmanager
    def capture(self) -> Iterator[list]:
        """As Emitter.capture; what is named inside is forgotten outside."""
        scopes: list[dict] = [self.common, self.choices]
        known = [len(scope) for scope in scopes]
        with super().capture() as lines:
            yield lines
        for scope, before in zip(scopes, known, strict=True):
            while len(scope) > before:
                scope.popitem()

    # -- entry points ---------------------------------------------------------

    def visit(self, expression: Any) -> Value:
        """The GLSL of an expression.

        Raises:
            UnsupportedKernelError: a node, an operator or a type that has no form in a shader.
        """
        method = _METHODS.get(type(expression))
        if method is None:
            raise UnsupportedKernelError(
                f"kernel {self.kernel}: a {type(expression).__name__} node has no form in a shader"
            )
        if (
            type(expression) not in _LEAVES
            and type_of(expression) == INT64
            and self.analysis.narrowable(expression)
        ):
            self.requirements.value(INT64)
            return Value(INT64, [Code(f"int64_t({self.visit(self.to_32_bits(expression)).text})")])
        value = method(self, expression)
        if value.type.kind != "bool":
            self.requirements.value(value.type)
        return value

    def plain(self, expression: Any) -> Value:
        """As visit, but an int64 expression stays one."""
        return _METHODS[type(expression)](self, expression)

    # -- leaves ---------------------------------------------------------------

    def _variable(self, var: Any) -> Value:
        found = self.variables.get(handle(var))
        if found is None:
            raise UnsupportedKernelError(
                f"kernel {self.kernel}: variable {var.name} is not defined"
            )
        return found

    def _integer(self, constant: Any) -> Value:
        of = type_of(constant)
        return Value(of, [Code(types.literal(int(constant.value), of))])

    def _float(self, constant: Any) -> Value:
        of = type_of(constant)
        return Value(of, [Code(types.literal(float(constant.value), of))])

    def _load(self, load: Any) -> Value:
        access = Access(self.analysis.element(load.source), type_of(load), load.indices[0])
        return self.memory.load(load.source, access)

    # -- operators ------------------------------------------------------------

    def named(self, value: Value) -> Value:
        """The name of an expression that a constant in scope already holds."""
        if len(value.parts) == 1 and value.parts[0] in self.common:
            return Value(value.type, [self.common[value.parts[0]]])
        return value

    def remember(self, text: str, name: str) -> None:
        """Lets a constant stand for an expression wherever its text comes up again in its scope."""
        if self.stays(text):
            self.common.setdefault(text, name)

    def stays(self, text: str) -> bool:
        """Whether an expression has one value as long as what it mentions is in scope."""
        return "[" not in text and self.mutable.isdisjoint(_WORD.findall(text))

    def atom(self, text: str, of: Type, hint: str) -> str:
        """Text that is cheap to repeat: a constant that holds the expression, one in its scope."""
        if is_atom(text):
            return text
        if text not in self.common:
            self.remember(text, name := self.temporary(text, of, hint))
            return name
        return self.common[text]

    def _sum(self, node: Any) -> Value:
        """Apart: what threads add to a place, and what they have in common."""
        terms = self.sums.of(node) if type_of(node) == INT32 else None
        return self._infix(node) if terms is None or not terms.mixed else self._added_up(terms)

    def _added_up(self, terms: Sum) -> Value:
        texts = [self._terms(part) for part in terms.parts if part]
        base = self.named(Value(INT32, [functools.reduce(_plus, texts)]))
        if not terms.constant:
            return base
        return self.named(Value(INT32, [infix("+", base.text, str(terms.constant))]))

    def _terms(self, terms: list[Term]) -> str:
        texts = []
        for factor, term in terms:
            text = self.visit(term).text
            texts.append(text if factor == 1 else infix("*", text, str(factor)))
        return self.named(Value(INT32, [functools.reduce(_plus, texts)])).text

    def _infix(self, node: Any) -> Value:
        symbol = _INFIX[type(node)]
        a, b = self.visit(node.a), self.visit(node.b)
        if a.type.kind == "bool":
            return self.logical(_ON_BOOLS[symbol], a, b)
        return self.named(partwise(a.type, lambda w, x, y: infix(symbol, x, y), a, b))

    def logical(self, symbol: str, a: Value, b: Value) -> Value:
        """``&&``, ``||`` or ``!=`` of bools, lane by lane: GLSL has two of these for scalars."""
        if a.type.lanes > 1:
            a, b = self.atomic(a), self.atomic(b)
        return lanewise(a.type, lambda x, y: infix(symbol, x, y), a, b)

    def _divide(self, node: Any) -> Value:
        if (terms := self.sums.split_division(node)) is not None:
            return self._added_up(terms)
        a, b = self.visit(node.a), self.visit(node.b)
        if self._unsigned_division(node, a.type):
            return self._as_unsigned("/", a, b)
        return self.named(partwise(a.type, lambda w, x, y: infix("/", x, y), a, b))

    def _modulo(self, node: Any) -> Value:
        if (terms := self.sums.split_division(node)) is not None:
            return self._added_up(terms)
        a, b = self.visit(node.a), self.visit(node.b)
        name = _INTEGER_HELPERS[type(node)]
        of = a.type
        if of.kind == "float":
            return self._float_modulo(name, a, b)
        if of.kind == "uint":
            symbol = "/" if name == "floordiv" else "%"
            return partwise(of, lambda w, x, y: infix(symbol, x, y), a, b)
        if self._unsigned_division(node, of):
            return self._as_unsigned("/" if name == "floordiv" else "%", a, b)
        function = self.prelude.call(name, of.scalar)
        if of.lanes > 1:
            a, b = self.atomic(a), self.atomic(b)
        return self.named(lanewise(of, lambda x, y: Code(f"{function}({x}, {y})"), a, b))

    def _float_modulo(self, name: str, a: Value, b: Value) -> Value:
        if name == "truncmod":
            return intrinsics.apply(self, "fmod", [a, b], a.type)
        if name == "floormod":
            a, b = self.atomic(a), self.atomic(b)
        quotient = partwise(a.type, lambda w, x, y: Code(f"floor({infix('/', x, y)})"), a, b)
        if name == "floordiv":
            return quotient
        product = partwise(a.type, lambda w, x, y: infix("*", x, y), quotient, b)
        return partwise(a.type, lambda w, x, y: infix("-", x, y), a, product)

    def _unsigned_division(self, node: Any, of: Type) -> bool:
        """Provably the same as in unsigned numbers, where it takes fewer instructions."""
        if of != INT32 or type(node.b) is not prim.IntImm or int(node.b.value) <= 0:
            return False
        return self.analysis.non_negative(node.a)

    def _as_unsigned(self, symbol: str, a: Value, b: Value) -> Value:
        quotient = infix(symbol, Code(f"uint({a.text})"), f"{b.text}u")
        return self.named(Value(INT32, [Code(f"int({quotient})")]))

    def _extreme(self, node: Any) -> Value:
        name = "min" if type(node) is prim.Min else "max"
        a, b = self.visit(node.a), self.visit(node.b)
        return self.named(partwise(a.type, lambda w, x, y: Code(f"{name}({x}, {y})"), a, b))

    def _compare(self, node: Any) -> Value:
        if (flag := compared_flag(node)) is not None:
            value = self.visit(flag[0])
            return value if flag[1] else self._negate(value)
        left, right = self.narrow_sides(node.a, node.b) or (node.a, node.b)
        a, b = self.visit(left), self.visit(right)
        symbol = _COMPARISONS[type(node)]
        of = BOOL.with_lanes(a.type.lanes)
        if a.type.kind == "float" and a.parts == b.parts and symbol in ("==", "!="):
            unequal = intrinsics.apply(self, "isnan", [a], of)
            return unequal if symbol == "!=" else self._negate(unequal)
        return partwise(of, lambda w, x, y: compare(symbol, x, y, w), a, b)

    def _both(self, node: Any) -> Value:
        symbol = "&&" if type(node) is prim.And else "||"
        a = self.visit(node.a)
        with self.capture() as lines:
            b = self.visit(node.b)
        if not lines:
            return self.logical(symbol, a, b)
        if a.type.lanes > 1:
            for line in lines:
                self.emit(line)
            return self.logical(symbol, a, b)
        result = self.declare(BOOL, "t")
        self.assign(result, a)
        head = f"if ({result.text})" if symbol == "&&" else f"if (!{result.text})"
        with self.block(head):
            for line in lines:
                self.emit(line)
            self.assign(result, b)
        return result

    def _not(self, node: Any) -> Value:
        return self._negate(self.visit(node.a))

    def _negate(self, value: Value) -> Value:
        def one(width: int, part: str) -> str:
            return Code(f"!{wrap(part, UNARY)}", UNARY) if width == 1 else Code(f"not({part})")

        return partwise(value.type, one, value)

    def _complement(self, node: Any) -> Value:
        value = self.visit(node.a)
        if value.type.kind == "bool":
            return self._negate(value)
        return partwise(value.type, lambda w, x: Code(f"~{wrap(x, UNARY)}", UNARY), value)

    def _shift(self, node: Any) -> Value:
        symbol = "<<" if type(node) is prim.LShift else ">>"
        a, b = self.visit(node.a), self.visit(node.b)
        if b.type.bits != 32:
            b = self.convert(b, INT32.with_lanes(b.type.lanes))
        return self.named(partwise(a.type, lambda w, x, y: infix(symbol, x, y), a, b))

    def _select(self, node: Any) -> Value:
        condition = self.visit(node.condition)
        return self.choose(condition, self.visit(node.true_value), self.visit(node.false_value))

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        """Picks by a bool, lane by lane where the condition has lanes; both sides are evaluated."""
        if condition.type.lanes == 1:
            if len(a.parts) > 1:
                condition = self.atomic(condition)
            return partwise(a.type, lambda w, x, y: _conditional(condition.text, x, y), a, b)
        # GLSL has it for floats, int, uint and bool; glslang takes vectors of every type.
        return partwise(a.type, lambda w, c, x, y: Code(f"mix({y}, {x}, {c})"), condition, a, b)

    def _cast(self, node: Any) -> Value:
        of = type_of(node)
        inner = node.value
        source = type_of(inner)
        shrinks = source.scalar == INT64 and of.scalar != INT64
        if shrinks and self.analysis.narrowable(inner):
            inner = self.to_32_bits(inner)
        if type(inner) is prim.Cast and (type_of(inner.value), source.scalar, of.scalar) == (
            of, types.FLOAT16, types.FLOAT32
        ):  # fmt: skip
            # NVIDIA's compiler takes a conversion there and back for none.
            rounds = self.prelude.call("half", of.scalar)
            value = self.atomic(self.visit(inner.value))
            return lanewise(of, lambda x: Code(f"{rounds}({x})"), value)
        return self.convert(self.visit(inner), of)

    def convert(self, value: Value, of: Type) -> Value:
        """A conversion with the meaning it has in C."""
        if value.type == of:
            return value
        self.requirements.value(of)
        if value.type.kind == "float" and of.is_integer and of.bits < 32:
            value = self.convert(value, INT32.with_lanes(of.lanes))
        elif value.type.kind == "bool" and of.is_integer and of.bits != 32:
            value = self.convert(value, INT32.with_lanes(of.lanes))
        elif value.type.kind == "bool" and of == types.FLOAT16.with_lanes(of.lanes):
            value = self.convert(value, types.FLOAT32.with_lanes(of.lanes))
        elif of.kind == "bool" and value.type.bits != 32:
            zero = broadcast(value.type, types.literal(0, value.type))
            return partwise(of, lambda w, x, y: compare("!=", x, y, w), value, zero)
        return partwise(of, lambda w, x: Code(f"{types.name(of.with_lanes(w))}({x})"), value)

    # -- vectors --------------------------------------------------------------

    def _ramp(self, node: Any) -> Value:
        of = type_of(node)
        base = self.atom_text(self.scalar(node.base), of.scalar)
        stride = self.scalar(node.stride)
        lanes = []
        for lane in range(of.lanes):
            if type(node.stride) is prim.IntImm:
                offset = types.literal(int(node.stride.value) * lane, of.scalar)
            else:
                offset = infix("*", stride, types.literal(lane, of.scalar))
            lanes.append(base if lane == 0 else infix("+", base, offset))
        return construct(of, lanes)

    def _broadcast(self, node: Any) -> Value:
        of = type_of(node)
        if type(node.value) is prim.IntImm and (of.is_integer, of.bits, of.lanes % 4) == (1, 8, 0):
            return repeat_in_words(of, int(node.value.value))
        halves = (of.bits, of.lanes % 8) == (16, 0) and self.analysis.uses_matrices
        if halves and type(node.value) is prim.FloatImm:
            return repeat_in_words(of, float(node.value.value))
        inner = self.visit(node.value)
        if inner.type.lanes > 1:
            inner = self.atomic(inner)
            count = inner.type.lanes
            return construct(of, [inner.lane(i % count) for i in range(of.lanes)])
        text = inner.text if of.lanes <= 4 else self.atom_text(inner.text, inner.type)
        return broadcast(of, text)

    def _shuffle(self, node: Any) -> Value:
        pool: list[str] = []
        for vector in node.vectors:
            value = self.atomic(self.visit(vector))
            pool += [value.lane(i) for i in range(value.type.lanes)]
        picked = []
        for index in node.indices:
            if type(index) is not prim.IntImm:
                raise UnsupportedKernelError(
                    f"kernel {self.kernel}: shuffle needs constant indices, got {index}"
                )
            picked.append(pool[int(index.value)])
        return construct(type_of(node), picked)

    # -- calls, branches, lets ------------------------------------------------

    def _let(self, node: Any) -> Value:
        self.bind(node.var, node.value)
        return self.visit(node.body)

    def bind(self, var: Any, expression: Any) -> None:
        """Names the value of a let or Bind."""
        of = type_of(var)
        if of == INT64 and self.analysis.narrowable(expression):
            text = self.scalar(self.to_32_bits(expression))
            name = self.temporary(text, INT32, var.name)
            self.narrow_names[handle(var)] = name
            self.variables[handle(var)] = Value(INT64, [Code(f"int64_t({name})")])
            return
        value = self.visit(expression)
        names = []
        for part, lanes in zip(value.parts, widths(of.lanes), strict=True):
            names.append(self.temporary(part, of.with_lanes(lanes), var.name))
        self.variables[handle(var)] = Value(of, names)
        if len(names) == 1 and of.is_integer:
            self.remember(value.text, names[0])

    def _call(self, call: Any) -> Value:
        name = operator_name(call)
        if name == "prim.if_then_else":
            return self._branch(call)
        return intrinsics.call(self, call)

    def require_subgroup(self, size: int) -> None:
        """Notes that the kernel is right only with subgroups of ``size`` lanes."""
        found = self.attributes.get("thread_warp_size")
        if self.subgroup_size not in (0, size) or (found is not None and int(found) != size):
            raise UnsupportedKernelError(
                f"kernel {self.kernel}: its schedule counts on subgroups of {size} lanes, the "
                f"target has {found if found is not None else self.subgroup_size} "
                "(thread_warp_size): schedule for this target"
            )
        self.subgroup_size = size

    def _branch(self, call: Any) -> Value:
        """if_then_else: the side not taken is never evaluated.

        GLSL promises that for ``?:``, and glslang keeps the promise by a branch unless both sides
        are plain variables or constants; sides that need statements get an if of their own.
        """
        condition = self.visit(call.args[0])
        if condition.type.lanes > 1:
            return self.choose(condition, self.visit(call.args[1]), self.visit(call.args[2]))
        if self.analysis.selects_loads and guards.is_harmless(self.memory, call):
            return guards.selected(self, condition.text, call)
        with self.capture() as first:
            a = self.visit(call.args[1])
        with self.capture() as second:
            b = self.visit(call.args[2])
        if in_words(a) and in_words(b):
            words = self._either(condition.text, (first, pack(a)), (second, pack(b)))
            return unpack(self.atomic(words) if words.type.lanes > 1 else words, a.type)
        return self._either(condition.text, (first, a), (second, b))

    def _either(self, condition: str, yes: tuple[list, Value], no: tuple[list, Value]) -> Value:
        """One of two values, each after the lines that it needs."""
        (first, a), (second, b) = yes, no
        if not first and not second and len(a.parts) == 1:
            return Value(a.type, [_conditional(condition, a.text, b.text)])
        result = self.declare(a.type, "t")
        with self.block(f"if ({condition})"):
            for line in first:
                self.emit(line)
            self.assign(result, a)
        with self.block("else"):
            for line in second:
                self.emit(line)
            self.assign(result, b)
        return result


def _plus(a: str, b: str) -> Code:
    return infix("+", a, b)


def _conditional(condition: str, a: str, b: str) -> Code:
    above = CONDITIONAL + 1
    return Code(f"{wrap(condition, above)} ? {wrap(a, above)} : {wrap(b, above)}", CONDITIONAL)


_LEAVES = frozenset((ir.Var, prim.IntImm, prim.FloatImm, prim.Cast, ir.TensorLoad, prim.Let))
_METHODS: dict[type, Any] = {
    ir.Var: ExpressionPrinter._variable,
    prim.IntImm: ExpressionPrinter._integer,
    prim.FloatImm: ExpressionPrinter._float,
    ir.TensorLoad: ExpressionPrinter._load,
    prim.Div: ExpressionPrinter._divide,
    prim.Min: ExpressionPrinter._extreme,
    prim.Max: ExpressionPrinter._extreme,
    prim.And: ExpressionPrinter._both,
    prim.Or: ExpressionPrinter._both,
    prim.Not: ExpressionPrinter._not,
    prim.BitwiseNot: ExpressionPrinter._complement,
    prim.LShift: ExpressionPrinter._shift,
    prim.RShift: ExpressionPrinter._shift,
    prim.Select: ExpressionPrinter._select,
    prim.Cast: ExpressionPrinter._cast,
    prim.Ramp: ExpressionPrinter._ramp,
    prim.Broadcast: ExpressionPrinter._broadcast,
    prim.Shuffle: ExpressionPrinter._shuffle,
    prim.Let: ExpressionPrinter._let,
    ir.Call: ExpressionPrinter._call,
    **dict.fromkeys(_INFIX, ExpressionPrinter._infix),
    **dict.fromkeys((prim.Add, prim.Sub), ExpressionPrinter._sum),
    **dict.fromkeys(_COMPARISONS, ExpressionPrinter._compare),
    **dict.fromkeys(_INTEGER_HELPERS, ExpressionPrinter._modulo),
}
