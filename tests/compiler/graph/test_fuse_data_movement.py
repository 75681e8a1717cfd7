"""Concatenations and resizing inside the convolution that reads them: the same results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from onnx import TensorProto
from tvm import te, topi
from tvm.target import Target

from support.compiled import FIXED, MATRIX_GPU, executor_of
from support.networks import NETWORKS, Builder, _upsample
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.graph.fuse_data_movement import (
    fuse_data_movement,
    is_prologue,
    is_selection,
)
from tvm_vision.compiler.graph.selection_cost import MOST_TIMED, pick_cycles
from tvm_vision.compiler.pipeline import run
from tvm_vision.devices import known_devices
from tvm_vision.errors import InputError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import TargetLimits, schedule_function
from tvm_vision.schedules.common import left_to_host
from tvm_vision.schedules.cost.device_model import FITTED
from tvm_vision.schedules.cost.tile_costs import PipelineCosts

SIZE = 16


def network(tail: Any, outputs: int = 1) -> Any:
    """Two convolutions of 16 and 24 channels, and what ``tail`` makes of them."""
    b = Builder(3)
    one = b.conv("input", 3, 16, 3, 2, act="relu")
    two = b.conv("input", 3, 24, 3, 2, act="leaky")
    made = tail(b, one, two)
    return b.model(SIZE, [(name, TensorProto.FLOAT) for name in made[:outputs]])


def joined(b: Any, one: str, two: str) -> str:
    return b.node("Concat", [one, two], axis=1)


def pointwise(b: Any, one: str, two: str) -> tuple[str]:
    return (b.conv(joined(b, one, two), 40, 32, 1, act="relu"),)


def window(b: Any, one: str, two: str) -> tuple[str]:
    return (b.conv(joined(b, one, two), 40, 16, 3, 2, act="leaky"),)


def resized(b: Any, one: str, two: str) -> tuple[str]:
    """As YOEO's decoder: a smaller image enlarged beside a larger one."""
    small = b.conv(two, 24, 24, 3, 2, act="relu")
    return (b.conv(b.node("Concat", [_upsample(b, small), one], axis=1), 40, 16, 3),)


def half(b: Any, one: str, two: str) -> tuple[str]:
    """As YOEO's encoder: one half of a split is read, the other one by nobody."""
    first = b.node("Split", [one], outputs=2, axis=1)
    second = first.removesuffix("0") + "1"
    return (b.conv(second, 8, 16, 3, act="leaky"),)


def gated(b: Any, one: str, two: str) -> tuple[str]:
    """As behind squeeze-and-excitation."""
    gate = b.node("Sigmoid", [b.conv(b.node("GlobalAveragePool", [one]), 16, 16, 1)])
    return (b.conv(b.node("Mul", [one, gate]), 16, 32, 1, act="relu"),)


def normalized(b: Any, one: str, two: str) -> tuple[str]:
    """A batch norm and ReLU before a convolution, as in blocks that begin with them; another reads
    what comes before."""
    rows = [b.constant(b.random.uniform(0.5, 1.5, 16).astype("float32")) for _ in range(4)]
    norm = b.node("BatchNormalization", [one, *rows])
    return (b.node("Add", [b.conv(b.node("Relu", [norm]), 16, 16, 3), one]),)


def weights(b: Any, *shape: int) -> str:
    return str(b.constant(np.random.default_rng(4).standard_normal(shape).astype("float32")))


def normalized_part(b: Any, one: str, two: str) -> tuple[str]:
    """As gMLP's gate: the second half of each pixel's channels, normalized."""
    last = b.node("Transpose", [two], perm=[0, 2, 3, 1])
    wide = b.node("MatMul", [last, weights(b, 24, 80)])
    part = b.node("Split", [wide], outputs=2, axis=3).removesuffix("0") + "1"
    return (b.node("LayerNormalization", [part, weights(b, 40), weights(b, 40)], axis=-1),)


