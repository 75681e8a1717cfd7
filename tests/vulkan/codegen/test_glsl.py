"""The generated GLSL: golden texts, properties of the text, messages for what has no form.

TVM_VISION_UPDATE_GOLDEN=1 rewrites the golden files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi
from tvm.ir.prim import expr as prim
from tvm.script import tirx as T

from support import lowering
from support.tir_kernels import argmax, scan, shared_dynamic
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.vulkan.codegen import build, spirv
from tvm_vision.vulkan.codegen.glsl.emit import Names

GOLDEN = Path(__file__).with_name("golden")


def tensor(shape: tuple[int, ...], dtype: str = "float32", name: str = "A") -> Any:
    return te.placeholder(shape, dtype, name)


def scheduled(*tensors: Any) -> Any:
    return lowering.schedule(te.create_prim_func(list(tensors)), lowering.target())


def vectors() -> Any:
    return lowering.elementwise(
        lambda a, b: tirx.Select(a > b, a * b, te.exp(a)), ["float32", "float32"], 512, 8
    )


def bools() -> Any:
    return lowering.elementwise(lambda a, b: tirx.And(a, b < 3), ["bool", "int8"], 256, 4)


def softmax() -> Any:
    a = tensor((8, 100))
    return scheduled(a, topi.nn.softmax(a))


@T.prim_func(s_tir=True)
def dynamic(pa: T.handle, pb: T.handle, scale: T.float32, shift: T.int8):
    n = T.int64()
    a = T.match_buffer(pa, (n, 64), "float16")
    b = T.match_buffer(pb, (n, 64), "float32")
    for bx in T.thread_binding(n, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            b[bx, tx] = T.Cast("float32", a[bx, tx]) * scale + T.Cast("float32", shift)


KERNELS = {
    "vectors": vectors,
    "bools": bools,
    "softmax": softmax,
    "argmax": lambda: argmax,
    "scan": lambda: scan,
    "dynamic": lambda: dynamic,
    "shared_dynamic": lambda: shared_dynamic,
}


@pytest.mark.parametrize("name", KERNELS)
def test_golden_text(name: str) -> None:
    (kernel,) = lowering.kernels(KERNELS[name]())
    path = GOLDEN / f"{name}.comp"
    if os.environ.get("TVM_VISION_UPDATE_GOLDEN"):
        path.write_text(kernel.source)
    assert kernel.source == path.read_text()


def test_same_input_gives_the_same_text() -> None:
    first, second = lowering.kernels(softmax()), lowering.kernels(softmax())
    assert first == second


def test_index_arithmetic_needs_no_64_bits() -> None:
    """The int64 arg max that a driver miscompiles: only the store is 64 bits wide."""
    (kernel,) = lowering.kernels(argmax)
    wide = [line.strip() for line in kernel.source.splitlines() if "int64_t" in line]
    assert len(wide) == 2 and wide[1] == "v_out[0] = int64_t(at);", wide


def ends(compare: Callable[[Any, Any, Any], Any]) -> Any:
    """A scheduled PrimFunc: whether an index and two numbers of 32 bits compare."""
    ends = [te.placeholder((4,), "int32", name) for name in ("first", "second")]
    shape = [tirx.IntImm("int64", extent) for extent in (4, 6)]
    out = te.compute(
        shape,
        lambda row, i: compare(i, *(of[row].astype("int64") for of in ends)).astype("int8"),
    )
    return scheduled(*ends, out)


def wide(value: int) -> Any:
    return tirx.IntImm("int64", value)


# Written as TVM leaves them: it would bring a number to the other side.
COMPARED = {
    "n - i > 5": lambda i, n, m: prim.GT(prim.Sub(n, i), wide(5)),
    "5 < n + i": lambda i, n, m: prim.LT(wide(5), prim.Add(n, i)),
    "n + i = 5": lambda i, n, m: prim.EQ(prim.Add(n, i), wide(5)),
    "n + 2 i >= i + 6": lambda i, n, m: prim.GE(
        prim.Add(n, prim.Mul(wide(2), i)), prim.Add(i, wide(6))
    ),
    "i - n <= -2": lambda i, n, m: prim.LE(prim.Sub(i, n), wide(-2)),
    "n - m != 0": lambda i, n, m: prim.NE(prim.Sub(n, m), wide(0)),
    "n - m < i": lambda i, n, m: prim.LT(prim.Sub(n, m), i),  # of 33 bits
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_number_of_32_bits_among_indices_is_compared_in_32(name: str, device_info: Any) -> None:
    """Where there is one; numbers at the ends of 32 bits are compared right either way."""
    function = ends(COMPARED[name])
    (kernel,) = lowering.kernels(function)
    assert ("int64" in kernel.source) == (name == "n - m < i")
    if "int64" in kernel.source:  # drivers differ in what they make of these
        return
    numbers = np.array([[3, 5, 0x7FFFFFFF, -0x80000000], [3, 9, -0x80000000, 7]], np.int32)
    *_, found = lowering.execute(function, *numbers, np.zeros((4, 6), np.int8))
    n, m = (row.astype(np.int64)[:, None] for row in numbers)
    i = np.arange(6)
    wanted = {
        "n - i > 5": n - i > 5, "5 < n + i": 5 < n + i, "n + i = 5": n + i == 5,
        "n + 2 i >= i + 6": n + 2 * i >= i + 6, "i - n <= -2": i - n <= -2,
        "n - m != 0": n - m + 0 * i != 0,
    }[name]  # fmt: skip
    np.testing.assert_array_equal(found != 0, wanted)


def test_barriers_stand_outside_of_branches() -> None:
    """TVM puts barriers under threadIdx.x < 16; in GLSL they must not be."""
    (kernel,) = lowering.kernels(softmax())
    barriers = [line for line in kernel.source.splitlines() if "barrier();" in line]
    assert barriers
    assert set(barriers) == {"  barrier();"}


def test_loops_that_would_become_too_much_keep_their_rounds() -> None:
    """Inner loops over registers are still unrolled where those around them are not."""

    def loops(rounds: int) -> list[bool]:
        source = f"""
