"""TFLite's recurrent operators, held to LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tflite_models import Graph
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx

pytestmark = pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")

TANH, RELU, RELU6 = 4, 1, 3
FEATURES, UNITS, STEPS = 3, 5, 4
RANDOM = np.random.default_rng(4)


def real(*shape, scale=0.6):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def lstm_weights(graph, units=UNITS, out=UNITS, *, coupled=False, peepholes=False, norms=False):
    """Places 1 to 17 of an LSTM's inputs, and those of its norms."""
    four = range(4)
    parts = [graph.tensor(data=real(units, FEATURES)) for _ in four]
    parts += [graph.tensor(data=real(units, out)) for _ in four]
    parts += [graph.tensor(data=real(units)) if peepholes else -1 for _ in range(3)]
    parts += [graph.tensor(data=real(units)) for _ in four]
    projected = out != units
    parts += [graph.tensor(data=real(out, units)) if projected else -1]
    parts += [graph.tensor(data=real(out)) if projected else -1]
    if coupled:
        for place in (0, 4, 8, 11):
            parts[place] = -1
    return parts, [graph.tensor(data=real(units)) if norms else -1 for _ in four]


def lstm(path, *, time_major=False, units=UNITS, out=UNITS, clip=0.0, single=False, **what):
    graph = Graph()
    ahead = () if single else (STEPS, 2) if time_major else (2, STEPS)
    x = graph.tensor((*ahead, FEATURES) if ahead else (2, FEATURES), name="x")
    y = graph.tensor((*ahead, out) if ahead else (2, out), name="y")
    weights, norms = lstm_weights(graph, units, out, **what)
    states = [
        graph.tensor((2, size), name=name, variable=True)
        for name, size in (("output", out), ("cell", units))
    ]
    options: dict[str, Any] = {"FusedActivationFunction": TANH, "CellClip": clip}
    if not single:
        options["TimeMajor"] = time_major
    used = [*weights, *states, *norms]
    kind = "LSTM" if single else "UNIDIRECTIONAL_SEQUENCE_LSTM"
    graph.operator(kind, [x, *used], [y], **options)
    return graph.write(path, [x], [y])


