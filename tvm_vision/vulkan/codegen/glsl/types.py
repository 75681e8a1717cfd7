"""Scalar and vector types: TVM dtype to GLSL name, literal, extension and device feature."""

from __future__ import annotations

import math
import re
import struct
from functools import cache
from typing import NamedTuple

from tvm_vision.errors import UnsupportedKernelError


class Type(NamedTuple):
    """A TVM data type: kind ("int", "uint", "float", "bool"), bits of a lane, number of lanes."""

    kind: str
    bits: int
    lanes: int = 1

    def with_lanes(self, lanes: int) -> Type:
        return Type(self.kind, self.bits, lanes)

    @property
    def scalar(self) -> Type:
        return Type(self.kind, self.bits, 1)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def storage_bytes(self) -> int:
        """Bytes of one lane in a buffer (a bool takes one)."""
        return max(self.bits // 8, 1)

    def __str__(self) -> str:
        name = "bool" if self.kind == "bool" else f"{self.kind}{self.bits}"
        return name if self.lanes == 1 else f"{name}x{self.lanes}"


BOOL = Type("bool", 1)
INT8 = Type("int", 8)
INT32 = Type("int", 32)
INT64 = Type("int", 64)
UINT8 = Type("uint", 8)
UINT32 = Type("uint", 32)
UINT64 = Type("uint", 64)
FLOAT16 = Type("float", 16)
FLOAT32 = Type("float", 32)
FLOAT64 = Type("float", 64)
# What buffers can hold, on some devices, that cannot be computed with.
SMALL = (INT8, UINT8, Type("int", 16), Type("uint", 16), FLOAT16)


class _Scalar(NamedTuple):
    """How GLSL spells one scalar type and what using it takes."""

    name: str
    vector: str  # prefix of "vecN"
    extension: str = ""
    attribute: str = ""  # target attribute that says whether the device has it
    feature: str = ""  # Vulkan feature behind that attribute


_ARITHMETIC = "GL_EXT_shader_explicit_arithmetic_types_"
_SCALARS = {
    ("bool", 1): _Scalar("bool", "b"),
    ("int", 8): _Scalar("int8_t", "i8", _ARITHMETIC + "int8", "supports_int8", "shaderInt8"),
    ("uint", 8): _Scalar("uint8_t", "u8", _ARITHMETIC + "int8", "supports_int8", "shaderInt8"),
    ("int", 16): _Scalar("int16_t", "i16", _ARITHMETIC + "int16", "supports_int16", "shaderInt16"),
    ("uint", 16): _Scalar(
        "uint16_t", "u16", _ARITHMETIC + "int16", "supports_int16", "shaderInt16"
    ),
    ("int", 32): _Scalar("int", "i"),
    ("uint", 32): _Scalar("uint", "u"),
    ("int", 64): _Scalar("int64_t", "i64", _ARITHMETIC + "int64", "supports_int64", "shaderInt64"),
    ("uint", 64): _Scalar(
        "uint64_t", "u64", _ARITHMETIC + "int64", "supports_int64", "shaderInt64"
    ),
    ("float", 16): _Scalar(
        "float16_t", "f16", _ARITHMETIC + "float16", "supports_float16", "shaderFloat16"
    ),
    ("float", 32): _Scalar("float", ""),
    ("float", 64): _Scalar("double", "d", "", "supports_float64", "shaderFloat64"),
}
_STORAGE = {  # bits of a lane: (extension, target attribute, Vulkan feature)
    8: ("GL_EXT_shader_8bit_storage", "supports_8bit_buffer", "storageBuffer8BitAccess"),
    16: ("GL_EXT_shader_16bit_storage", "supports_16bit_buffer", "storageBuffer16BitAccess"),
}


@cache
def parse(dtype: str) -> Type:
    """Reads a TVM dtype string such as "float16x4".

    Raises:
        UnsupportedKernelError: a type that no Vulkan shader has (bfloat16, float8, handle, ...).
    """
    match = re.fullmatch(r"(bool|u?int\d+|float\d+)(?:x(\d+))?", dtype)
    if match:
        name, lanes = match.group(1), int(match.group(2) or 1)
        if name == "bool":
            return Type("bool", 1, lanes)
        kind = name.rstrip("0123456789")
        bits = int(name[len(kind) :])
        if (kind, bits) in _SCALARS:
            return Type(kind, bits, lanes)
    raise UnsupportedKernelError(
        f"type {dtype} has no form in a Vulkan shader: cast to float32, float16 or an integer type "
        "before building for vulkan"
    )


def name(of: Type) -> str:
    """The GLSL name; lanes 1 to 4."""
    spelled = _SCALARS[of.kind, of.bits]
    return spelled.name if of.lanes == 1 else f"{spelled.vector}vec{of.lanes}"


def storage(of: Type) -> Type:
    """The type a buffer holds: a bool lies there as a byte of 0 or 1."""
    return Type("uint", 8, of.lanes) if of.kind == "bool" else of


def attribute_of(of: Type) -> str:
    """The target's attribute that says whether a scalar can be computed with; "" for all can."""
    return _SCALARS[of.kind, of.bits].attribute


def stored_only(attributes: dict) -> frozenset[Type]:
    """The small types that a target says it has buffers of, and cannot compute with."""

    def says_no(attribute: str) -> bool:
        found = attributes.get(attribute)
        return found is not None and not found

    return frozenset(
        of for of in SMALL if says_no(attribute_of(of)) and not says_no(_STORAGE[of.bits][1])
    )


class Requirements:
    """Collects the GLSL extensions of one kernel and refuses what the target lacks.

    A feature counts as missing only where the target says so: a target without the attribute (a
    bare {"kind": "vulkan"}) is a promise of nothing, and the runtime checks the capabilities of
    every shader again, against the device it is loaded on.
    Small types that a target has buffers of, and no arithmetic, are only loaded, stored and
    converted (legalize_types.py).
    """

    def __init__(self, kernel: str, target_attributes: dict) -> None:
        self.kernel = kernel
        self.extensions: set[str] = set()
        self._attributes = target_attributes
        self._stored_only = stored_only(target_attributes)

    def value(self, of: Type) -> None:
        """A value of this type is computed with."""
        if of.scalar in self._stored_only:
            return
        spelled = _SCALARS[of.kind, of.bits]
        if spelled.extension:
            self.extensions.add(spelled.extension)
        self._need(of, spelled.attribute, spelled.feature)

    def buffer(self, of: Type) -> None:
        """A storage buffer holds elements of this type."""
        extension, attribute, feature = _STORAGE.get(storage(of).bits, ("", "", ""))
        if extension:
            self.extensions.add(extension)
        self._need(of, attribute, feature)

    def dot_product(self) -> bool:
        """Whether the target says that it has the dot product of bytes; then it is asked for."""
        if not self._attributes.get("supports_integer_dot_product"):
            return False
        self.extensions.add("GL_EXT_spirv_intrinsics")
        return True

    def _need(self, of: Type, attribute: str, feature: str) -> None:
        found = self._attributes.get(attribute) if attribute else None
        if found is not None and not found:
            raise UnsupportedKernelError(
                f"kernel {self.kernel}: type {of.scalar} needs the Vulkan feature {feature}, "
                f"which the target says is missing ({attribute} is false): use another type or "
                "another device"
            )


def integer_literal(value: int, of: Type) -> str:
    """A constant of an integer or bool type, wrapped to its width."""
    if of.kind == "bool":
        return "true" if value else "false"
    value &= (1 << of.bits) - 1
    if of.kind == "uint":
        if of.bits == 64:
            return f"{value}ul"
        return f"{value}u" if of.bits == 32 else f"{name(of.scalar)}({value}u)"
    if value >= 1 << (of.bits - 1):
        value -= 1 << of.bits
    if of.bits == 32:
        return "int(0x80000000u)" if value == -(1 << 31) else str(value)
    if of.bits == 64:
        return "int64_t(0x8000000000000000ul)" if value == -(1 << 63) else f"{value}l"
    return f"{name(of.scalar)}({value})"


def float_literal(value: float, of: Type) -> str:
    """A constant of a floating-point type; not-a-number and infinity by their bits."""
    if of.bits == 64:
        if math.isfinite(value):
            return f"{value!r}lf"
        low, high = struct.unpack("<II", struct.pack("<d", value))
        return f"packDouble2x32(uvec2({low:#x}u, {high:#x}u))"
    if of.bits == 16:
        try:
            struct.pack("<e", value)
        except OverflowError:
            value = math.copysign(math.inf, value)
        if math.isfinite(value):
            return f"float16_t({value!r})"
        return f"float16_t({float_literal(value, FLOAT32)})"
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    if bits & 0x7F800000 == 0x7F800000:
        return f"uintBitsToFloat({bits:#x}u)"
    return _shortest(value)


def _shortest(value: float) -> str:
    """The fewest digits that still give the same 32-bit number."""
    target = struct.pack("<f", value)
    for digits in range(6, 18):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == target:
            break
    return text if any(c in text for c in ".en") else text + ".0"


def literal(value: int | float, of: Type) -> str:
    """A scalar constant of any type."""
    if of.kind == "float":
        return float_literal(float(value), of)
    return integer_literal(int(value), of)