def unit_heads(b: Any, one: str, two: str) -> tuple[str]:
    """As cosine attention (Swin V2): queries and keys of one product, of length 1 for each head."""
    last = b.node("Transpose", [two], perm=[0, 2, 3, 1])
    wide = b.node("MatMul", [last, weights(b, 24, 128)])
    heads = b.node("Reshape", [wide, b.constant(np.array([1, SIZE * SIZE // 4, 2, 2, 32]))])
    part = b.node("Split", [heads], outputs=2, axis=2).removesuffix("0") + "1"
    part = b.node("Squeeze", [part, b.constant(np.array([2]))])
    turned = b.node("Transpose", [part], perm=[0, 2, 1, 3])
    return (b.node("LpNormalization", [turned], axis=-1),)


def depthwise_part(b: Any, one: str, two: str, begin: int = 8) -> tuple[str]:
    """As MambaOut's gate: a window over some of each pixel's channels, which come last."""
    last = b.node("Transpose", [two], perm=[0, 2, 3, 1])
    wide = b.node("MatMul", [last, weights(b, 24, 32)])
    ends = [b.constant(np.array([n])) for n in (begin, begin + 16, 3)]
    part = b.node("Transpose", [b.node("Slice", [wide, *ends])], perm=[0, 3, 1, 2])
    return (b.conv(part, 16, 16, 3, groups=16),)


def depthwise_heads(b: Any, one: str, two: str) -> tuple[str]:
    """As CoaT's positions: a window over some heads of the values, by way of several moves."""
    last = b.node("Transpose", [two], perm=[0, 2, 3, 1])
    wide = b.node("MatMul", [last, weights(b, 24, 96)])
    heads = b.node("Reshape", [wide, b.constant(np.array([1, SIZE * SIZE // 4, 3, 4, 8]))])
    ends = [b.constant(np.array(n)) for n in ([2, 1], [3, 3], [2, 3])]
    part = b.node("Squeeze", [b.node("Slice", [heads, *ends]), b.constant(np.array([2]))])
    image = b.node("Transpose", [part], perm=[0, 2, 3, 1])
    image = b.node("Reshape", [image, b.constant(np.array([1, 16, SIZE // 2, SIZE // 2]))])
    return (b.conv(image, 16, 16, 3, groups=16),)


def depthwise_part_between_vectors(b: Any, one: str, two: str) -> tuple[str]:
    return depthwise_part(b, one, two, begin=6)


def read_twice(b: Any, one: str, two: str) -> tuple[str]:
    x = b.node("Concat", [one, two, one], axis=1)
    return (b.node("Mul", [b.conv(x, 56, 32, 1), b.conv(x, 56, 32, 3)]),)


def handed_out(b: Any, one: str, two: str) -> tuple[str, str]:
    x = b.node("Concat", [one, two, one], axis=1)
    return b.conv(x, 56, 32, 1), x


def computed(b: Any, one: str, two: str) -> tuple[str]:
    x = b.node("Sigmoid", [b.node("Concat", [one, two, one], axis=1)])
    return (b.conv(x, 56, 32, 1),)


def results(model: Any, way: str, patch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, int]:
    patch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", way)
    module, signature = import_onnx(model)
    made = compile_model(module, signature, **{"target": "vulkan", **options})
    executor = executor_of(made)
    x = np.random.default_rng(7).standard_normal((1, 3, SIZE, SIZE)).astype("float32")
    for _ in range(2):
        executor.run(**{executor.input_names[0]: x})
    return list(executor.outputs().values()), len(made.graph["kernels"])


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("tail", [pointwise, window, resized, half, gated, normalized])
@pytest.mark.parametrize(
    ("precision", "layout"),
    [("fp32", "nhwc"), ("fp16", "nchw"), pytest.param("fp16", "nhwc", marks=pytest.mark.slow)],
)
def test_the_same_values_from_fewer_kernels(
    tail: Any, precision: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Copied where it would be done in place, so that there is something to inline.
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "off")
    monkeypatch.setenv("TVM_VISION_SLICE_IN_PLACE", "off")
    model = network(tail)
    options = {"precision": precision, "layout": layout}
    expected, kernels = results(model, "off", monkeypatch, **options)
    found, fewer = results(model, "on", monkeypatch, **options)
    assert fewer < kernels
    scale = np.abs(expected[0]).max()
    # What a prologue computes is not rounded to fp16 between two kernels.
    rounded = precision == "fp16" and tail in (gated, normalized)
    np.testing.assert_allclose(found[0], expected[0], atol=(4e-3 if rounded else 1e-6) * scale)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_winograd_in_one_kernel_reads_a_concatenation(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "off")
    options = {"precision": precision, "layout": "nchw", "options": {"winograd": "one"}}
    expected, kernels = results(network(resized), "off", monkeypatch, **options)
    found, fewer = results(network(resized), "on", monkeypatch, **options)
    assert fewer < kernels
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("tail", "saved"),
    [
        (normalized_part, 1),
        (unit_heads, 1),
        (depthwise_part, 1),
        (depthwise_heads, 1),
        (depthwise_part_between_vectors, 0),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_sums_over_rows_and_windows_read_a_part_where_it_lies(
    tail: Any, saved: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"precision": precision, "layout": "nhwc"}
    expected, kernels = results(network(tail), "off", monkeypatch, **options)
    found, fewer = results(network(tail), "on", monkeypatch, **options)
    assert fewer == kernels - saved
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6 * np.abs(expected[0]).max())


@pytest.mark.parametrize(("tail", "outputs"), [(read_twice, 1), (handed_out, 2), (computed, 1)])
def test_where_it_must_not_be(tail: Any, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(tail, outputs)
    counts = []
    for way in ("off", "on"):
        monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", way)
        graph = prepare(import_onnx(model)[0], target=FIXED)
        counts.append(len(graph.kernels))
    assert counts[0] == counts[1]


def prologue(make: Any, *shapes: tuple[int, ...]) -> bool:
    given = [te.placeholder(shape, "float32") for shape in shapes]
    return is_prologue(te.create_prim_func([*given, make(*given)]))


def test_what_is_a_prologue() -> None:
    whole, row = (1, 8, 4, 4), (1, 8, 1, 1)
    assert prologue(lambda x, g: topi.multiply(x, g), whole, row)
    assert prologue(lambda x: topi.nn.relu(x), whole)
    assert prologue(lambda x, a, b: topi.nn.relu(x * a + b), whole, row, row)
    assert not prologue(lambda x, y: x + y, whole, whole)  # each would be read for each tile
    assert not prologue(lambda x: topi.sigmoid(x), whole)  # much for each tile
    assert not prologue(lambda x: topi.sum(x, 1), whole)
    assert not prologue(lambda x: topi.transpose(x, (0, 2, 3, 1)), whole)
    assert not prologue(lambda x, g: topi.multiply(topi.transpose(x), g), whole, (1,))
    assert not prologue(lambda x: topi.concatenate([x, x * 2.0], 1), whole)


def test_on_a_device_that_was_timed_prologues_are_where_no_matrices_are() -> None:
    module, _ = import_onnx(network(gated))
    kernels = {}
    for precision in ("fp32", "fp16"):
        for inside in (True, False):
            options = CompileOptions.of({"fuse_data_movement": inside}, precision=precision)
            network_of = Compilation(module, Target(MATRIX_GPU, host="llvm"), options)
            run(network_of, last="known_kernels")
            kernels[precision, inside] = len(network_of.graph.kernels)
    assert kernels["fp32", True] < kernels["fp32", False]
    assert kernels["fp16", True] == kernels["fp16", False]


def test_what_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", "off")
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "off")
    graph = prepare(import_onnx(network(resized))[0], target=FIXED)
    selections = {name for name, f in graph.functions.items() if is_selection(f)}
    assert selections
    assert all("conv" not in name for name in selections)
    assert any("resize" in name or "concat" in name for name in selections)


@pytest.mark.parametrize("way", ["off", "on"])
@pytest.mark.parametrize(("precision", "layout"), [("fp32", "nchw"), ("fp16", "nhwc")])
def test_the_half_that_nobody_reads_is_not_computed(
    way: str, precision: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", way)
    monkeypatch.setenv("TVM_VISION_SLICE_IN_PLACE", "off")
    target = FIXED
    module = import_onnx(network(half))[0]
    graph = prepare(module, target=target, precision=precision, layout=layout)
    word = "split" if layout == "nchw" else "strided_slice"
    splits = [f for name, f in graph.functions.items() if word in name]
    assert splits
    for function in splits:
        # One block takes the half; the others, if it is inlined, are those of the convolution.
        assert str(function).count(f'sblock("T_{word}') == 1
        scheduled, _ = schedule_function(function, TargetLimits.of(target), target)
        assert not left_to_host(scheduled)


def test_layouts_are_changed_by_kernels_of_their_own() -> None:
    target = Target(MATRIX_GPU)
    module = import_onnx(network(pointwise))[0]
    graph = prepare(module, target=target, precision="fp16", layout="nhwc")
    ends = [f for name, f in graph.functions.items() if "transpose" in name or "pad" in name]
    assert ends
    assert not any(map(is_selection, ends))


@pytest.mark.parametrize(("name", "fewer"), [("squeezenet1_1", 6), ("yoeo_like", 6)])
def test_networks_on_matrices(name: str, fewer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, counts = Target(MATRIX_GPU), []
    module = import_onnx(NETWORKS[name](224))[0]
    for way in ("off", "on"):
        monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", way)
        counts.append(len(prepare(module, target=target, precision="fp16").kernels))
    assert counts[0] - counts[1] == fewer


def test_it_can_be_switched_off_and_other_words_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "off")
    module = import_onnx(network(pointwise))[0]
    target = FIXED
    counts = []
    for way in ("off", "on", None):
        monkeypatch.delenv("TVM_VISION_FUSE_DATA_MOVEMENT", raising=False)
        if way:
            monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", way)
        counts.append(len(prepare(module, target=target).kernels))
    assert counts[0] > counts[1] == counts[2]
    monkeypatch.setenv("TVM_VISION_FUSE_DATA_MOVEMENT", "maybe")
    with pytest.raises(InputError, match="must be on or off, found 'maybe'"):
        prepare(module, target=target)


def fused_on(tail: Any, way: str = "auto", **device: Any) -> bool:
    """Whether a network's selections are inside, on an integrated GPU of AMD's but for changes;
    way: that of Winograd's convolution."""
    described = known_devices()["renoir"]
    limits = TargetLimits.of(Target(described.target_config()))
    assert limits.device.rates is not None
    rates = {name: device.pop(name) for name in ("bandwidth", "launch") if name in device}
    costs = {name: device.pop(name) for name in ("pick",) if name in device}
    gemm = replace(cast(PipelineCosts, limits.device.gemm), **costs)
    model = replace(limits.device, rates=replace(limits.device.rates, **rates), gemm=gemm, **device)
    module, _ = import_onnx(network(tail))
    off = dict.fromkeys(("concat_in_place", "slice_in_place", "fuse_data_movement"), False)
    options = {**off, "winograd": way}
    graph = prepare(module, target=Target(described.target_config()), options=options)
    before = len(graph.kernels)
    after = fuse_data_movement(graph, replace(limits, device=model))
    return len(after.kernels) < before


@pytest.mark.parametrize("tail", [pointwise, window])
def test_the_device_decides(tail: Any) -> None:
    """Compiled alone: nothing of this is a device that exists."""
    assert fused_on(tail)
    # Where finding values is slow, memory is fast and a launch costs nothing.
    assert not fused_on(tail, pick=1e5, bandwidth=1e13, launch=1e-9)
    assert fused_on(tail, pick=1e5, bandwidth=1e6)
    assert fused_on(tail, pick=1e5, bandwidth=1e13, launch=1.0)


def test_the_device_decides_of_winograd_in_one_kernel() -> None:
    """Where it is known what that takes; elsewhere, asked for, it reads what is selected."""
    slow = {"pick": 1e5, "bandwidth": 1e13, "launch": 1e-9}
    assert fused_on(resized, "one")
    assert not fused_on(resized, "one", **slow)
    assert fused_on(resized, "one", **slow, winograd=None)


def test_what_it_costs_to_find_a_value_is_of_the_device_and_its_template() -> None:
    """Sixteen instructions: of GCN's scheduler four cycles each, of RDNA3's two."""
    found = {}
    for name in ("renoir", "phoenix", "tgl"):
        device = TargetLimits.of(Target(known_devices()[name].target_config())).device
        found[name] = [pick_cycles(each, device) for each in ("contraction", "direct_conv")]
    assert found == {"renoir": [64.0, 90.0], "phoenix": [32.0, 90.0], "tgl": [90.0, 90.0]}


def test_what_is_picked_from_one_tensor_costs_nothing_more() -> None:
    assert fused_on(half, pick=1e9, bandwidth=1e13, launch=1e-9)


def test_on_a_device_that_was_timed_selections_are_inside() -> None:
    assert fused_on(window, source=FITTED, pick=1e9, bandwidth=1e13, launch=1e-9)


def many(b: Any, one: str, two: str) -> tuple[str]:
    """A correlation's channels, each from a shift, as in optical flow."""
    parts = [b.node("Mul", [one, b.constant(np.float32(i + 1))]) for i in range(MOST_TIMED + 1)]
    return (b.conv(b.node("Concat", parts, axis=1), 16 * len(parts), 8, 1),)


def test_a_selection_of_more_tensors_than_was_timed_is_a_kernel_of_its_own() -> None:
    assert not fused_on(many, source=FITTED)