@T.prim_func(s_tir=True)
def rounds(out: T.Buffer(({rounds}, 32), "float32")):
    for tx in T.thread_binding(32, "threadIdx.x"):
        s = T.alloc_buffer(({rounds}, {rounds}, {rounds}), "float32", scope="local")
        for i in T.serial({rounds}):
            for j in T.serial({rounds}):
                for k in T.serial({rounds}):
                    s[i, j, k] = T.float32(1) + T.Cast("float32", i + j * k)
        for i in T.serial({rounds}):
            out[i, tx] = s[i, i, i]
"""
        (kernel,) = lowering.kernels(tvm.script.from_source(source))
        lines = kernel.source.splitlines()
        return ["[[unroll]]" in lines[at - 1] for at, line in enumerate(lines) if "for (" in line]

    assert loops(4) == [True] * 4
    assert loops(16) == [False, True, True, True]


def test_tree_reductions_need_no_barrier_between_reading_and_writing() -> None:
    (kernel,) = lowering.kernels(softmax())
    assert "kept" not in kernel.source
    (kernel,) = lowering.kernels(scan)
    assert "float kept_3;" in kernel.source and "kept_4" not in kernel.source


def test_interface_of_a_kernel() -> None:
    (kernel,) = lowering.kernels(dynamic)
    assert kernel.arg_types[:2] == ("handle", "handle")
    assert sorted(kernel.arg_types[2:]) == ["float32", "int64", "int8"]
    assert kernel.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    assert kernel.flags == 1 << 8  # folded: the grid is not constant
    assert "grid_z" in kernel.source


@pytest.mark.parametrize("blocks, folded", [(65535, False), (65536, True)])
def test_large_grids_are_folded(blocks: int, folded: bool) -> None:
    (kernel,) = lowering.kernels(lowering.elementwise(lambda a: a + 1, ["int32"], blocks * 32))
    assert bool(kernel.flags & 1 << 8) == folded
    assert ("gl_NumWorkGroups" in kernel.source) == folded


def test_many_scalars_go_to_a_uniform_buffer() -> None:
    names = [f"s{i}" for i in range(17)]
    lines = [
        "@T.prim_func(s_tir=True)",
        "def many(out: T.Buffer((32,), 'int32'), "
        + ", ".join(f"{n}: T.int32" for n in names)
        + "):",
        "    for tx in T.thread_binding(32, 'threadIdx.x'):",
        "        out[tx] = " + " + ".join(names),
    ]
    function = tvm.script.from_source("\n".join(lines))
    (kernel,) = lowering.kernels(function)
    assert kernel.flags & 1
    assert "layout(std140, set = 0, binding = 1) uniform Scalars" in kernel.source
    assert "layout(offset = 128) int s" in kernel.source


def test_read_and_write_qualifiers_are_exact() -> None:
    @T.prim_func(s_tir=True)
    def both(
        a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32"), c: T.Buffer((32,), "float32")
    ):
        for tx in T.thread_binding(32, "threadIdx.x"):
            b[tx] = b[tx] + a[tx]
            c[tx] = a[tx]

    (kernel,) = lowering.kernels(both)
    assert "readonly buffer a_block" in kernel.source
    assert re.search(r"\) buffer b_block", kernel.source)
    assert "writeonly buffer c_block" in kernel.source


def test_names_are_legal_and_unique() -> None:
    names = Names()
    wanted = ["a", "a", "a.b", "a__b", "gl_Position", "float", "1st", "main", "tv_exp", "_", "ü"]
    found = [names.unique(name) for name in wanted]
    assert len(set(found)) == len(found)
    for name in found:
        assert re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and "__" not in name
        assert not name.startswith(("gl_", "tv_")) and name not in ("float", "main")


def test_branch_not_taken_is_not_evaluated() -> None:
    """An out-of-range load behind if_then_else stays behind a branch in SPIR-V as well."""
    body = lambda i, a: te.if_then_else(i > 3, a[i - 4], 0.0)  # noqa: E731
    a = tensor((64,))
    out = te.compute((64,), lambda i: body(i, a), "out")
    (kernel,) = lowering.kernels(scheduled(a, out))
    text = spirv.disassemble(spirv.compile_glsl(kernel.source, name="k"))
    assert "OpBranchConditional" in text and "OpSelect " not in text


def test_dump_writes_source_and_binary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TVM_VISION_DUMP_SHADERS", str(tmp_path / "dump"))
    kernels = lowering.kernels(vectors())
    shaders = build.compile_kernels(kernels, lowering.target())
    build.module_of(kernels, shaders)
    name = kernels[0].name
    assert (tmp_path / "dump" / f"{name}.comp").read_text() == kernels[0].source
    assert (tmp_path / "dump" / f"{name}.spv").read_bytes() == shaders[name]


FEATURES = [  # what nothing else stands for: test_legalize_types.py has the others
    ("float16", "supports_16bit_buffer", "storageBuffer16BitAccess"),
    ("float64", "supports_float64", "shaderFloat64"),
]


@pytest.mark.parametrize("dtype, attribute, feature", FEATURES)
def test_missing_feature_is_named(dtype: str, attribute: str, feature: str) -> None:
    function = lowering.elementwise(lambda a: a, [dtype])
    with pytest.raises(UnsupportedKernelError) as caught:
        lowering.kernels(function, lowering.target(**{attribute: False}))
    message = str(caught.value)
    assert message.startswith("kernel main_kernel: ")
    assert f"type {dtype} " in message and feature in message and attribute in message


def test_target_that_says_nothing_is_trusted() -> None:
    function = lowering.elementwise(lambda a: a + a, ["float16"])
    assert lowering.kernels(function, tvm.target.Target({"kind": "vulkan"}))


def test_too_many_threads() -> None:
    function = lowering.elementwise(lambda a: a, ["int32"])
    with pytest.raises(UnsupportedKernelError, match=r"= 32 threads exceeds .* of 16"):
        lowering.kernels(function, lowering.target(max_threads_per_block=16))


def test_too_much_shared_memory() -> None:
    with pytest.raises(UnsupportedKernelError, match=r"needs 128 bytes .* target has 64"):
        lowering.kernels(scan, lowering.target(max_shared_memory_per_block=64))


def test_external_function() -> None:
    function = lowering.elementwise(
        lambda a: tirx.call_pure_extern("float32", "foo", a), ["float32"]
    )
    with pytest.raises(UnsupportedKernelError, match="external function foo"):
        lowering.kernels(function)


def test_operator_without_a_rule() -> None:
    function = lowering.elementwise(
        lambda a: tirx.call_intrin("int32", "tirx.isnullptr", a), ["int32"]
    )
    with pytest.raises(UnsupportedKernelError, match=r"operator tirx\.isnullptr has no form"):
        lowering.kernels(function)


def test_loop_with_a_barrier_and_bounds_that_differ() -> None:
    @T.prim_func(s_tir=True)
    def divergent(a: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            s = T.alloc_buffer((32,), "float32", scope="shared")
            for i in T.serial(tx):
                s[tx] = a[i]
                T.evaluate(T.tvm_storage_sync("shared"))
                a[i] = s[31 - tx]

    with pytest.raises(UnsupportedKernelError, match="barrier stands in the loop over i"):
        lowering.kernels(divergent)


def test_schedule_for_another_subgroup_size() -> None:
    @T.prim_func(s_tir=True)
    def shuffle(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            b[tx] = T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), a[tx], 1, 32, 32)

    (kernel,) = lowering.kernels(shuffle)
    assert kernel.flags >> 16 == 32
    with pytest.raises(UnsupportedKernelError, match="subgroups of 32 lanes, the target has 8"):
        lowering.kernels(shuffle, lowering.target(thread_warp_size=8))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("lanes, held", [(2, "8vec2"), (4, "nt"), (8, "vec2"), (16, "vec4")])
def test_bytes_lie_in_words(dtype: str, lanes: int, held: str) -> None:
    """Four or more bytes that are loaded or stored at once are words of 32 bits."""
    (kernel,) = lowering.kernels(lowering.elementwise(lambda a: a + a, [dtype], 256, lanes))
    kind = {"int8": "i", "uint8": "ui" if held == "nt" else "u"}[dtype]
    assert len(re.findall(rf"buffer \w+ {{ {kind}{held} ", kernel.source)) == 2
    assert ("GL_EXT_shader_8bit_storage" in kernel.source) == (lanes == 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8", "int16", "int32"])
def test_vectors_are_chosen_from_at_once(dtype: str) -> None:
    function = lowering.elementwise(
        lambda a, b: tirx.Select(a > b, a, b + b), [dtype, dtype], vector=4
    )
    (kernel,) = lowering.kernels(function)
    assert kernel.source.count("mix(") == 1
    assert "?" not in kernel.source
