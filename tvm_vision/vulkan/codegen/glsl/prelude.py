"""Helper functions that a kernel's GLSL brings along: integer semantics, bits, atomics, math.

A kernel asks for ``function("floordiv", INT32)`` and gets the name to call; the texts it asked for,
and those they call in turn, are printed once, in order of need.
"""

from __future__ import annotations

import re

from tvm_vision.vulkan.codegen.glsl import types
from tvm_vision.vulkan.codegen.glsl.float import DOUBLE, SHARED, SINGLE
from tvm_vision.vulkan.codegen.glsl.types import FLOAT32, FLOAT64, UINT32, Type

_NUMBER = re.compile(r"(?<![\w.])(\d+\.\d+(?:[eE][-+]?\d+)?)(?![\w.])")
_CALL = re.compile(r"@(\w+)\(")

# GLSL's % and / round as in C for /, and are undefined for negative operands of %.
SIGNED = {
    "floordiv": """
T tv_floordiv(T a, T b) {
  T q = a / b;
  T r = a - q * b;
  return r != T(0) && (r < T(0)) != (b < T(0)) ? q - T(1) : q;
}""",
    "floormod": """
T tv_floormod(T a, T b) {
  T r = a - a / b * b;
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}""",
    "truncmod": """
T tv_truncmod(T a, T b) {
  return a - a / b * b;
}""",
}
_BITS = {  # bits of the type: (count of ones, count of leading zeros), of the unsigned x
    8: ("bitCount(uint(x) & 255u)", "23 - findMSB(uint(x) & 255u) - 16"),
    16: ("bitCount(uint(x) & 65535u)", "31 - findMSB(uint(x) & 65535u) - 16"),
    32: ("bitCount(x)", "31 - findMSB(uint(x))"),
    64: (
        "bitCount(uint(x)) + bitCount(uint(x >> 32))",
        "uint(x >> 32) != 0u ? 31 - findMSB(uint(x >> 32)) : 63 - findMSB(uint(x))",
    ),
}

# Byte-wise products of two packed words: for devices without an integer dot product.
DOT_PRODUCT = {
    "int": """
int tv_dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += bitfieldExtract(a, i, 8) * bitfieldExtract(b, i, 8);
  return c;
}""",
    "uint": """
uint tv_dp4a(uint a, uint b, uint c) {
  for (int i = 0; i < 32; i += 8) c += bitfieldExtract(a, i, 8) * bitfieldExtract(b, i, 8);
  return c;
}""",
}

# And for those with one. The version of glslang that is pinned knows the instruction by its number
# alone; the numbers of its capabilities tell the runtime which feature the shader needs.
_DOT_INSTRUCTION = """
spirv_instruction(
  extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = NUMBER)
T tv_dot(T a, T b, spirv_literal int packed);

T tv_dp4a(T a, T b, T c) {
  return tv_dot(a, b, 0) + c;
}"""
DOT_INSTRUCTION = {
    "int": _DOT_INSTRUCTION.replace("NUMBER", "4450"),  # OpSDot
    "uint": _DOT_INSTRUCTION.replace("NUMBER", "4451"),  # OpUDot
}


class Prelude:
    """The helper functions that one kernel uses."""

    def __init__(self, requirements: types.Requirements) -> None:
        self._requirements = requirements
        self._texts: dict[tuple[str, Type], str] = {}

    def text(self) -> str:
        """All functions asked for, each after those it calls."""
        return "".join(text.strip("\n") + "\n\n" for text in self._texts.values())

    def function(self, name: str, of: Type) -> str | None:
        """The name to call for a helper of a scalar type, None where GLSL's own serves."""
        source = self._source(name, of)
        if source is None:
            return None
        if (name, of) not in self._texts:
            self._requirements.value(of)
            self._add(name, of, source)
        return f"tv_{name}"

    def call(self, name: str, of: Type) -> str:
        """The name to call for a function of a scalar type: a helper, else the built-in."""
        return self.function(name, of) or name

    def _add(self, name: str, of: Type, source: str) -> None:
        def resolve(match: re.Match) -> str:
            return self.call(match.group(1), of) + "("

        text = _CALL.sub(resolve, source)
        text = re.sub(r"\bT\b", types.name(of), text)
        if of == FLOAT64:
            text = _NUMBER.sub(r"\1lf", text)
        self._texts[name, of] = text

    def _source(self, name: str, of: Type) -> str | None:
        if of == FLOAT32:
            return SINGLE.get(name) or SHARED.get(name)
        if of == FLOAT64:
            return DOUBLE.get(name) or SHARED.get(name)
        if name == "dp4a":
            if self._requirements.dot_product():
                return DOT_INSTRUCTION[of.kind]
            return DOT_PRODUCT[of.kind]
        if of.kind == "int" and name in SIGNED:
            return SIGNED[name]
        if of.is_integer and name in ("popcount", "clz"):
            body = _BITS[of.bits][name == "clz"]
            result = "T" if name == "popcount" else "int"
            return f"\n{result} tv_{name}(T x) {{\n  return {result}({body});\n}}"
        return None

    def atomic_add_float(self, array: str, of: Type) -> str:
        """A function ``(index, value)`` that adds to a float seen as a word of ``array``.

        Returns the old value. A compare-and-swap loop: GLSL's own needs an extension of the device.
        """
        name = f"tv_atomic_add_{array}"
        self._texts[name, UINT32] = f"""
float {name}(uint at, float value) {{
  uint seen = {array}[at];
  while (true) {{
    uint old = atomicCompSwap({array}[at], seen, floatBitsToUint(uintBitsToFloat(seen) + value));
    if (old == seen) return uintBitsToFloat(old);
    seen = old;
  }}
  return 0.0;
}}"""
        return name
