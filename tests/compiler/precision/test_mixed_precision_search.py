"""Which layers keep float32: those that overflow, those that cancel, and no others."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tvm.target import Target

from support.compiled import MATRIX_GPU
from support.interpreter import run
from support.networks import NETWORKS, Builder, mainly
from tvm_vision.compiler import compile_model, parse_target
from tvm_vision.compiler.build import _matrix_kernels, measure_fp16, prepare
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.graph.static_graph import KernelCall, StaticGraph
from tvm_vision.compiler.pipeline import run as run_pipeline
from tvm_vision.compiler.precision.convert_fp16 import FP16_MAX
from tvm_vision.compiler.precision.mixed_precision_search import (
    HEADROOM,
    RESULT,
    WEIGHTS,
    Samples,
    choose_fp16,
    parts_of,
)
from tvm_vision.devices import known_devices
from tvm_vision.devices.difference import lacking
from tvm_vision.errors import InputError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions

SIZE = 32


@pytest.fixture(params=["llvm", "vulkan"])
def target(request):
    """Of a GPU one description, whatever the device is: kernels are counted, and those with
    matrices have another layout."""
    if request.param == "llvm":
        return "llvm"
    device, described = request.getfixturevalue("device_info"), known_devices()["lavapipe"]
    if lacks := lacking(described.target_config(), device):
        pytest.skip(f"kernels made for lavapipe may not run on this device: {', '.join(lacks)}")
    return json.dumps(described.target_config())


def error_of(ours, exact):
    if exact.dtype.kind != "f":
        return float((ours != exact).mean())
    worst = np.abs(ours.astype("float64") - exact).max() / np.abs(exact).max()
    return float(worst)


def samples(limit, *, size=SIZE, scale=1.0, count=3):
    rng = np.random.default_rng(5)
    arrays = [[(scale * rng.random((1, 3, size, size))).astype("float32")] for _ in range(count)]
    return Samples(arrays, limit, error_of)


def body(b, x, cin):
    """Three layers that do no harm, and the head."""
    for cout in (16, 16, 24):
        x, cin = b.conv(x, cin, cout, 3, 2, act="relu"), cout
    return b.model(SIZE, [(b.head(x, cin, 10), TensorProto.FLOAT)])


def overflowing():
    """The second layer's values are in the hundred thousands, its weights and all others small."""
    b = Builder(1)
    x = b.conv("input", 3, 8, 3, act="relu")
    wide = b.random.uniform(50, 100, (8, 8, 1, 1)).astype("float32")
    x = b.node("Conv", [x, b.constant(wide)])
    x = b.pool(x, 2, 2)
    narrow = b.random.uniform(-1e-3, 1e-3, (8, 8, 1, 1)).astype("float32")
    return body(b, b.node("Relu", [b.node("Conv", [x, b.constant(narrow)])]), 8)


def cancelling():
    """The second layer's values are 2000 and a little; only the little counts."""
    b = Builder(2)
    x = b.conv("input", 3, 8, 3, act="relu")
    w = b.random.uniform(-0.1, 0.1, (8, 8, 3, 3)).astype("float32")
    high = b.constant(np.full(8, 2000, "float32"))
    x = b.node("Relu", [b.node("Conv", [x, b.constant(w), high], pads=[1] * 4)])
    x = b.node("Sub", [b.pool(x, 2, 2), b.constant(np.float32(2000))])
    return body(b, x, 8)


CANCELLED = {"Conv_2", "Relu_3", "MaxPool_4", "Sub_5"}
CASES = {
    # Network, scale of the inputs, nodes of the layers that have to keep float32, or may.
    "overflow": (overflowing, 255.0, {"Conv_2"}, {"Conv_2", "MaxPool_3"}),
    "cancellation": (cancelling, 1.0, {"Conv_2"}, CANCELLED),
}


