"""Graphs that a TFLite graph calls, held to LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from flatbuffers.flexbuffers import Dumps

from support.tflite_models import Graph
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx

ONE = np.array(1, np.int32)


def check(path, *, feeds):
    ours, theirs = Reference(path), LiteRtReference(path)
    for fed in feeds:
        for name, value in theirs.run(fed).items():
            np.testing.assert_allclose(ours.run(fed)[name], value, rtol=1e-6)


def body(kind):
    """(step, x) -> (step + 1, x + x or x * x)."""
    graph = Graph()
    step, x = graph.tensor((), "int32", name="step"), graph.tensor((2, 3), name="value")
    more, y = graph.tensor((), "int32", name="more"), graph.tensor((2, 3), name="grown")
    graph.operator("ADD", [step, graph.tensor(data=ONE)], [more], FusedActivationFunction=0)
    graph.operator(kind, [x, x], [y], FusedActivationFunction=0)
    graph.ends = ([step, x], [more, y])
    return graph


def until(count):
    """Whether the step is below a number, or the value is: the data decides."""
    graph = Graph()
    step, x = graph.tensor((), "int32", name="step"), graph.tensor((2, 3), name="value")
    below = graph.tensor((), "bool", name="below")
    if count is None:
        total = graph.tensor((), name="total")
        axes = graph.tensor(data=np.array([0, 1], np.int32))
        graph.operator("SUM", [x, axes], [total], KeepDims=False)
        graph.operator("LESS", [total, graph.tensor(data=np.array(9, np.float32))], [below])
    else:
        graph.operator("LESS", [step, graph.tensor(data=np.array(count, np.int32))], [below])
    graph.ends = ([step, x], [below])
    return graph


def loop(path, count):
    graph = Graph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    first, last = graph.tensor(data=np.array(0, np.int32)), graph.tensor((), "int32")
    ends = [first, x], [last, y]
    graph.operator("WHILE", *ends, CondSubgraphIndex=1, BodySubgraphIndex=2)
    return graph.write(path, [x], [y], until(count), body("ADD"))


def branch(path, known=None):
    """Either graph of ``body`` by a condition."""
    graph = Graph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    given = known is not None
    condition = graph.tensor(data=np.array(known)) if given else graph.tensor((), "bool", name="c")
    first, last = graph.tensor(data=np.array(0, np.int32)), graph.tensor((), "int32")
    ends = [condition, first, x], [last, y]
    graph.operator("IF", *ends, ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    inputs = [x] if given else [x, condition]
    return graph.write(path, inputs, [y], body("ADD"), body("MUL"))


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")
def test_loops_and_branches_are_those_of_litert(tmp_path):
    for count in (0, 1, 5):
        check(loop(tmp_path / "loop.tflite", count), feeds=[{"x": X}])
    for known in (True, False):
        check(branch(tmp_path / "known.tflite", known), feeds=[{"x": X}])
    feeds = [{"x": X, "c": np.array(choice)} for choice in (True, False)]
    check(branch(tmp_path / "chosen.tflite"), feeds=feeds)


def test_a_call_is_the_graph_that_it_calls(tmp_path):
    graph = Graph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    first, last = graph.tensor(data=np.array(0, np.int32)), graph.tensor((), "int32")
    graph.operator("CALL", [first, x], [last, y], Subgraph=1)
    path = graph.write(tmp_path / "call.tflite", [x], [y], body("MUL"))
    np.testing.assert_array_equal(Reference(path).run({"x": X})["y"], X * X)


@pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")
def test_a_composite_is_the_graph_that_it_is_made_of(tmp_path):
    """Whatever it is called: converters of PyTorch and JAX mark norms and attention so."""
    graph = Graph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    first, last = graph.tensor(data=np.array(0, np.int32)), graph.tensor((), "int32")
    graph.operator(
        "STABLEHLO_COMPOSITE", [first, x], [last, y], Name="odml.squares",
        DecompositionSubgraphIndex=1, CompositeAttributes=np.frombuffer(Dumps({}), np.uint8),
    )  # fmt: skip
    check(graph.write(tmp_path / "made.tflite", [x], [y], body("MUL")), feeds=[{"x": X}])


def test_a_loop_that_the_data_ends_is_refused(tmp_path):
    with pytest.raises(
        UnsupportedModelError, match="WHILE .*depends on the data.*: export the net"
    ):
        tflite_to_onnx(loop(tmp_path / "loop.tflite", None))


def test_a_loop_without_end_is_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="WHILE .*more than 1000 steps"):
        tflite_to_onnx(loop(tmp_path / "loop.tflite", 1 << 30))


def test_what_is_called_is_named_where_it_is_not_there(tmp_path):
    graph, other = Graph(), Graph()
    x, y = graph.tensor((2,), name="x"), graph.tensor((2,), name="y")
    a, b = other.tensor((2,)), other.tensor((2,))
    other.operator("FlexErf", [a], [b], custom=b"")
    other.ends = ([a], [b])
    graph.operator("CALL", [x], [y], Subgraph=1)
    path = graph.write(tmp_path / "call.tflite", [x], [y], other)
    with pytest.raises(UnsupportedModelError, match="CALL .*it calls FlexErf, an operator of Tens"):
        tflite_to_onnx(path)
