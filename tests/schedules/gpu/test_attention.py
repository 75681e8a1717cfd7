"""Attention in one kernel: what is found in networks, and what it computes, against float64.

Matrices are emulated (support/emulated_matrices.py) in threads of 32, whatever a subgroup is: all
that threads share goes through barriers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm.s_tir import Schedule
from tvm.target import Target

from support.attention_forms import drawn, form_of, function_of
from support.compiled import MATRICES, MATRIX_GPU
from support.emulated_matrices import emulated, need_right_arrays
from support.lowering import HOST
from support.matrix_runs import LIMITS, printed, result
from support.schedule_runs import target
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.schedules.gpu import attention as schedules
from tvm_vision.schedules.gpu.attention import (
    AttentionTile,
    candidates,
    fits,
    schedule_attention,
)
from tvm_vision.schedules.templates import marked
from tvm_vision.topi.attention import FORM, AttentionForm
from tvm_vision.vulkan.codegen import build, spirv
from tvm_vision.vulkan.codegen.glsl.expressions import ExpressionPrinter

SMALL = dataclasses.replace(LIMITS, shared_bytes=32768)
TOLERANCE = 1e-3  # of the largest value: shares are rounded to 11 bits, results, too


# The last: whether loops are written out. All are small: llvmpipe ends a thread's loops after
# 65,535 rounds in all, with what was found until then.
CASES = [
    ((1, 2), 17, 33, 32, False, None, True),
    ((2, 3), 49, 49, 32, True, AttentionTile(4, 4), False),
    ((2,), 16, 16, 16, True, AttentionTile(1, 1), True),
    ((1, 2), 33, 70, 64, False, AttentionTile(1, 4), False),
    ((1, 1), 40, 120, 64, True, AttentionTile(2, 8), False),
    ((1, 1), 16, 40, 128, False, AttentionTile(1, 2), False),
    ((1, 1), 50, 16, 48, False, AttentionTile(2, 1), False),
    ((1, 2), 33, 160, 32, True, AttentionTile(2, 2, 5), False),
    ((1, 2), 20, 163, 64, True, AttentionTile(1, 4, 4), True),
    ((1, 1), 70, 176, 64, False, AttentionTile(4, 4, 3), False),
    ((1, 1), 70, 57, 32, True, AttentionTile(4, 8, 4), False),
    ((1, 1), 40, 601, 32, False, AttentionTile(1, 2, 7), False),
]


def test_the_last_of_them_is_what_many_heads_and_keys_get() -> None:
    assert candidates(form_of((2, 40), 40, 601, 32), SMALL)[0] == CASES[-1][5]


@pytest.mark.parametrize(("batch", "n", "m", "d", "masked", "tile", "unrolled"), CASES)
def test_attention_with_emulated_matrices(
    batch: tuple[int, ...],
    n: int,
    m: int,
    d: int,
    masked: bool,
    tile: AttentionTile | None,
    unrolled: bool,
    monkeypatch: pytest.MonkeyPatch,
    device_info: Any,
) -> None:
    need_right_arrays(device_info)
    if not unrolled:
        monkeypatch.setattr(schedules, "MOST_UNROLLED", 0)
    check(form_of(batch, n, m, d, masked), tile, monkeypatch)


@pytest.mark.parametrize(
    ("columns", "turned", "n"),
    [("q", False, 40), ("k", False, 40), ("v", True, 40), ("qkv", True, 56), ("qkv", True, 16)],
)
def test_factors_may_lie_by_columns(
    columns: str, turned: bool, n: int, monkeypatch: pytest.MonkeyPatch, device_info: Any
) -> None:
    """As channels before places do, and the result, too."""
    need_right_arrays(device_info)
    form = form_of((1, 2), n, 56, 32, columns=columns, turned=turned)
    assert candidates(form, SMALL)
    check(form, None, monkeypatch)


def test_a_turned_result_has_its_queries_in_fours() -> None:
    assert candidates(form_of((1, 2), 36, 48, 32, turned=True), LIMITS)
    assert not candidates(form_of((1, 2), 34, 48, 32, turned=True), LIMITS)


def test_rows_are_whole_while_all_workgroups_run_at_once() -> None:
    """Else in parts, which leave room for as many as there are. The order of times on an H200."""
    few, many = (candidates(form_of((1, heads), 197, 197, 64), LIMITS) for heads in (12, 48))
    assert few[0].parts_of_keys == 1
    assert many[0] == AttentionTile(2, 4, 4)
    assert {tile.parts_of_keys for tile in many} >= {1, 3, 4}


def check(form: AttentionForm, tile: AttentionTile | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the kernel, on emulated matrices, computes what float64 does."""
    print_kernels = build.print_kernels
    monkeypatch.setattr(
        build, "print_kernels", lambda *args: [emulated(k) for k in print_kernels(*args)]
    )
    monkeypatch.setattr(ExpressionPrinter, "require_subgroup", lambda self, size: None)
    function = marked(
        schedule_attention(Schedule(function_of(form, fp16=True)), SMALL, tile), SMALL
    )
    inputs, wanted = drawn(form, "float16")
    made_for = Target({**dict(target().attrs), "kind": "vulkan", **MATRICES}, host=HOST)
    found = result(function, inputs, form.shape, made_for)
    assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()


