"""Operators that TensorIR calls by name, as a table: name -> rule.

A rule gets the printer, the arguments' values and the result's type, and returns a value. For most
operators it is made from a GLSL name: either a built-in that works on vectors, or a function of
floats that is a helper of float.py where GLSL's own is missing, coarse or partly undefined.
TVM lowers many operators to calls of C functions ("expf"); those names lead to the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.ir.prim import expr as prim

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.analysis import (
    ATOMIC_ADD,
    ATOMICS,
    SHUFFLES,
    called,
    operator_name,
    type_of,
)
from tvm_vision.vulkan.codegen.glsl.narrow import NarrowingPrinter
from tvm_vision.vulkan.codegen.glsl.types import FLOAT32, INT32, INT64, UINT32, Type
from tvm_vision.vulkan.codegen.glsl.vector import (
    Code,
    Value,
    broadcast,
    construct,
    infix,
    lanewise,
    pack,
    partwise,
    unpack,
    widths,
)

Rule = Callable[[NarrowingPrinter, list[Value], Type], Value]


def _native(name: str) -> Rule:
    """A built-in of all float types and widths."""

    def rule(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
        return partwise(of, lambda w, *parts: Code(f"{name}({', '.join(parts)})"), *args)

    return rule


def _function(name: str) -> Rule:
    """A function of floats; float16 goes through float32, which has the precision to spare."""

    def rule(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
        kind = args[0].type
        if kind.kind != "float":
            raise UnsupportedKernelError(
                f"kernel {printer.kernel}: {name} of {kind} has no form: cast to a float type"
            )
        if kind.bits == 16:
            wide = [_widen(printer, value) for value in args]
            result = FLOAT32.with_lanes(of.lanes) if of.kind == "float" else of
            return printer.convert(rule(printer, wide, result), of)
        helper = printer.prelude.function(name, kind.scalar)
        if helper is None:
            return partwise(of, lambda w, *parts: Code(f"{name}({', '.join(parts)})"), *args)
        if of.lanes > 1:
            args = [printer.atomic(value) for value in args]
        return lanewise(of, lambda *parts: Code(f"{helper}({', '.join(parts)})"), *args)

    return rule


def _widen(printer: NarrowingPrinter, value: Value) -> Value:
    if value.type.kind == "float":
        return printer.convert(value, FLOAT32.with_lanes(value.type.lanes))
    return value


def _integer_helper(name: str) -> Rule:
    def rule(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
        kind = args[0].type
        if not kind.is_integer:
            raise UnsupportedKernelError(
                f"kernel {printer.kernel}: {name} needs an integer, got {kind}"
            )
        function = printer.prelude.call(name, kind.scalar)
        value = printer.atomic(args[0]) if of.lanes > 1 else args[0]
        result = kind if name == "popcount" else INT32.with_lanes(kind.lanes)
        counted = lanewise(result, lambda x: Code(f"{function}({x})"), value)
        return printer.convert(counted, of)

    return rule


def _abs(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    if of.kind == "uint":
        return args[0]
    return _native("abs")(printer, args, of)


def _pow(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    """Squares and square roots, by far the most frequent powers, without a logarithm."""
    base, exponent = args
    scalar = of.scalar
    for value, rule in ((2.0, None), (0.5, "sqrt"), (-0.5, "inversesqrt")):
        if exponent.parts == broadcast(of, types.literal(value, scalar)).parts:
            if rule is not None:
                return _native(rule)(printer, [base], of)
            base = printer.atomic(base)
            return partwise(of, lambda w, x: infix("*", x, x), base)
    return _function("pow")(printer, args, of)


def _nextafter(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    if of.bits == 16:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: nextafter of float16 has no form: cast to float32"
        )
    return _function("nextafter")(printer, args, of)


def _ldexp(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    exponent = printer.convert(args[1], INT32.with_lanes(of.lanes))
    return _function("ldexp")(printer, [args[0], exponent], of)


def _identity(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    return args[0]


def _multiply_shift(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    """x y 2^(s - q), rounded half up: arguments x, y, q, s."""
    wide = INT64.with_lanes(of.lanes)
    x, y, q, s = (printer.atomic(value) for value in args)
    lanes = []
    for i in range(of.lanes):
        left, right = f"max({s.lane(i)}, 0)", f"(max(-{s.lane(i)}, 0) + {q.lane(i)})"
        product = f"(int64_t({x.lane(i)}) << {left}) * int64_t({y.lane(i)})"
        lanes.append(Code(f"int(({product} + (1l << ({right} - 1))) >> {right})"))
    printer.requirements.value(wide.scalar)
    return construct(of, lanes)


def _dot(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    """dp4a: four byte products added to an accumulator (zero when absent)."""
    words = []
    for value in args[:2]:
        signed = value.type.kind == "int"
        if value.type.lanes == 4:
            packed = INT32 if signed else UINT32
            words.append(reinterpret(printer, [value], packed).text)
        else:
            words.append(value.text)
    start = args[2].text if len(args) > 2 else types.literal(0, of)
    kind = args[0].type.kind
    function = printer.prelude.call("dp4a", INT32 if kind == "int" else UINT32)
    accumulator = start if of.kind == kind else f"{'uint' if kind == 'uint' else 'int'}({start})"
    text = Code(f"{function}({words[0]}, {words[1]}, {accumulator})")
    return printer.convert(Value(INT32 if kind == "int" else UINT32, [text]), of)


def _half(high: bool) -> Rule:
    def rule(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
        value = printer.atomic(args[0])
        first = of.lanes if high else 0
        return construct(of, [value.lane(first + i) for i in range(of.lanes)])

    return rule


def _combine(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    low, high = printer.atomic(args[0]), printer.atomic(args[1])
    lanes = [low.lane(i) for i in range(low.type.lanes)]
    return construct(of, lanes + [high.lane(i) for i in range(high.type.lanes)])


_TO_BITS = {32: "floatBitsTo{}", 64: "doubleBitsTo{}64", 16: "float16BitsTo{}16"}
_FROM_BITS = {32: "{}BitsToFloat", 64: "{}64BitsToDouble", 16: "{}16BitsToHalf"}


def reinterpret(printer: NarrowingPrinter, args: list[Value], of: Type) -> Value:
    """The same bits under another type of the same total size."""
    value = args[0]
    source = value.type
    if source == of:
        return value
    if source.bits == of.bits and source.lanes == of.lanes:
        if source.kind == of.kind or "bool" in (source.kind, of.kind):
            return printer.convert(value, of)
        name = None
        if source.kind == "float":
            name = _TO_BITS[source.bits].format("Int" if of.kind == "int" else "Uint")
        elif of.kind == "float":
            name = _FROM_BITS[of.bits].format("int" if source.kind == "int" else "uint")
        if name is None:
            return printer.convert(value, of)
        if of.bits != 32:
            printer.requirements.value(Type("int", of.bits))
        return partwise(of, lambda w, x: Code(f"{name}({x})"), value)
    if source.is_integer and (source.bits, source.lanes, of.bits) == (8, 4, 32):
        return reinterpret(printer, [pack(value)], of)
    if of.is_integer and (of.bits, of.lanes, source.bits) == (8, 4, 32):
        word = reinterpret(printer, args, Type(of.kind, 32))
        return unpack(word, of)
    if source.bits * source.lanes != of.bits * of.lanes or 64 < source.bits * source.lanes:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: reinterpret of {source} as {of} has no form in a shader"
        )
    return _repack(printer, value, of)


def _repack(printer: NarrowingPrinter, value: Value, of: Type) -> Value:
    """Bits across lanes of different width, through one unsigned word."""
    source = value.type
    total = source.bits * source.lanes
    word = Type("uint", max(total, 32))
    lanes = reinterpret(printer, [value], Type("uint", source.bits, source.lanes))
    lanes = printer.atomic(lanes)
    text: str = ""
    for i in range(source.lanes):
        piece: str = Code(f"{types.name(word)}({lanes.lane(i)})")
        piece = infix("<<", piece, str(i * source.bits)) if i else piece
        text = infix("|", text, piece) if i else piece
    printer.requirements.value(word)
    whole = printer.atom_text(text, word)
    piece_type = Type("uint", of.bits)
    printer.requirements.value(piece_type)
    pieces = []
    for i in range(of.lanes):
        shifted = infix(">>", whole, str(i * of.bits)) if i else whole
        pieces.append(Code(f"{types.name(piece_type)}({shifted})"))
    bits = construct(piece_type.with_lanes(of.lanes), pieces)
    return reinterpret(printer, [bits], of)


_FLOAT_FUNCTIONS = """exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
tanh asinh acosh atanh erf sigmoid atan2 fmod hypot copysign isnan isinf isfinite""".split()
RULES: dict[str, Rule] = {
    **{name: _function(name) for name in _FLOAT_FUNCTIONS},
    "pow": _pow,
    "nextafter": _nextafter,
    "ldexp": _ldexp,
    "sqrt": _native("sqrt"),
    "rsqrt": _native("inversesqrt"),
    "floor": _native("floor"),
    "ceil": _native("ceil"),
    "trunc": _native("trunc"),
    # LLVM rounds TVM's round and nearbyint alike: half to even.
    "round": _native("roundEven"),
    "nearbyint": _native("roundEven"),
    "fabs": _abs,
    "abs": _abs,
    "fma": _native("fma"),
    "popcount": _integer_helper("popcount"),
    "clz": _integer_helper("clz"),
    "likely": _identity,
    "tvm_thread_invariant": _identity,
    "reinterpret": reinterpret,
    "q_multiply_shift": _multiply_shift,
    "dp4a": _dot,
    "__dp4a": _dot,
    "vectorlow": _half(False),
    "vectorhigh": _half(True),
    "vectorcombine": _combine,
}
EXTERNS = ("tirx.call_pure_extern", "tirx.call_extern")


def apply(printer: NarrowingPrinter, name: str, args: list[Value], of: Type) -> Value:
    """The value of a named operator.

    Raises:
        UnsupportedKernelError: no rule of that name, or a type the rule does not take.
    """
    rule = RULES.get(name)
    if rule is None:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: operator {name} has no form in a Vulkan shader"
        )
    return rule(printer, args, of)


def called_function_advice(name: str) -> str:
    """What to do about a function that a kernel calls. TVM's InlinePrivateFunctions leaves those
    that return a value as they are."""
    return (
        f"a kernel calls no functions on Vulkan, so {name} has to become a part of it: write it as "
        "a plain Python function or as a T.macro, which TVMScript puts in place of each call"
    )


def call(printer: NarrowingPrinter, node: Any) -> Value:
    """A call node: an operator of the table, a C function, a subgroup operation, an atomic."""
    name = operator_name(node)
    if not name:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: calls a function: "
            + called_function_advice(getattr(node.op, "name_hint", str(node.op)))
        )
    if called(node) in ATOMICS:
        return _atomic(printer, node)
    if name in EXTERNS:
        return _extern(printer, node)
    if name in SHUFFLES:
        return _shuffle(printer, name, node)
    if name == "tirx.large_uint_imm" or name == "prim.large_uint_imm":
        low, high = (int(a.value) for a in node.args)
        of = type_of(node)
        return Value(of, [Code(types.literal(low | high << 32, of))])
    short = name.split(".")[-1]
    if short == "ctpop":
        short = "popcount"
    if short not in RULES:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: operator {name} has no form in a Vulkan shader"
        )
    return RULES[short](printer, [printer.visit(a) for a in node.args], type_of(node))


def _extern(printer: NarrowingPrinter, node: Any) -> Value:
    """A C function by its name: "expf" of float, "exp" of double, "__dp4a"."""
    symbol = node.args[0].value
    of = type_of(node)
    name = symbol
    if name not in RULES and name.endswith("f") and name[:-1] in RULES:
        name = name[:-1]
    if name not in RULES:
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: calls the external function {symbol}, "
            "and a Vulkan shader cannot call code from outside"
        )
    return RULES[name](printer, [printer.visit(a) for a in list(node.args)[1:]], of)


def _shuffle(printer: NarrowingPrinter, name: str, node: Any) -> Value:
    """Reads of other threads' values within a subgroup; arguments mask, value, lane, width, size.

    As in CUDA, a subgroup falls into segments of ``width`` lanes, and a lane without a partner in
    its segment keeps its own value.
    """
    printer.subgroup_extensions.add("GL_KHR_shader_subgroup_basic")
    if name.endswith("activemask"):
        printer.subgroup_extensions.add("GL_KHR_shader_subgroup_ballot")
        return Value(UINT32, [Code("subgroupBallot(true).x")])
    printer.subgroup_extensions.add("GL_KHR_shader_subgroup_shuffle")
    value = printer.visit(node.args[1])
    other = printer.scalar(node.args[2])
    width, size = node.args[3], node.args[4]
    if not (isinstance(width, prim.IntImm) and isinstance(size, prim.IntImm)):
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: a shuffle needs a constant width and subgroup size"
        )
    printer.require_subgroup(int(size.value))
    value = printer.atomic(value)
    mask = f"{int(width.value) - 1}u"
    me = "gl_SubgroupInvocationID"
    other = printer.atom_text(Code(f"uint({other})"), UINT32)
    if name.endswith("_up"):
        lane = f"{me} - (({me} & {mask}) >= {other} ? {other} : 0u)"
    elif name.endswith("_down"):
        lane = f"{me} + (({me} & {mask}) + {other} <= {mask} ? {other} : 0u)"
    elif name.endswith("_xor"):
        lane = f"{me} ^ {other}"
    else:
        lane = f"({me} & ~{mask}) | ({other} & {mask})"
    chosen = printer.temporary(lane, UINT32, "lane")
    # A shuffle inside a larger expression could end up in a branch: it gets a statement of its own.
    shuffled = partwise(value.type, lambda w, x: f"subgroupShuffle({x}, {chosen})", value)
    names = []
    for part, lanes in zip(shuffled.parts, widths(value.type.lanes), strict=True):
        names.append(printer.temporary(part, value.type.with_lanes(lanes), "shuffled"))
    if value.type.bits != 32:
        printer.subgroup_extensions.add(
            f"GL_EXT_shader_subgroup_extended_types_{_extended(value.type)}"
        )
    return Value(value.type, names)


def _extended(of: Type) -> str:
    if of.kind == "float":
        return "float16" if of.bits == 16 else "int64"
    return f"int{of.bits}"


def _atomic(printer: NarrowingPrinter, node: Any) -> Value:
    """Changes an element by a value and gives the old one; the last arguments: address, value."""
    name = called(node)
    address, by = node.args[-2:]
    target = address.args[0]
    of = printer.analysis.element(target.source)
    storage, array, index = printer.memory.address(target.source, target.indices[0])
    value = printer.convert(printer.visit(by), of)
    place = f"{array}[{index}]" if storage.size != 1 or storage.kind == "buffer" else array
    if of.is_integer and of.bits == 32:
        function = "atomicAdd" if name == ATOMIC_ADD else "atomicMax"
        text = f"{function}({place}, {value.text})"
    elif name == ATOMIC_ADD and of == FLOAT32 and place != array:
        function = printer.prelude.atomic_add_float(array, of)
        text = f"{function}(uint({index}), {value.text})"
    else:
        short, floats = name.split(".")[-1], " and float32" if name == ATOMIC_ADD else ""
        raise UnsupportedKernelError(
            f"kernel {printer.kernel}: {short} of {of} has no form in a Vulkan shader: "
            f"int32, uint32{floats} have"
        )
    old = printer.names.unique("old")
    printer.emit(f"{types.name(of)} {old} = {text};")
    return Value(of, [old])
