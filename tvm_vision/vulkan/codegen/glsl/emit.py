"""Lines of GLSL under construction: nested blocks, names, temporaries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.types import Type
from tvm_vision.vulkan.codegen.glsl.vector import Value, is_atom, widths

_WORD = re.compile(r"[A-Za-z_]\w*")
_CONSTANT = re.compile(r"const \w+ (\w+) = [^;]*;")
_RESERVED = set(
    """active all any asm atomic atomic_uint attribute barrier bool break buffer bvec2 bvec3 bvec4
    case cast centroid class coherent common const continue default demote discard dmat2 dmat3 dmat4
    do double dvec2 dvec3 dvec4 else enum equal exp exp2 extern external false filter fixed flat
    float floor for fract fvec2 fvec3 fvec4 goto greaterThan greaterThanEqual half highp hvec2 hvec3
    hvec4 if image in inline inout input int interface invariant inversesqrt ivec2 ivec3 ivec4
    layout lessThan lessThanEqual log log2 long lowp main mat2 mat3 mat4 max mediump min mix mod
    namespace noinline noperspective not notEqual out output packed partition patch pow precise
    precision public readonly resource restrict return round roundEven sample sampler shared short
    sign sin cos sizeof sizeof smooth sqrt static struct subroutine superp switch template texture
    this true trunc typedef uint uniform union unsigned using uvec2 uvec3 uvec4 varying vec2 vec3
    vec4 void volatile while workgroupcoherent writeonly abs ceil clamp dot length step texture
    isnan isinf fma ldexp bitCount findMSB""".split()
)


class Names:
    """Legal GLSL identifiers, each given out once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, wanted: str) -> str:
        """``wanted``, made legal and, by a number at its end, unique."""
        base = re.sub(r"_+", "_", re.sub(r"\W", "_", wanted, flags=re.ASCII)).strip("_")
        if not base or base[0].isdigit() or base in _RESERVED or base.startswith(("gl_", "tv_")):
            base = f"v_{base}".rstrip("_")
        found, number = base, 0
        while found in self._used:
            number += 1
            found = f"{base}_{number}"
        self._used.add(found)
        return found


class Slot(list):
    """Lines filled in later, at the indentation of where they stand."""


class Emitter:
    """Statements of one function as nested lists: a list within a list is an indented block."""

    def __init__(self) -> None:
        self.names = Names()
        self.body: list = []
        self.statements = 0  # lines so far, those of an unrolled loop once for every round
        self._stack = [self.body]

    def emit(self, line: str | list) -> None:
        """Writes one line, or lines captured before as an indented block."""
        self._stack[-1].append(line)
        self.statements += isinstance(line, str)

    def slot(self) -> Slot:
        """A place for declarations that are known only after what follows."""
        found = Slot()
        self._stack[-1].append(found)
        return found

    @contextmanager
    def capture(self) -> Iterator[list]:
        """Collects what is emitted inside instead of writing it."""
        lines: list = []
        self._stack.append(lines)
        try:
            yield lines
        finally:
            self._stack.pop()

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head {`` ... ``}``."""
        self.emit(f"{head} {{")
        with self.capture() as lines:
            yield
        self._stack[-1].append(lines)
        self.emit("}")

    def temporary(self, text: str, of: Type, hint: str = "t") -> str:
        """Names the value of an expression of up to four lanes."""
        name = self.names.unique(hint)
        self.emit(f"const {types.name(of)} {name} = {text};")
        return name

    def atom_text(self, text: str, of: Type) -> str:
        """The text itself if it is cheap to repeat, else the name of a temporary."""
        return text if is_atom(text) else self.temporary(text, of)

    def atomic(self, value: Value) -> Value:
        """The same value with parts that are cheap to repeat."""
        parts = [
            self.atom_text(part, value.type.with_lanes(width))
            for part, width in zip(value.parts, widths(value.type.lanes), strict=True)
        ]
        return Value(value.type, parts)

    def declare(self, of: Type, hint: str) -> Value:
        """Declares a variable of any number of lanes, to be assigned later."""
        parts = []
        for width in widths(of.lanes):
            name = self.names.unique(hint)
            self.emit(f"{types.name(of.with_lanes(width))} {name};")
            parts.append(name)
        return Value(of, parts)

    def assign(self, target: Value, value: Value) -> None:
        for name, part in zip(target.parts, value.parts, strict=True):
            self.emit(f"{name} = {part};")

    def text(self) -> str:
        """All lines, indented, without the constants nobody uses."""
        lines = list(_flatten(self.body, 1))
        while True:
            used = Counter(word for line in lines for word in _WORD.findall(line))
            kept = []
            for line in lines:
                constant = _CONSTANT.fullmatch(line.strip())
                if constant is None or used[constant.group(1)] > 1:
                    kept.append(line)
            if len(kept) == len(lines):
                return "\n".join(lines)
            lines = kept


def _flatten(lines: list, depth: int) -> Iterator[str]:
    for line in lines:
        if isinstance(line, Slot):
            yield from _flatten(line, depth)
        elif isinstance(line, list):
            yield from _flatten(line, depth + 1)
        else:
            yield "  " * depth + line