def lstm_of_both(path, *, merged):
    graph = Graph()
    # LiteRT's kernel of merged outputs takes the state of a second sequence from another place.
    batch = 1 if merged else 2
    x = graph.tensor((batch, STEPS, FEATURES), name="x")
    width = 2 * UNITS if merged else UNITS
    ys = [graph.tensor((batch, STEPS, width), name=f"y{i}") for i in range(1 if merged else 2)]
    weights = [place for _ in range(2) for place in lstm_weights(graph)[0]]
    states = [graph.tensor((batch, UNITS), variable=True) for _ in range(4)]
    inputs = [x, *weights, *states, *[-1] * 9]
    options = {"FusedActivationFunction": TANH, "MergeOutputs": merged, "TimeMajor": False}
    graph.operator("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, ys, **options)
    return graph.write(path, [x], ys)


def rnn_weights(graph):
    shapes = ((UNITS, FEATURES), (UNITS, UNITS), (UNITS,))
    parts = [graph.tensor(data=real(*shape)) for shape in shapes]
    return [*parts, graph.tensor((2, UNITS), name="hidden", variable=True)]


def rnn(path, kind, *, activation=TANH, **options):
    graph = Graph()
    ahead = (2,) if kind == "RNN" else (2, STEPS)
    both = kind.startswith("BI")
    x = graph.tensor((*ahead, FEATURES), name="x")
    y = graph.tensor((*ahead, UNITS * (1 + both)), name="y")
    weights = rnn_weights(graph)
    if both:
        weights += [*rnn_weights(graph), -1, -1, -1]
        options["MergeOutputs"] = True
    graph.operator(kind, [x, *weights], [y], FusedActivationFunction=activation, **options)
    return graph.write(path, [x], [y])


def svdf(path, *, rank=2, memory=3):
    graph = Graph()
    x, y = graph.tensor((2, FEATURES), name="x"), graph.tensor((2, UNITS), name="y")
    filters = UNITS * rank
    weights = [graph.tensor(data=real(*s)) for s in ((filters, FEATURES), (filters, memory))]
    weights.append(graph.tensor(data=real(UNITS)))
    state = graph.tensor((2, memory * filters), name="frames", variable=True)
    options = {"Rank": rank, "FusedActivationFunction": RELU}
    graph.operator("SVDF", [x, *weights, state], [y], **options)
    return graph.write(path, [x], [y])


def check(path):
    """One sequence, twice: the state begins with zeros each time."""
    ours, theirs = Reference(path), LiteRtReference(path)
    assert ours.inputs == theirs.inputs
    for _ in range(2):
        shape = ours._session.get_inputs()[0].shape
        given = {"x": real(*shape, scale=2.0)}
        found, wanted = ours.run(given), theirs.run(given)
        assert list(found) == list(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)


SEQUENCES: dict[str, dict[str, Any]] = {
    "plain": {},
    "time first": {"time_major": True},
    "clipped": {"clip": 0.3},
    "coupled": {"coupled": True},
    "peepholes": {"peepholes": True},
    "peepholes, clipped": {"peepholes": True, "clip": 10.0},
    "coupled, with peepholes": {"coupled": True, "peepholes": True},
    "projected": {"out": 2},
    "normalised": {"norms": True},
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_lstm_over_a_sequence(tmp_path, name):
    check(lstm(tmp_path / "lstm.tflite", **SEQUENCES[name]))


@pytest.mark.parametrize("merged", [True, False])
def test_lstm_in_both_directions(tmp_path, merged):
    check(lstm_of_both(tmp_path / "lstm.tflite", merged=merged))


@pytest.mark.parametrize("activation", [TANH, RELU, RELU6])
@pytest.mark.parametrize("direction", ["UNIDIRECTIONAL", "BIDIRECTIONAL"])
def test_rnn_over_a_sequence(tmp_path, direction, activation):
    kind = f"{direction}_SEQUENCE_RNN"
    check(rnn(tmp_path / "rnn.tflite", kind, activation=activation, TimeMajor=False))


def test_what_onnx_has_is_no_node_for_each_step(tmp_path):
    """So that it is one kernel, however long the sequence is."""
    path = lstm_of_both(tmp_path / "lstm.tflite", merged=True)
    kinds = [node.op_type for node in tflite_to_onnx(path).model.graph.node]
    assert kinds.count("LSTM") == 2
    assert "Sigmoid" not in kinds
    path = rnn(tmp_path / "rnn.tflite", "UNIDIRECTIONAL_SEQUENCE_RNN", TimeMajor=False)
    kinds = [node.op_type for node in tflite_to_onnx(path).model.graph.node]
    assert kinds.count("RNN") == 1
    assert "Tanh" not in kinds


def frames(path, states, count=4):
    """What both give frame by frame; LiteRT keeps the states to itself."""
    from ai_edge_litert.interpreter import Interpreter

    theirs, ours = Interpreter(str(path)), Reference(path)
    theirs.allocate_tensors()
    (entry,), (result,) = theirs.get_input_details(), theirs.get_output_details()
    kept = {name: np.zeros(shape, np.float32) for name, shape in states.items()}
    assert ours.inputs == ["x", *states]
    for _ in range(count):
        x = real(*entry["shape"], scale=2.0)
        theirs.set_tensor(entry["index"], x)
        theirs.invoke()
        found = ours.run({"x": x, **kept})
        np.testing.assert_allclose(
            found["y"], theirs.get_tensor(result["index"]), rtol=1e-5, atol=1e-5
        )
        kept = {name: found[f"{name}/next"] for name in states}


def test_what_one_step_leaves_goes_into_the_next_frame(tmp_path):
    path = tmp_path / "steps.tflite"
    frames(svdf(path), {"frames": (2, 30)})
    frames(rnn(path, "RNN", activation=RELU), {"hidden": (2, UNITS)})
    frames(lstm(path, single=True, clip=0.5), {"output": (2, UNITS), "cell": (2, UNITS)})


def test_states_of_integers_are_refused(tmp_path):
    graph = Graph()
    x = graph.tensor((1, FEATURES), "int8", name="x", scale=0.1)
    y = graph.tensor((1, UNITS), "int8", name="y", scale=0.1)
    graph.operator("RNN", [x, *rnn_weights(graph)], [y], FusedActivationFunction=RELU)
    with pytest.raises(UnsupportedModelError, match="RNN .*kept as integers.*: convert the file"):
        tflite_to_onnx(graph.write(tmp_path / "rnn.tflite", [x], [y]))
