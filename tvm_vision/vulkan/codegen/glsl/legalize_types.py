"""Kernels without the types that a device lacks: integers of 64 bits, and small types.

A device without int64 computes it in 32 bits. In memory a number stays two words: a load takes the
value that fits 32 bits and is nearest, a store extends the sign. So all is exact whose values, and
what is computed of them on the way, fit int32: indices, counts and classes do.

A device without int8 or int16 computes in int32 and wraps after each step; one without float16 in
float32, and rounds where it stores. Where it has no buffers of 8 or 16 bits either, integers lie in
words, of which a thread changes its own bytes by adding the difference (two threads never store the
same element, and each knows what it last was).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import handle, is_private, operator_name, type_of
from tvm_vision.vulkan.codegen.glsl.dynamic_shared import DynamicShared, buffer_like
from tvm_vision.vulkan.codegen.glsl.missing_types import Missing, types_in
from tvm_vision.vulkan.codegen.glsl.types import INT32, UINT32, Requirements, Type
from tvm_vision.vulkan.codegen.glsl.words import Words, lane_of, words_of

_LOW, _HIGH = -(1 << 31), (1 << 31) - 1
_LARGE = 1 << 30  # no index is below this, negated
# Whose result may have more bits than its operands.
_GROWING = (prim.Add, prim.Sub, prim.Mul, prim.Div, prim.FloorDiv, prim.LShift)
# Of a constant beyond 32 bits these make what 32 bits cannot hold; others compare or choose.
_EXACT = (
    prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod,
    prim.BitwiseAnd, prim.BitwiseOr, prim.BitwiseXor, prim.LShift, prim.RShift,
)  # fmt: skip
# Calls whose integers may be computed in more bits; what wraps, wraps after them.
_PLAIN_CALLS = ("if_then_else", "likely", "abs")
_POPCOUNT = "tirx.popcount"


def legalized(function: Any, attributes: dict) -> Any:
    """A lowered kernel without types that the target says it lacks, but for loads and stores of
    those that buffers can hold.

    Raises:
        UnsupportedKernelError: an operator has no form without a type.
    """
    missing = Missing(attributes)
    if not any(missing.lacks(of) for of in types_in(function)):
        return function
    name = str(function.attrs["global_symbol"])
    return Legalizer(missing, Requirements(name, attributes)).function(function)


class Legalizer:
    """Rewrites one kernel."""

    def __init__(self, missing: Missing, requirements: Requirements) -> None:
        self._missing = missing
        self._requirements = requirements
        self._vars: dict[int, Any] = {}
        self._buffers: dict[int, Any] = {}  # those that hold another type
        self._arguments: set[int] = set()  # buffers that view an argument
        self._kept: list[Any] = []  # variables must outlive their handles
        self._words = Words(missing, self._new_var)
        self._dynamic = DynamicShared(missing, self._buffers)

    def function(self, function: Any) -> Any:
        """The kernel, with the parameters of what it computes in."""
        for parameter in function.params:
            if isinstance(parameter.ty, ir.PointerType) and not is_private(parameter):
                self._arguments.add(handle(parameter))
        params = [
            p if isinstance(p.ty, ir.PointerType) else self._variable(p) for p in function.params
        ]
        body = self.statement(function.body)
        return tirx.PrimFunc(params, body, function.ret_type, function.attrs, function.span)

    # -- statements -----------------------------------------------------------

    def statement(self, stmt: Any) -> Any:
        """A statement, which may become several."""
        method = _STATEMENTS.get(type(stmt))
        return stmt if method is None else method(self, stmt)

    def _sequence(self, stmt: Any) -> Any:
        return tirx.SeqStmt([self.statement(part) for part in stmt.seq])

    def _attribute(self, stmt: Any) -> Any:
        node, value = stmt.node, stmt.value
        if stmt.attr_key == "thread_extent":
            variable = self._variable(node.var)
            if not variable.same_as(node.var):
                dtype = str(variable.ty.dtype)
                zero, extent = tirx.const(0, dtype), self.value(value)
                dom = ir.Range.from_min_extent(zero, extent)
                node = tirx.IterVar(dom, variable, node.iter_type, node.thread_tag)
        if type_of_value(value) is not None:
            value = self.value(value)
        return tirx.AttrStmt(node, stmt.attr_key, value, self.statement(stmt.body))

    def _for(self, stmt: Any) -> Any:
        variable = self._variable(stmt.loop_var)
        step = None if stmt.step is None else self.value(stmt.step)
        return tirx.For(
            variable, self.value(stmt.min), self.value(stmt.extent), stmt.kind,
            self.statement(stmt.body), stmt.thread_binding, stmt.annotations, step,
        )  # fmt: skip

    def _while(self, stmt: Any) -> Any:
        return tirx.While(self.value(stmt.condition), self.statement(stmt.body))

    def _if(self, stmt: Any) -> Any:
        other = None if stmt.else_case is None else self.statement(stmt.else_case)
        return tirx.IfThenElse(self.value(stmt.condition), self.statement(stmt.then_case), other)

    def _bind(self, stmt: Any) -> Any:
        if not isinstance(stmt.var.ty, ir.PrimType):
            return stmt
        return tirx.Bind(self._variable(stmt.var), self.value(stmt.value))

    def _evaluate(self, stmt: Any) -> Any:
        return tirx.Evaluate(self.value(stmt.value)) if type(stmt.value) is ir.Call else stmt

    def _allocate(self, stmt: Any) -> Any:
        dynamic = self._dynamic.allocate(stmt)
        if dynamic is not None:
            return dynamic
        of = self._element(stmt.buffer)
        held = self._missing.held(of)
        if held == of:
            return stmt
        made = buffer_like(stmt.buffer, held, stmt.buffer.ty.shape)
        self._buffers[handle(stmt.buffer)] = made
        return tirx.AllocBuffer(made, dict(stmt.annotations))

    def _declare(self, stmt: Any) -> Any:
        data = stmt.data
        if isinstance(data, ir.Call):
            data = data.args[0]
        dynamic = self._dynamic.declare(stmt, handle(data))
        if dynamic is not None:
            return dynamic
        if handle(data) not in self._arguments:
            inner = self._buffers.get(handle(data))
            if inner is None and not is_private(data):
                return stmt
            of = self._element(stmt.buffer)
            made = buffer_like(stmt.buffer, self._missing.held(of), stmt.buffer.ty.shape)
            self._buffers[handle(stmt.buffer)] = made
            return tirx.DeclBuffer(made, data=stmt.data if inner is None else inner.data)
        self._arguments.add(handle(stmt.buffer))
        of = self._element(stmt.buffer)
        if of.kind == "float":  # nothing stands for those that a buffer does not hold
            self._requirements.buffer(of)
            self._requirements.value(of)
        if self._missing.has_buffer(of):
            return stmt
        held = UINT32
        if of.bits == 64:
            held = self._missing.held(of)
        made = buffer_like(stmt.buffer, held, [words_of(stmt.buffer.ty.shape, of)])
        self._buffers[handle(stmt.buffer)] = made
        return tirx.DeclBuffer(made, data=stmt.data)

    def _store(self, stmt: Any) -> Any:
        of, value = self._element(stmt.buffer), self.value(stmt.value)
        index = self.value(stmt.indices[0])
        buffer = self._buffers.get(handle(stmt.buffer), stmt.buffer)
        if handle(stmt.buffer) not in self._arguments:
            return tirx.BufferStore(buffer, value, [index])
        if self._missing.has_buffer(of):
            if type_of(value).scalar != of.scalar:
                value = prim.Cast(str(stmt.value.ty.dtype), value)
            return tirx.BufferStore(buffer, value, [index])
        return self._words.store(buffer, of, value, index)

    # -- expressions ----------------------------------------------------------

    def value(self, node: Any) -> Any:
        """An expression in the types there are."""
        if isinstance(node, ir.Var):
            return self._vars.get(handle(node), node)
        if isinstance(node, prim.BinaryOpExpr):
            return self._binary(node)
        method = _VALUES.get(type(node))
        return node if method is None else method(self, node)

    def _integer(self, node: Any) -> Any:
        of = type_of(node)
        held = self._missing.held(of)
        if held == of:
            return node
        low, high = (0, (1 << 32) - 1) if held.kind == "uint" else (_LOW, _HIGH)
        return tirx.const(min(max(int(node.value), low), high), str(held))

    def _float(self, node: Any) -> Any:
        held = self._missing.held(type_of(node))
        return tirx.const(float(node.value), str(held)) if held != type_of(node) else node

    def _binary(self, node: Any) -> Any:
        of = type_of(node.a)
        shifted = self._shifted_division(node)
        if shifted is not None:
            return shifted
        if isinstance(node, _EXACT) and self._missing.held(of) != of:
            for operand in (node.a, node.b):
                self._check_constant(operand)
        made = type(node)(self.value(node.a), self.value(node.b))
        return self._wrapped(made, of) if isinstance(node, _GROWING) else made

    def _shifted_division(self, node: Any) -> Any:
        """(a + C) / d and (a + C) % d of 64 bits, where C is a large multiple of d.

        So TVM divides what may be negative, rounding down; the sum takes more than 32 bits.
        """
        if not isinstance(node, (prim.Div, prim.Mod)) or type_of(node).bits != 64:
            return None
        total, divisor = node.a, node.b
        if not (isinstance(total, prim.Add) and self._missing.lacks(type_of(node).scalar)):
            return None
        if not (type(total.b) is prim.IntImm and type(divisor) is prim.IntImm):
            return None
        by, d = int(total.b.value), int(divisor.value)
        if d <= 0 or by < _LARGE or by % d:
            return None
        inner, one = self.value(total.a), self.value(divisor)
        if isinstance(node, prim.Mod):
            return prim.FloorMod(inner, one)
        return prim.FloorDiv(inner, one) + self._const(by // d, inner)

    def _check_constant(self, operand: Any) -> None:
        if type(operand) is prim.IntImm and not _LOW <= int(operand.value) <= _HIGH:
            raise UnsupportedKernelError(
                f"computes with the constant {int(operand.value)}, which 32 bits do not hold, and "
                "the target has no int64 (supports_int64 is false): use a smaller one"
            )

    def _wrapped(self, value: Any, of: Type) -> Any:
        """A value in int32 as ``of`` would have it, a small integer."""
        if not of.is_integer or of.bits >= 32 or self._missing.held(of) == of:
            return value
        if of.kind == "uint":
            return prim.BitwiseAnd(value, self._const((1 << of.bits) - 1, value))
        by = self._const(32 - of.bits, value)
        return prim.RShift(prim.LShift(value, by), by)

    @staticmethod
    def _const(number: int, like: Any) -> Any:
        of = type_of(like)
        one = tirx.const(number, str(of.scalar))
        return one if of.lanes == 1 else prim.Broadcast(one, of.lanes)

    def _not(self, node: Any) -> Any:
        return type(node)(self.value(node.a))

    def _complement(self, node: Any) -> Any:
        return self._wrapped(prim.BitwiseNot(self.value(node.a)), type_of(node))

    def _select(self, node: Any) -> Any:
        return prim.Select(*map(self.value, (node.condition, node.true_value, node.false_value)))

    def _let(self, node: Any) -> Any:
        value = self.value(node.value)
        return prim.Let(self._variable(node.var), value, self.value(node.body))

    def _ramp(self, node: Any) -> Any:
        return prim.Ramp(self.value(node.base), self.value(node.stride), node.lanes)

    def _broadcast(self, node: Any) -> Any:
        return prim.Broadcast(self.value(node.value), node.lanes)

    def _shuffle(self, node: Any) -> Any:
        return prim.Shuffle([self.value(v) for v in node.vectors], list(node.indices))

    def _cast(self, node: Any) -> Any:
        of, source = type_of(node), type_of(node.value)
        value = self.value(node.value)
        held = self._missing.held(of)
        if source.scalar == types.UINT64 and held.scalar == INT32:
            value = prim.Min(value, self._const(_HIGH, value))
        if type_of(value) != held:
            value = prim.Cast(str(held), value)
        narrower = source.bits >= of.bits or source.kind != of.kind
        return self._wrapped(value, of) if narrower and source.kind != "bool" else value

    def _call(self, node: Any) -> Any:
        name = operator_name(node)
        if name == "tirx.address_of":
            return self._address(node)
        args = [self.value(a) if type_of_value(a) is not None else a for a in node.args]
        of = type_of_value(node)
        held = None if of is None else self._missing.held(of)
        if held == of and all(a.same_as(b) for a, b in zip(args, node.args, strict=True)):
            return node
        plain = name.split(".")[-1] in _PLAIN_CALLS
        small = [t for t in (of, *map(type_of_value, node.args)) if t is not None and t.is_integer]
        if name == _POPCOUNT and small[0].bits < 32:
            # Of the type's own bits: a sign was extended.
            args = [prim.BitwiseAnd(args[0], self._const((1 << small[0].bits) - 1, args[0]))]
        elif not plain and any(self._missing.held(t) != t and t.bits != 64 for t in small):
            raise UnsupportedKernelError(
                f"the operator {name} on {', '.join(sorted({str(t) for t in small}))} has no form "
                "on a target that lacks the type: cast to int32 first"
            )
        ty = node.ty if held == of or held is None else ir.PrimType(str(held))
        made = ir.Call(node.op, args, node.attrs, list(node.ty_args), None, ty)
        return self._wrapped(made, of) if of is not None else made

    def _address(self, node: Any) -> Any:
        load = node.args[0]
        if handle(load.source) in self._buffers:
            raise UnsupportedKernelError(
                f"the address of an element of {load.source.name} is taken, of a type that the "
                "target lacks: use int32"
            )
        return tirx.address_of(tirx.BufferLoad(load.source, [self.value(load.indices[0])]))

    def _load(self, node: Any) -> Any:
        of, index = self._element(node.source), self.value(node.indices[0])
        buffer = self._buffers.get(handle(node.source), node.source)
        whole = type_of(node)
        if handle(node.source) not in self._arguments:
            return tirx.BufferLoad(buffer, [index])
        if self._missing.has_buffer(of):
            value, held = tirx.BufferLoad(buffer, [index]), self._missing.held(whole)
            return value if held == whole else prim.Cast(str(held), value)
        loads = [
            self._words.load(buffer, of, lane_of(index, i, whole.lanes)) for i in range(whole.lanes)
        ]
        if len(loads) == 1:
            return loads[0]
        return prim.Shuffle(loads, [tirx.const(i, "int32") for i in range(len(loads))])

    # -- variables and buffers ------------------------------------------------

    def _element(self, buffer: Any) -> Type:
        of = types.parse(str(buffer.ty.dtype.dtype))
        argument = handle(buffer) in self._arguments
        if argument and of.lanes > 1 and self._missing.lacks(of.scalar):
            raise UnsupportedKernelError(
                f"{buffer.name} has elements of {of}, and the target lacks the type"
            )
        return of

    def _variable(self, var: Any) -> Any:
        of = type_of(var)
        held = self._missing.held(of)
        if held == of:
            return var
        if handle(var) not in self._vars:
            self._vars[handle(var)] = self._new_var(var.name, str(held))
            self._kept.append(var)
        return self._vars[handle(var)]

    def _new_var(self, name: str, dtype: str) -> Any:
        made = tirx.Var(name, dtype)
        self._kept.append(made)
        return made


def type_of_value(node: Any) -> Type | None:
    """The type of an expression; None for handles, strings and what a shader has no type for."""
    try:
        return type_of(node)
    except (UnsupportedKernelError, AttributeError, TypeError, ValueError):
        return None


_STATEMENTS: dict[type, Callable[[Legalizer, Any], Any]] = {
    tirx.SeqStmt: Legalizer._sequence,
    tirx.AttrStmt: Legalizer._attribute,
    tirx.For: Legalizer._for,
    tirx.While: Legalizer._while,
    tirx.IfThenElse: Legalizer._if,
    tirx.Bind: Legalizer._bind,
    tirx.Evaluate: Legalizer._evaluate,
    tirx.AllocBuffer: Legalizer._allocate,
    tirx.DeclBuffer: Legalizer._declare,
    tirx.BufferStore: Legalizer._store,
}
_VALUES: dict[type, Callable[[Legalizer, Any], Any]] = {
    prim.IntImm: Legalizer._integer,
    prim.FloatImm: Legalizer._float,
    prim.EQ: Legalizer._binary,
    prim.NE: Legalizer._binary,
    prim.LT: Legalizer._binary,
    prim.LE: Legalizer._binary,
    prim.GT: Legalizer._binary,
    prim.GE: Legalizer._binary,
    prim.And: Legalizer._binary,
    prim.Or: Legalizer._binary,
    prim.BitwiseAnd: Legalizer._binary,
    prim.BitwiseOr: Legalizer._binary,
    prim.BitwiseXor: Legalizer._binary,
    prim.LShift: Legalizer._binary,
    prim.RShift: Legalizer._binary,
    prim.Not: Legalizer._not,
    prim.BitwiseNot: Legalizer._complement,
    prim.Select: Legalizer._select,
    prim.Let: Legalizer._let,
    prim.Ramp: Legalizer._ramp,
    prim.Broadcast: Legalizer._broadcast,
    prim.Shuffle: Legalizer._shuffle,
    prim.Cast: Legalizer._cast,
    ir.Call: Legalizer._call,
    ir.TensorLoad: Legalizer._load,
}
