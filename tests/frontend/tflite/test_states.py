"""Streaming networks: what LiteRT keeps from frame to frame is an input and an output here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.tflite_models import Graph
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.evaluate import LiteRtReference, Reference
from tvm_vision.evaluate.litert import has_litert
from tvm_vision.frontend.tflite.load import tflite_to_onnx

STATE: dict[str, Any] = {"SharedName": "memory"}


def window(path, first=0.0):
    """The last three of the numbers that came, one each frame; ``first`` before there are any."""
    begin = Graph()
    handle = begin.tensor((), "resource")
    begin.operator("VAR_HANDLE", [], [handle], **STATE)
    value = begin.tensor(data=np.full((1, 2), first, np.float32))
    begin.operator("ASSIGN_VARIABLE", [handle, value], [])

    graph = Graph()
    x, y = graph.tensor((1, 1), name="x"), graph.tensor((1, 3), name="y")
    handle, old, new = graph.tensor((), "resource"), graph.tensor((1, 2)), graph.tensor((1, 2))
    where = [graph.tensor(data=np.array(v, np.int32)) for v in ([0, 1], [1, 3], [1, 1])]
    graph.operator("CALL_ONCE", [], [], InitSubgraphIndex=1)
    graph.operator("VAR_HANDLE", [], [handle], **STATE)
    graph.operator("READ_VARIABLE", [handle], [old])
    graph.operator("CONCATENATION", [old, x], [y], Axis=1)
    graph.operator("STRIDED_SLICE", [y, *where], [new])
    graph.operator("ASSIGN_VARIABLE", [handle, new], [])
    return graph.write(path, [x], [y], begin)


def test_what_a_frame_leaves_goes_into_the_next(tmp_path):
    network = Reference(window(tmp_path / "window.tflite"))
    assert network.inputs == ["x", "memory"]
    memory, seen = np.zeros((1, 2), np.float32), []
    for number in range(1, 5):
        found = network.run({"x": np.full((1, 1), number, np.float32), "memory": memory})
        memory = found["memory/next"]
        seen.append(found["y"].ravel().tolist())
    assert seen == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


@pytest.mark.skipif(not has_litert(), reason="ai-edge-litert is not installed")
def test_litert_gives_the_first_frame_every_time(tmp_path):
    path = window(tmp_path / "window.tflite")
    engine, fed = LiteRtReference(path), {"x": np.ones((1, 1), np.float32)}
    for _ in range(2):
        assert engine.run(fed)["y"].ravel().tolist() == [0, 0, 1]


def test_a_state_that_does_not_begin_with_zeros_is_refused(tmp_path):
    path = window(tmp_path / "window.tflite", first=0.5)
    with pytest.raises(UnsupportedModelError, match="CALL_ONCE .*does not begin with zeros"):
        tflite_to_onnx(path)
