"""LSTM, GRU and RNN: each form of them against onnxruntime, or refused with what to do.

FEW steps are written out, LENGTH of them are one kernel.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

import tvm_vision
from support.conformance.conformance_worker import executor
from support.onnx_models import make_model
from tvm_vision.compiler.relax import recurrences
from tvm_vision.compiler.target import parse_target
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.cost.device_model import DISCRETE
from tvm_vision.topi.recurrence import kernel
from tvm_vision.topi.recurrence.form import RecurrentForm, RecurrentTile
from tvm_vision.topi.recurrence.launches import Launches

MEASURED = str(Path(__file__).parents[3] / "benchmarks/results/nvidia-h200-device.json")
SEED = 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FEW, LENGTH, BATCH, FEATURES, SIZE = 4, 6, 2, 3, 5


def numbers(*shape):
    # Large enough that gates and clips have something to do.
    return np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)


def layer(
    operator,
    *,
    given=("b",),
    results=("y", "h1", "c1"),
    layout=0,
    lengths=None,
    length=LENGTH,
    batch=BATCH,
    size=SIZE,
    opset=17,
    **attributes,
):
    """A model of one node; ``given`` are its inputs beside x, w and r: b, h, c or p."""
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    width = GATES[operator] * size
    state = (batch, count, size) if layout else (count, batch, size)
    weights = {
        "w": numbers(count, width, FEATURES),
        "r": numbers(count, width, size),
        "b": numbers(count, 2 * width),
        "lengths": None if lengths is None else np.array(lengths, np.int32),
        "h": numbers(*state),
        "c": numbers(*state),
        "p": numbers(count, 3 * size),
    }
    given = {"w", "r", *given, *([] if lengths is None else ["lengths"])}
    names = ["x", *(name if name in given else "" for name in weights)]
    shapes = {
        "y": (batch, length, count, size) if layout else (length, count, batch, size),
        "h1": state,
        "c1": state,
    }
    results = list(results[: 3 if operator == "LSTM" else 2])
    if layout:
        attributes["layout"] = 1
    while not names[-1]:
        names.pop()
    node = helper.make_node(operator, names, results, hidden_size=size, **attributes)
    return make_model(
        [node],
        [("x", (batch, length, FEATURES) if layout else (length, batch, FEATURES))],
        [(name, shapes[name]) for name in results if name],
        [(name, weights[name]) for name in weights if name in given],
        opset=opset,
    )


def ours(model, *arrays):
    return executor(import_onnx(model), "llvm")(*arrays)


def expected(model, x):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})


def assert_equal(results, reference):
    assert len(results) == len(reference)
    for result, wanted in zip(results, reference, strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [FEW, LENGTH])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {}),
        ("LSTM", {"given": ("b", "h", "c", "p"), "clip": 0.5}),
        ("GRU", {"given": ("b", "h")}),
        ("GRU", {"given": ("b", "h"), "linear_before_reset": 1, "clip": 0.5}),
        ("RNN", {"given": ("b", "h"), "clip": 0.5}),
    ],
)
def test_each_direction(operator, options, direction, length):
    model = layer(operator, direction=direction, length=length, **options)
    x = numbers(length, BATCH, FEATURES)
    assert_equal(ours(model, x), expected(model, x))


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {"given": ()}),
        ("LSTM", {"given": ("c",), "results": ("", "", "c1")}),
        ("LSTM", {"results": ("y",), "lengths": [LENGTH] * BATCH}),
        ("LSTM", {"activations": ["Tanh", "Relu", "Sigmoid"]}),
        ("GRU", {"given": (), "linear_before_reset": 1, "results": ("", "h1")}),
        ("GRU", {"activations": ["sigmoid", "tanh"], "batch": 1}),
        ("RNN", {"activations": ["Relu"], "results": ("y",)}),
        # Places of a Slice are attributes there, and axes of a Squeeze.
        ("LSTM", {"opset": 7, "given": ("b", "p")}),
    ],
)
def test_what_is_left_out_and_what_is_named(operator, options):
    model = layer(operator, **options)
    x = numbers(LENGTH, options.get("batch", BATCH), FEATURES)
    assert_equal(ours(model, x), expected(model, x))


@pytest.mark.parametrize(
    ("activation", "numbers_given"),
    [
        ("Affine", {"activation_alpha": [0.7], "activation_beta": [0.1]}),
        ("LeakyRelu", {"activation_alpha": [0.2]}),
        ("ThresholdedRelu", {"activation_alpha": [0.3]}),
        ("ScaledTanh", {"activation_alpha": [1.2], "activation_beta": [0.4]}),
        ("HardSigmoid", {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("Elu", {"activation_alpha": [0.6]}),
        ("Softsign", {}),
        ("Softplus", {}),
    ],
)
def test_each_activation(activation, numbers_given):
    model, x = (
        layer("RNN", activations=[activation], **numbers_given),
        numbers(LENGTH, BATCH, FEATURES),
    )
    # Of a large number onnxruntime's Softplus is infinite.
    scale_weights(model, np.float32(0.3))
    assert_equal(ours(model, x), expected(model, x))


@pytest.mark.parametrize(
    "options",
    [
        # As Keras' older networks have it.
        {"activations": ["HardSigmoid", "Tanh", "Tanh"]},
        {
            "activations": ["HardSigmoid", "LeakyRelu", "Tanh"],
            "activation_alpha": [0.25, 0.05],
            "activation_beta": [0.4],
            "clip": 0.5,
        },
        {"input_forget": 1},
    ],
)
def test_gates_of_other_functions_and_coupled(options):
    model, x = layer("LSTM", **options), numbers(LENGTH, BATCH, FEATURES)
    assert_equal(ours(model, x), expected(model, x))


@pytest.mark.parametrize("operator", GATES)
def test_the_batch_before_the_steps(operator):
    # onnxruntime has no kernel for it: the other layout, turned, is the reference.
    options = {"direction": "bidirectional", "given": ("b",)}
    x = numbers(BATCH, LENGTH, FEATURES)
    y, *states = expected(layer(operator, **options), np.ascontiguousarray(x.swapaxes(0, 1)))
    reference = [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)]
    assert_equal(ours(layer(operator, layout=1, **options), x), reference)


@pytest.mark.parametrize("operator", GATES)
def test_on_a_vulkan_device(operator):
    model = layer(operator, direction="bidirectional")
    x = numbers(LENGTH, BATCH, FEATURES)
    assert_equal(executor(import_onnx(model), "vulkan")(x), expected(model, x))


# (batch, size): of one number, less than a vector, with a rest, of several slices, of several
# numbers a thread where there are few; batches that blocks do not divide.
SIZES = [(1, 1), (3, 7), (9, 48), (5, 130), (1, 128), (1, 256), (2, 300)]


LAYERS = [("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})]
TARGETS = ("llvm", "vulkan", "vulkan -max_threads_per_block=64")


@pytest.mark.parametrize(
    ("operator", "options", "batch", "size", "target"),
    [
        # By default half: each pair of a size and a target, of an operator and a target.
        pytest.param(
            *(*layer, *each, target),
            marks=pytest.mark.slow if (at + number + place) % 2 else [],
        )
        for at, layer in enumerate(LAYERS)
        for number, each in enumerate(SIZES)
        for place, target in enumerate(TARGETS)
    ],
)
def test_sizes_and_batches(operator, options, batch, size, target):
    model = layer(operator, direction="bidirectional", batch=batch, size=size, **options)
    scale_weights(model, np.float32(1 / np.sqrt(size)))
    x = numbers(LENGTH, batch, FEATURES)
    assert_equal(executor(import_onnx(model), target)(x), expected(model, x))


@pytest.mark.parametrize(("operator", "size", "kept"), [("LSTM", 256, True), ("GRU", 64, False)])
def test_loops_over_more_weights_than_registers_stay_loops(operator, size, kept, tmp_path):
    """Written out, they are fetched before the first step: a driver spilled 591 registers."""
    model = layer(operator, size=size, results=("y",))
    tvm_vision.compile(model, tmp_path / "net.tar", target="renoir", dump_shaders=tmp_path)
    (source,) = tmp_path.glob("recurrence*.comp")
    assert ("[[dont_unroll]]" in source.read_text()) == kept


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("operator", "options", "size"),
    [
        ("LSTM", {"given": ("b", "h", "c", "p")}, 396),
        ("LSTM", {}, 277),  # no vectors, which no slices divide; the last workgroup has a rest
        ("GRU", {"given": ("b", "h"), "linear_before_reset": 1}, 404),
        ("RNN", {"clip": 0.5}, 508),
    ],
)
def test_steps_of_many_weights_are_launches(
    operator, options, size, direction, precision, monkeypatch
):
    limits = TargetLimits.of
    monkeypatch.setattr(recurrences, "LEAST_GAIN", 0)
    monkeypatch.setattr(TargetLimits, "of", lambda *of: replace(limits(*of), device=DISCRETE))
    monkeypatch.setattr(RecurrentTile, "keeps_weights", lambda *_: False)
    made = []

    def launches(of):
        made.append(of)
        return Launches(of)

    monkeypatch.setattr(kernel, "Launches", launches)
    model = layer(operator, direction=direction, batch=1, size=size, **options)
    scale_weights(model, np.float32(1 / np.sqrt(size)))
    x = numbers(LENGTH, 1, FEATURES)
    found = executor(import_onnx(model), "vulkan", precision=precision)(x)
    assert made
    for result, wanted in zip(found, expected(model, x), strict=True):
        np.testing.assert_allclose(
            result, wanted, rtol=0, atol=1e-5 if precision == "fp32" else 4e-3
        )


@pytest.mark.parametrize(
    ("operator", "options", "batch", "size", "launched"),
    [
        ("LSTM", {}, 1, 512, True),
        ("LSTM", {}, 4, 512, False),  # workgroups of their own for each sequence
        ("LSTM", {}, 1, 128, False),  # a step would wait for its launch
        ("GRU", {}, 1, 512, False),  # two products
        ("GRU", {"linear_before_reset": 1}, 1, 512, True),
    ],
)
def test_which_steps_are_launches(operator, options, batch, size, launched, tmp_path):
    model = layer(operator, batch=batch, size=size, results=("y",), **options)
    tvm_vision.compile(model, tmp_path / "net.tar", target=MEASURED, dump_shaders=tmp_path)
    (source,) = tmp_path.glob("recurrence*.comp")
    assert ("uniform Scalars" in source.read_text()) == launched


@pytest.mark.parametrize(
    ("device", "operator", "size", "kept"),
    [
        # A thread of 1,024 has a quarter of the registers that one of 256 has.
        ("renoir", "GRU", 256, False),
        ("phoenix", "GRU", 256, False),
        ("renoir", "GRU", 128, True),
        ("renoir", "LSTM", 128, False),
        ("phoenix", "LSTM", 128, True),  # two halves in a register
        ("tgl", "GRU", 256, True),
    ],
)
def test_weights_stay_in_registers_where_threads_have_as_many(device, operator, size, kept):
    form = RecurrentForm(operator, (1,), (), reset_after=True)
    tile = recurrences.tile_for(parse_target(device), form, 1, 1, size, 4)
    assert tile.keeps_weights(form, size) is kept


def scale_weights(model, scale):
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * scale, tensor.name))


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("operator", GATES)
def test_in_fp16(operator, target):
    model, x = layer(operator, direction="bidirectional"), numbers(LENGTH, BATCH, FEATURES)
    found = executor(import_onnx(model), target, precision="fp16")(x)
    for result, wanted in zip(found, expected(model, x), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=4e-3)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_weights_are_halves_in_fp16(target):
    """Each step reads all of them; states stay float32 from step to step."""
    from tvm_vision.compiler import compile_model

    imported = import_onnx(layer("LSTM", size=64, results=("y",)))
    params = compile_model(*imported, target=target, precision="fp16").params
    assert {str(value.dtype) for value in params.values() if value.size > 1000} == {"float16"}


@pytest.mark.parametrize("operator", GATES)
def test_weights_that_are_computed(operator):
    model, x = layer(operator, results=("y",)), numbers(LENGTH, BATCH, FEATURES)
    (weights,) = (t for t in model.graph.initializer if t.name == "r")
    shape = helper.make_tensor_value_info("r", 1, weights.dims)
    model.graph.input.append(shape)
    model.graph.initializer.remove(weights)
    given = numbers(*weights.dims)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert_equal(ours(model, x, given), session.run(None, {"x": x, "r": given}))


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_more_steps_are_not_more_kernels(target):
    from tvm_vision.compiler import compile_model

    def kernels(length):
        model = layer("LSTM", direction="bidirectional", length=length, results=("y",))
        return len(compile_model(*import_onnx(model), target=target).graph["kernels"])

    assert kernels(500) == kernels(LENGTH) <= 4


@pytest.mark.parametrize(
    ("operator", "options", "reason", "remedy"),
    [
        ("RNN", {"activations": ["Swish"]}, "the activation Swish", "use one of Relu, Sigmoid,"),
        (
            "RNN",
            {"activations": ["Tanh", "Relu"], "direction": "bidirectional"},
            "the activations Tanh, Relu",
            "give 1, the same for each direction",
        ),
        (
            "RNN",
            {
                "activations": ["Elu"] * 2,
                "activation_alpha": [1.0, 2.0],
                "direction": "bidirectional",
            },
            "the activations Elu, Elu",
            "give 1, the same for each direction",
        ),
    ],
)
def test_refused_with_what_to_do(operator, options, reason, remedy):
    with pytest.raises(
        UnsupportedModelError, match=rf"{operator} \({reason}\) at '{operator}_0': {remedy}"
    ):
        import_onnx(layer(operator, **options))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_weights_in_int8(direction, per_channel, tmp_path):
    """What onnxruntime's dynamic quantization writes; it rounds inputs and states too. Of inputs
    far from 0 the rounding decides, by a third of the results."""
    model = layer("LSTM", direction=direction, given=("b", "h", "c"))
    path = tmp_path / "int8.onnx"
    quantize_dynamic(model, path, per_channel=per_channel)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["DynamicQuantizeLSTM"]
    x = numbers(LENGTH, BATCH, FEATURES)
    results = ours(path, x)
    for result, rounded, real in zip(
        results, expected(onnx.load(path), x), expected(model, x), strict=True
    ):
        bound = 2 * np.abs(rounded - real).max()
        np.testing.assert_allclose(result, rounded, rtol=0, atol=bound)
        np.testing.assert_allclose(result, real, rtol=0, atol=bound)
    x = 300 * x
    for result, rounded in zip(ours(path, x), expected(onnx.load(path), x), strict=True):
        np.testing.assert_allclose(result, rounded, rtol=0, atol=0.01 * np.abs(rounded).max())


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {"given": ("b", "h", "c", "p"), "clip": 0.5}),
        ("GRU", {"given": ("b", "h")}),
        ("RNN", {}),
    ],
)
@pytest.mark.parametrize("length", [FEW, LENGTH])
def test_sequences_that_end_before_others(operator, options, length):
    """Of each direction, as a constant and as an input; states stay where a sequence ends."""
    x, ends = numbers(length, BATCH, FEATURES), [length, *range(1, BATCH)]
    model = layer(operator, direction="bidirectional", length=length, lengths=ends, **options)
    wanted = expected(model, x)
    assert_equal(ours(model, x), wanted)
    model.graph.input.append(helper.make_tensor_value_info("lengths", 6, (BATCH,)))
    del model.graph.initializer[[t.name for t in model.graph.initializer].index("lengths")]
    assert_equal(ours(model, x, np.array(ends, np.int32)), wanted)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_that_end_before_others_on_a_vulkan_device(operator, direction):
    """Backwards alone they were compared in 64 bits, which a driver gets wrong."""
    x, ends = numbers(LENGTH, BATCH, FEATURES), [LENGTH, *range(1, BATCH)]
    model = layer(operator, direction=direction, lengths=ends)
    assert_equal(executor(import_onnx(model), "vulkan")(x), expected(model, x))