def compiled_for(model, target, given):
    """In float32, and with fp16 as the samples allow; how many kernels fp16 everywhere takes."""
    module, signature = import_onnx(model)
    return (
        compile_model(module, signature, target=target),
        compile_model(module, signature, target=target, precision="fp16", samples=given),
        len(prepare(module, target=parse_target(target), precision="fp16").kernels),
    )


def error_on(compiled, single, given):
    pairs = ((run(compiled, arrays), run(single, arrays)) for arrays in given.arrays)
    return max(error_of(a, b) for ours, exact in pairs for a, b in zip(ours, exact, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_what_halves_would_spoil_keeps_float32(case, target):
    network, scale, needed, allowed = CASES[case]
    given = samples(0.01, scale=scale)
    single, chosen, kernels = compiled_for(network(), target, given)
    measured = chosen.measured_precision
    kept = {node for layer in measured.kept for node in layer.nodes}
    assert needed <= kept <= allowed, measured
    assert (measured.samples, measured.limit) == (3, 0.01)
    assert measured.error_before is None or measured.error_before > 0.01
    # What was found by rounding on this processor is what the target's kernels do.
    error = error_on(chosen, single, given)
    assert error <= 0.01 and error == pytest.approx(measured.error, rel=0.3, abs=2e-4)
    # No kernel is there to convert, and little is kept.
    assert len(chosen.graph["kernels"]) == kernels
    assert len(measured.kept) <= 2 < measured.layers
    assert chosen.memory["weights"] < 0.6 * single.memory["weights"]


def test_what_overflows_says_how_large_it_is():
    given = samples(0.01, scale=255.0)
    _, chosen, _ = compiled_for(overflowing(), "llvm", given)
    (layer,) = [kept for kept in chosen.measured_precision.kept if "Conv_2" in kept.nodes]
    assert layer.result and layer.largest > FP16_MAX
    assert chosen.measured_precision.error_before is None


def test_values_near_the_largest_half_are_taken_for_larger_ones():
    """The samples stay just below what fp16 hold; other images may not."""
    module, signature = import_onnx(overflowing())
    given = samples(0.5, scale=255.0)
    large = compile_model(module, signature, target="llvm", precision="fp16", samples=given)
    factor = FP16_MAX / max(layer.largest or 0 for layer in large.measured_precision.kept)
    for share, expected in ((0.9, True), (0.9 / HEADROOM, False)):
        less = samples(0.5, scale=255.0 * factor * share)
        result = compile_model(module, signature, target="llvm", precision="fp16", samples=less)
        assert bool(result.measured_precision.kept) is expected


@pytest.mark.parametrize("name", mainly("blocks", "yoeo_like"))
def test_a_network_that_halves_do_not_harm_keeps_nothing(name):
    module, signature = import_onnx(NETWORKS[name](64))
    given = samples(0.01, size=64)
    options: dict[str, Any] = {"target": "llvm", "precision": "fp16"}
    chosen = compile_model(module, signature, **options, samples=given)
    plain = compile_model(module, signature, **options)
    measured = chosen.measured_precision
    assert measured is not None and measured.kept == ()
    assert measured.error is not None and measured.error <= 0.01
    assert measured.error == measured.error_before
    assert chosen.graph == plain.graph and plain.measured_precision is None


def test_a_smaller_error_takes_more_float32():
    module, _ = import_onnx(NETWORKS["squeezenet1_1"](SIZE))
    target = parse_target("llvm")
    network = Compilation(module, target, CompileOptions())
    found = [measure_fp16(network, samples(limit)).report for limit in (1e-3, 5e-4, 3e-4)]
    sizes = [len(report.kept) for report in found]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] < found[0].layers
    assert all(report.error <= report.limit for report in found)
    for layer in found[-1].kept:
        assert layer.error is not None and layer.error > 0 and layer.largest is None


def test_a_limit_that_leaves_nothing_is_refused_with_what_was_reached():
    module, signature = import_onnx(NETWORKS["squeezenet1_1"](SIZE))
    with pytest.raises(InputError, match=r"of at most 1e-09 .* that was reached is \d\.\de-0\d"):
        compile_model(module, signature, target="llvm", precision="fp16", samples=samples(1e-9))


def test_parts_of_a_concatenation_in_place_stay_of_one_type(target):
    """Else it would need a kernel that converts."""
    b = Builder(3)
    x = b.conv("input", 3, 8, 3, act="relu")
    large = b.constant(b.random.uniform(100, 200, (16, 8, 1, 1)).astype("float32"))
    parts = [b.node("Conv", [x, large]), b.conv(x, 8, 16, 3, act="relu")]
    x = b.node("Concat", parts, axis=1)
    small = b.constant(b.random.uniform(-1e-3, 1e-3, (8, 32, 3, 3)).astype("float32"))
    x = b.node("Relu", [b.node("Conv", [x, small])])
    model = b.model(SIZE, [(b.head(x, 8, 10), TensorProto.FLOAT)])
    given = samples(0.01, scale=255.0)
    single, chosen, kernels = compiled_for(model, target, given)
    assert error_on(chosen, single, given) <= 0.01
    assert len(chosen.graph["kernels"]) == kernels
    offset = [t["dtype"] for t in chosen.graph["tensors"] if t["offset"]]
    assert offset == ["float32"] * len(offset)
    nodes = {node for layer in chosen.measured_precision.kept for node in layer.nodes}
    assert nodes >= {"Conv_2", "Conv_3"} if "vulkan" in target else "Conv_2" in nodes


def test_every_layer_has_its_counterpart_where_it_is_measured(target):
    """What has none would stay float32."""
    module, _ = import_onnx(NETWORKS["blocks"](SIZE))
    options: dict[str, Any] = {"target": parse_target(target)}
    choice = measure_fp16(Compilation(module, **options, options=CompileOptions()), samples(1.0))
    plain = prepare(module, precision="fp16", **options)
    chosen = prepare(module, precision="fp16", fp16=choice.fp16, **options)
    assert (chosen.tensors, chosen.kernels) == (plain.tensors, plain.kernels)


class Sum:
    """A network of independent roundings: each part that is fp16 adds its square."""

    def __init__(self, errors):
        self.errors = errors
        self.runs = 0

    def set_sample(self, inputs):
        return {}

    def exact_outputs(self):
        return [np.zeros(1)]

    def outputs(self, fp16):
        self.runs += 1
        return [np.array([sum(self.errors.get(root, 0.0) ** 2 for root in fp16) ** 0.5])]

    def outputs_for(self, inputs, fp16):
        return self.outputs(fp16)


def chain(sizes):
    """Kernels in a row, each with a result of so many elements; the last one is the output."""
    graph = StaticGraph()
    graph.inputs = [graph.add_tensor((1,), "float32")]
    last = graph.inputs[0]
    for index, size in enumerate([*sizes, 1]):
        made = graph.add_tensor((size,), "float32")
        graph.kernels.append(KernelCall("f", [last], [made], [f"n{index}"]))
        last = made
    graph.outputs = [last]
    return graph


@pytest.fixture
def narrow(monkeypatch):
    """Every tensor of ``chain`` can be fp16, whatever its kernels are."""
    from tvm_vision.compiler.precision import mixed_precision_search

    monkeypatch.setattr(
        mixed_precision_search, "fp16_roots", lambda g: {*range(1, len(g.tensors) - 1)}
    )


@pytest.mark.usefixtures("narrow")
def test_the_most_error_for_the_fewest_bytes_goes_first():
    graph = chain([100, 100, 1, 100])
    network = Sum({1: 0.1, 2: 0.2, 3: 0.15, 4: 0.001})
    given = Samples([[]], 0.23, lambda ours, exact: float(abs(ours - exact).max()))
    choice = choose_fp16(graph, (), network, given)
    # The third costs 100 times less than the second, and 0.1 and 0.2 add up to 0.224.
    assert [layer.nodes for layer in choice.report.kept] == [("n2",)]
    choice = choose_fp16(graph, (), network, replace(given, limit=0.12))
    # With the second, which must, the third need not go: it is given back if that is enough.
    assert [layer.nodes for layer in choice.report.kept] == [("n1",), ("n2",)]
    assert choice.report.error == pytest.approx(0.1, abs=1e-3)
    choice = choose_fp16(graph, (), network, replace(given, limit=0.19))
    assert [layer.nodes for layer in choice.report.kept] == [("n1",)]


@pytest.mark.usefixtures("narrow")
def test_what_multiplies_matrices_costs_more():
    """The second kernel reads the first result, for which it would lose its matrices."""
    graph = chain([100, 40, 100])
    network = Sum({1: 0.1, 3: 0.09})
    given = Samples([[]], 0.105, lambda ours, exact: float(abs(ours - exact).max()))
    for matrices, expected in (((), "n0"), ([1], "n2")):
        choice = choose_fp16(graph, (), network, given, matrices=matrices)
        assert [layer.nodes for layer in choice.report.kept] == [(expected,)]


def test_matrices_are_where_both_operands_are_halves():
    target = Target(MATRIX_GPU, host="llvm")
    module, _ = import_onnx(NETWORKS["resnet18"](64))
    options = CompileOptions(precision="fp16")
    network = run_pipeline(Compilation(module, target, options), last="find_concats")
    graph, found = network.graph, _matrix_kernels(network)
    names = {graph.kernels[i].nodes[0] for i in found}
    assert len(found) > 10 and "Conv_3" in names
    assert names.isdisjoint({"MaxPool_2", "GlobalAveragePool_46"})
    here = Compilation(module, parse_target("llvm"), options, graph=graph)
    assert _matrix_kernels(here) == set()


@pytest.mark.usefixtures("narrow")
def test_what_is_joined_goes_together():
    graph = chain([10, 10, 10])
    network = Sum({1: 0.5, 2: 0.0, 3: 0.01})
    given = Samples([[]], 0.1, lambda ours, exact: float(abs(ours - exact).max()))
    choice = choose_fp16(graph, [1], network, given)
    assert [layer.nodes for layer in choice.report.kept] == [("n0",), ("n1",)]


@pytest.mark.usefixtures("narrow")
def test_outputs_that_are_no_numbers_count_as_infinitely_wrong():
    graph = chain([10, 10])
    network = Sum({1: float("nan"), 2: 0.01})
    given = Samples([[]], 0.1, lambda ours, exact: float(abs(ours - exact).max()))
    report = choose_fp16(graph, (), network, given).report
    assert report.error_before is None and report.error == pytest.approx(0.01)
    (layer,) = report.kept
    assert layer.nodes == ("n0",) and layer.error is None


@pytest.mark.usefixtures("narrow")
def test_steps_take_few_runs():
    """60 layers: fp16 alone once each on three samples, and a few whole runs."""
    graph = chain([10] * 60)
    network = Sum(dict.fromkeys(range(1, 61), 0.01))
    given = Samples([[]] * 8, 0.05, lambda ours, exact: float(abs(ours - exact).max()))
    report = choose_fp16(graph, (), network, given).report
    assert len(report.kept) == 35
    assert network.runs < 60 * 3 + 8 * 8 + 16 * 3


def test_names_of_parts():
    module, _ = import_onnx(NETWORKS["squeezenet1_1"](SIZE))
    parts = parts_of(prepare(module, target=parse_target("llvm -mcpu=x86-64")))
    layers = {layer for layer, _ in parts}
    assert all(nodes and number == 0 for nodes, number in layers)
    assert {part for _, part in parts} == {WEIGHTS, RESULT}