@pytest.mark.parametrize("tile", [AttentionTile(2, 4), AttentionTile(2, 4, 3)])
def test_attention_becomes_a_valid_shader(tile: AttentionTile) -> None:
    function = function_of(form_of((1, 2), 40, 130, 64), fp16=True)
    scheduled = schedule_attention(Schedule(function), LIMITS, tile)
    (shader,) = printed(marked(scheduled, LIMITS))
    assert ("for (int at" in shader.source) == (tile.parts_of_keys > 1)
    for environment in ("vulkan1.1", "vulkan1.3"):
        found = spirv.compile_glsl(shader.source, name=shader.name, target_env=environment)
        spirv.validate(found, environment)


def _network(turned_first: bool, masked: bool) -> Any:
    """Attention of three heads behind one product, as exporters write it."""
    batch, n, heads, d = 2, 17, 3, 16
    width = heads * d
    constants = {
        "w": np.ones((width, 3 * width), "float32"),
        "split": np.array([batch, n, 3, heads, d]),
        "joined": np.array([batch, n, width]),
        "scale": np.float32(0.5),
        "mask": np.ones((1, heads, n, n), "float32"),
        **{f"at_{name}": np.array(i) for i, name in enumerate("qkv")},
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["all"]),
        node("Reshape", ["all", "split"], ["parts"]),
        node("Transpose", ["parts"], ["turned"], perm=[2, 0, 3, 1, 4]),
        *(node("Gather", ["turned", f"at_{name}"], [name], axis=0) for name in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
    ]
    if turned_first:  # PyTorch from opset 14 on scales both factors
        nodes += [node("Mul", ["q", "scale"], ["qs"]), node("Mul", ["kt", "scale"], ["ks"])]
        nodes += [node("MatMul", ["qs", "ks"], ["scores"])]
    else:
        nodes += [
            node("MatMul", ["q", "kt"], ["plain"]),
            node("Div", ["plain", "scale"], ["scores"]),
        ]
    if masked:
        nodes += [node("Add", ["scores", "mask"], ["hidden"])]
    nodes += [
        node("Softmax", ["hidden" if masked else "scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["found"]),
        node("Transpose", ["found"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "joined"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "attention",
        [value("x", TensorProto.FLOAT, (batch, n, width))],
        [value("y", TensorProto.FLOAT, (batch, n, width))],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("turned_first", "masked", "scale"), [(True, False, 0.25), (False, True, 2)]
)
def test_attention_is_found_and_read_where_it_lies(
    turned_first: bool, masked: bool, scale: float
) -> None:
    module = import_onnx(_network(turned_first, masked))[0]
    options = CompileOptions.of(precision="fp16")
    network = Compilation(module, Target(MATRIX_GPU, host=HOST), options)
    run(network, last="known_kernels")
    assert len(network.graph.kernels) == 2
    kernel = network.graph.kernels[1]
    form = AttentionForm.from_json(str(network.graph.functions[kernel.function].attrs[FORM]))
    assert (form.scale, form.keys, form.width, len(form.added)) == (scale, 17, 16, masked)
    assert [view.offset for view in (form.q, form.k, form.v)] == [0, 48, 96]
    assert form.k.strides == (17 * 144, 16, 144, 1)


def test_devices_without_matrices_have_no_such_kernel() -> None:
    form = form_of((1, 12), 197, 197, 64)
    assert candidates(form, LIMITS)
    assert not fits(form, dataclasses.replace(LIMITS, matrices=()))
    assert not fits(form_of((1, 1), 9, 9, 256), LIMITS)
