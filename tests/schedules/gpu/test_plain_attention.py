"""Attention in one kernel without matrices: what it computes, against float64, and where it is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.s_tir import Schedule
from tvm.target import Target

from support import lowering
from support.attention_forms import drawn, form_of, function_of
from support.compiled import executor_of
from support.matrix_runs import result
from support.schedule_runs import target
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.compiler.relax.attention import fused_attention
from tvm_vision.compiler.target import parse_target
from tvm_vision.devices import known_devices
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.cost.device_model import DISCRETE, INTEGRATED, INTEGRATED_XE, UNKNOWN
from tvm_vision.schedules.gpu.plain_attention import (
    PlainAttentionTile,
    candidates,
    fits,
    schedule_attention,
)
from tvm_vision.schedules.templates import marked
from tvm_vision.topi.attention import FORM, AttentionForm

MEASURED = str(Path(__file__).parents[3] / "benchmarks/results/nvidia-h200-device.json")
LIMITS = TargetLimits(threads=256, shared_bytes=32768, subgroup=64, device=INTEGRATED)
TOLERANCE = {"float32": 1e-5, "float16": 1e-3}  # of the largest value
TOLERANCE_OF = {"fp32": 1e-5, "fp16": 5e-3}
# Batch, queries, keys, their width, that of values, whether something is added, the tile.
CASES = [
    ((1, 2), 17, 33, 32, 32, False, None),
    ((2, 3), 49, 49, 32, 32, True, None),
    ((2,), 64, 128, 16, 16, True, PlainAttentionTile(64, 64, 16)),
    ((1, 2), 70, 70, 64, 64, False, PlainAttentionTile(32, 32, 8)),
    ((1, 1), 1, 200, 48, 64, True, PlainAttentionTile(32, 64, 8)),
    ((1, 2), 33, 1, 20, 48, False, PlainAttentionTile(64, 32, 16)),
    ((1, 2), 65, 96, 48, 64, False, PlainAttentionTile(64, 32, 8)),
    ((3,), 40, 77, 36, 128, True, PlainAttentionTile(32, 32, 16)),
    ((1, 1), 40, 65, 80, 80, False, PlainAttentionTile(32, 32, 16)),
    ((1, 1), 31, 100, 8, 8, False, PlainAttentionTile(64, 64, 8)),
    # Columns that no threads divide: the last have some behind the last, or none.
    ((1, 2), 33, 70, 36, 36, False, None),
    ((2,), 40, 64, 30, 30, True, PlainAttentionTile(32, 32, 8)),
    ((1, 1), 18, 65, 20, 22, True, PlainAttentionTile(64, 64, 8)),
    ((1, 1), 18, 40, 60, 60, False, PlainAttentionTile(32, 32, 16)),
    ((1, 2), 20, 33, 24, 13, False, PlainAttentionTile(16, 32, 16)),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("batch", "n", "m", "d", "wide", "masked", "tile"), CASES)
def test_attention_is_that_of_float64(
    batch: tuple[int, ...], n: int, m: int, d: int, wide: int, masked: bool,
    tile: PlainAttentionTile | None, dtype: str, device_info: Any,
) -> None:  # fmt: skip
    form = form_of(batch, n, m, d, masked, wide)
    function = function_of(form, fp16=dtype == "float16")
    assert tile is None or tile in candidates(form, LIMITS)
    scheduled = marked(schedule_attention(Schedule(function), LIMITS, tile), LIMITS)
    inputs, wanted = drawn(form, dtype)
    found = result(scheduled, inputs, form.shape, target(), dtype)
    assert np.abs(found - wanted).max() <= TOLERANCE[dtype] * np.abs(wanted).max()


def test_no_key_waits_for_what_is_added_to_the_one_before() -> None:
    """Where keys are no blocks: a number that is read in a branch is there before the next is."""
    function = function_of(form_of((2, 3), 49, 77, 32, True, 32), fp16=True)
    scheduled = marked(schedule_attention(Schedule(function), LIMITS, None), LIMITS)
    (kernel,) = lowering.kernels(scheduled)
    assert " ? " in str(kernel.source)
    assert not re.search(r" else|\? (?!vec)[^:;]*[+(]", str(kernel.source))


# Of what lies by columns, each alone and all, places that are vectors and that are none.
BY_COLUMNS = [
    ((1, 2), 49, 49, 32, 64, True, "qkv", True, None),
    ((1, 2), 100, 60, 32, 64, False, "qkv", True, None),
    ((2,), 64, 128, 16, 32, False, "q", False, PlainAttentionTile(64, 64, 16)),
    ((1, 1), 30, 36, 18, 32, False, "k", True, PlainAttentionTile(16, 32, 32)),
    ((1, 3), 30, 36, 18, 24, True, "v", False, PlainAttentionTile(32, 32, 8)),
    ((1, 1), 52, 7, 10, 128, False, "kv", True, PlainAttentionTile(16, 32, 32)),
    ((1, 2), 52, 40, 36, 36, False, "qkv", True, None),
    ((1, 2), 51, 40, 36, 36, True, "v", True, PlainAttentionTile(32, 32, 8)),
    ((1, 1), 24, 36, 18, 20, False, "v", False, PlainAttentionTile(16, 32, 8)),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("batch", "n", "m", "d", "wide", "masked", "columns", "turned", "tile"), BY_COLUMNS
)
def test_channels_may_come_before_places(
    batch: tuple[int, ...], n: int, m: int, d: int, wide: int, masked: bool, columns: str,
    turned: bool, tile: PlainAttentionTile | None, dtype: str, device_info: Any,
) -> None:  # fmt: skip
    form = form_of(batch, n, m, d, masked, wide, columns, turned)
    function = function_of(form, fp16=dtype == "float16")
    assert tile is None or tile in candidates(form, LIMITS)
    scheduled = marked(schedule_attention(Schedule(function), LIMITS, tile), LIMITS)
    inputs, wanted = drawn(form, dtype)
    assert wanted.shape == form.shape
    found = result(scheduled, inputs, form.shape, target(), dtype)
    assert np.abs(found - wanted).max() <= TOLERANCE[dtype] * np.abs(wanted).max()


def test_scores_of_any_size() -> None:
    """Nothing overflows where scores are thousands, or all but one are hidden."""
    form = form_of((1, 1), 40, 100, 32, masked=True)
    inputs, _ = drawn(form, "float32")
    inputs[0] *= 1000
    inputs[3] = np.full((40, 100), -np.inf, "float32")
    inputs[3][np.arange(40), np.arange(40) + 60] = 0
    function = function_of(form, fp16=False)
    scheduled = marked(schedule_attention(Schedule(function), LIMITS, None), LIMITS)
    found = result(scheduled, [*inputs[:3], inputs[3].ravel()], form.shape, target(), "float32")
    np.testing.assert_array_equal(found[0, :, 0], inputs[2].reshape(100, 32)[60:].astype("f8"))


def test_what_has_no_such_kernel() -> None:
    form = form_of((1, 12), 197, 197, 64)
    assert fits(form, LIMITS)
    assert not fits(form, dataclasses.replace(LIMITS, device=INTEGRATED_XE))
    assert not fits(form, dataclasses.replace(LIMITS, shared_bytes=8192))
    assert not fits(form, dataclasses.replace(LIMITS, threads=16))
    apart = dataclasses.replace(form.k, strides=(*form.k.strides[:-1], 2))
    assert not fits(dataclasses.replace(form, k=apart), LIMITS)  # nothing beside each other
    assert not fits(form_of((1, 1), 9, 9, 32, False, 4), LIMITS)
    assert not fits(form_of((1, 1), 9, 9, 32, False, 9), LIMITS)  # more than half of it for nothing
    assert not fits(form_of((1, 1), 9, 9, 256), LIMITS)
    # Few workgroups for many units, each of which would work long.
    large = dataclasses.replace(LIMITS, device=DISCRETE)
    assert fits(form_of((1, 8), 100, 250, 32), large)
    assert not fits(form_of((1, 8), 100, 1050, 32), large)
    # All keys are one block: launches of several kernels would take longer.
    assert fits(form_of((1, 1), 64, 64, 16, False, 48), large)
    assert not fits(form_of((1, 1), 65, 65, 16, False, 48), large)
    assert not fits(form, dataclasses.replace(LIMITS, device=UNKNOWN))


def test_tiles_for_units_that_would_have_nothing_to_do_are_small() -> None:
    first = {
        heads: candidates(form_of((1, heads), 64, 64, 32), LIMITS)[0].queries for heads in (4, 64)
    }
    assert first == {4: 32, 64: 64}


def _network() -> Any:
    """Attention of two heads between products."""
    n, heads, d = 40, 2, 16
    random = np.random.default_rng(1)
    constants = {
        **{
            f"w{name}": random.normal(size=(heads * d, heads * d)).astype("float32") / 4
            for name in "qkvo"
        },
        "split": np.array([1, n, heads, d]), "joined": np.array([1, n, heads * d]),
        "scale": np.float32(0.25),
    }  # fmt: skip
    node, turns = helper.make_node, {"k": [0, 2, 3, 1]}
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            node(
                "Transpose",
                [f"{name}1"],
                [name],
                perm=turns.get(name, [0, 2, 1, 3]),
            ),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["plain"]),
        node("Mul", ["plain", "scale"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["found"]),
        node("Transpose", ["found"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "joined"], ["all"]),
        node("MatMul", ["all", "wo"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "attention",
        [value("x", TensorProto.FLOAT, (1, n, heads * d))],
        [value("y", TensorProto.FLOAT, (1, n, heads * d))],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _of_channels(values_first: bool, edge: int = 6) -> Any:
    """Attention between convolutions of one pixel, as in detectors: values times turned shares, or
    a result that is turned."""
    heads, d, wide, channels = 2, 8, 32, 16
    total, n = 2 * d + wide, edge * edge
    random = np.random.default_rng(2)
    constants = {
        "w": random.normal(size=(heads * total, channels, 1, 1)).astype("float32") / 4,
        "wo": random.normal(size=(channels, heads * wide, 1, 1)).astype("float32") / 8,
        "split": np.array([1, heads, total, n]), "parts": np.array([d, d, wide]),
        "image": np.array([1, heads * wide, edge, edge]), "scale": np.float32(0.3),
    }  # fmt: skip
    node, turn = helper.make_node, {"perm": [0, 1, 3, 2]}
    nodes = [
        node("Conv", ["x", "w"], ["all"]),
        node("Reshape", ["all", "split"], ["each"]),
        node("Split", ["each", "parts"], ["q", "k", "v"], axis=2),
        node("Mul", ["q", "scale"], ["qs"]),
        node("Transpose", ["qs"], ["qt"], **turn),
        node("MatMul", ["qt", "k"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
    ]
    if values_first:
        nodes += [
            node("Transpose", ["shares"], ["turned"], **turn),
            node("MatMul", ["v", "turned"], ["found"]),
        ]
    else:
        nodes += [
            node("Transpose", ["v"], ["vt"], **turn),
            node("MatMul", ["shares", "vt"], ["rows"]),
            node("Transpose", ["rows"], ["found"], **turn),
        ]
    nodes += [node("Reshape", ["found", "image"], ["back"]), node("Conv", ["back", "wo"], ["y"])]
    value, shape = helper.make_tensor_value_info, (1, channels, edge, edge)
    graph = helper.make_graph(
        nodes, "attention", [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("values_first", [True, False])
@pytest.mark.parametrize("edge", [5, 6])
def test_attention_to_channels_is_one_kernel_between_convolutions(
    values_first: bool, edge: int
) -> None:
    module = import_onnx(_of_channels(values_first, edge))[0]
    renoir = Target(known_devices()["renoir"].target_config())
    network = Compilation(module, renoir, CompileOptions.of({}))
    run(network, last="known_kernels")
    assert len(network.graph.kernels) == 3
    kernel = network.graph.kernels[1]
    form = AttentionForm.from_json(str(network.graph.functions[kernel.function].attrs[FORM]))
    n = edge * edge
    assert form.turned and form.scale == pytest.approx(0.3)
    assert [v.offset for v in (form.q, form.k, form.v)] == [0, 8 * n, 16 * n]
    assert {v.strides for v in (form.q, form.k, form.v)} == {(0, 48 * n, 1, n)}


@pytest.mark.parametrize(("edge", "kernels"), [(5, 3), (8, 3), (9, 7)])
def test_few_keys_that_matrices_cannot_read_are_one_kernel_beside_matrices(
    edge: int, kernels: int
) -> None:
    """Rows of 25 and 81 places begin nowhere that a matrix may; of 64 they do."""
    module = import_onnx(_of_channels(True, edge))[0]
    network = Compilation(module, parse_target(MEASURED), CompileOptions.of({}, precision="fp16"))
    run(network, last="known_kernels")
    assert len(network.graph.kernels) == kernels


def test_a_result_that_is_read_as_it_is_is_not_turned() -> None:
    model = _of_channels(values_first=False)
    model.graph.output.append(helper.make_tensor_value_info("rows", TensorProto.FLOAT, None))
    network = Compilation(
        import_onnx(model)[0],
        Target(known_devices()["renoir"].target_config()),
        CompileOptions.of({}),
    )
    run(network, last="known_kernels")
    functions = [network.graph.functions[kernel.function] for kernel in network.graph.kernels]
    (text,) = [f.attrs[FORM] for f in functions if f.attrs and FORM in f.attrs]
    assert not AttentionForm.from_json(str(text)).turned


def _cosine() -> Any:
    """Attention whose scores have a number for each head, and one that is added for each place."""
    model = _network()
    (scale,) = [w for w in model.graph.initializer if w.name == "scale"]
    scale.CopyFrom(numpy_helper.from_array(np.array([[[0.3]], [[2.0]]], "float32"), "scale"))
    bias = np.random.default_rng(5).normal(size=(1, 2, 40, 40)).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(bias, "bias"))
    (soft,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    at = list(model.graph.node).index(soft)
    model.graph.node.insert(at, helper.make_node("Add", ["scores", "bias"], ["with_bias"]))
    soft.input[0] = "with_bias"
    return model


def found_in(module: Any) -> tuple[Any, list[AttentionForm]]:
    """A network with its attention as one function each, and the forms that were asked about."""
    forms: list[AttentionForm] = []

    def note(form: AttentionForm) -> bool:
        forms.append(form)
        return True

    return fused_attention(module, note), forms


@pytest.mark.parametrize(
    ("model", "turned"),
    [
        (_network(), False), (_cosine(), False), (_of_channels(True), True),
        (_of_channels(False), True), (_of_channels(True, 5), True),
    ],
    ids=["tokens", "cosine", "channels", "channels that are turned back", "odd places"],
)  # fmt: skip
def test_what_is_found_is_what_the_network_computes(model: Any, turned: bool) -> None:
    """On the processor, as the function says it, for any form."""
    module, signature = import_onnx(model)
    made, forms = found_in(module)
    assert forms[-1].turned == turned
    given = model.graph.input[0].type.tensor_type.shape.dim
    x = np.random.default_rng(4).normal(size=[n.dim_value for n in given]).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"x": x})
    compiled = compile_model(made, signature, target="llvm")
    assert any("attention" in kernel["function"] for kernel in compiled.graph["kernels"])
    executor = executor_of(compiled, tvm.cpu(0))
    executor.run(x=x)
    (found,) = executor.outputs().values()
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_a_number_for_each_key_is_no_matter_of_queries() -> None:
    model = _network()
    (scale,) = [w for w in model.graph.initializer if w.name == "scale"]
    columns = np.linspace(0.1, 1, 40, dtype="float32").reshape(1, 1, 1, 40)
    scale.CopyFrom(numpy_helper.from_array(columns, "scale"))
    assert not found_in(import_onnx(model)[0])[1]


@pytest.mark.parametrize("values_first", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_networks_of_channels_are_those_of_onnxruntime(values_first: bool, precision: str) -> None:
    """On this device, whatever it has for it."""
    model = _of_channels(values_first)
    x = np.random.default_rng(3).normal(size=(1, 16, 6, 6)).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"x": x})
    module, signature = import_onnx(model)
    executor = executor_of(compile_model(module, signature, target="vulkan", precision=precision))
    executor.run(x=x)
    (found,) = executor.outputs().values()
    assert np.abs(found - wanted).max() <= TOLERANCE_OF[precision] * np.abs(wanted).max()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("name", "one"), [("renoir", True), ("phoenix", True), ("tgl", False)])
def test_networks_for_waves_have_it(name: str, one: bool, precision: str) -> None:
    module = import_onnx(_network())[0]
    for options in ({}, {"attention": False}):  # of three products of the same rows in one
        network = Compilation(
            module,
            Target(known_devices()[name].target_config()),
            CompileOptions.of(options, precision=precision),
        )
        run(network, last="known_kernels")
        functions = [network.graph.functions[kernel.function] for kernel in network.graph.kernels]
        forms = [f.attrs[FORM] for f in functions if f.attrs and FORM in f.attrs]
        assert len(forms) == (one and not options)
    assert len(functions) == 6
