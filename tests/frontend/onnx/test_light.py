"""Files read without the values of their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from support.random_networks import random_network
from tvm_vision.frontend.onnx.light import load_light
from tvm_vision.frontend.onnx.tools import SMALL, without_large_values


def model_of(*sizes: int) -> onnx.ModelProto:
    """Sums of weights of these sizes."""
    weights = [
        numpy_helper.from_array(np.arange(size, dtype=np.float32), f"w{size}") for size in sizes
    ]
    nodes = [helper.make_node("ReduceSum", [w.name], [f"y{w.name}"]) for w in weights]
    outputs = [helper.make_tensor_value_info(n.output[0], TensorProto.FLOAT, []) for n in nodes]
    model = helper.make_model(helper.make_graph(nodes, "sums", [], outputs, weights))
    model.metadata_props.add(key="names", value="{0: 'ball'}" * 99)
    return model


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_large_weights_are_left_out_and_nothing_else(tmp_path: Path) -> None:
    model = model_of(1, SMALL, 2 * SMALL + 1, 1 << 20)
    light, wanted = load_light(saved(model, tmp_path)), without_large_values(model)
    # Texts that are empty are written by one and left out by the other.
    for graph in (light.graph, wanted.graph):
        graph.ClearField("doc_string")
    assert light.graph == wanted.graph
    assert light.metadata_props == wanted.metadata_props
    assert light.ByteSize() < 3e4 < model.ByteSize()


@pytest.mark.parametrize("seed", range(8))
def test_what_is_small_is_read_whole(seed: int, tmp_path: Path) -> None:
    model = random_network(seed)
    assert load_light(saved(model, tmp_path)) == model


def test_where_weights_lie_is_kept(tmp_path: Path) -> None:
    model = model_of(1 << 14)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights")
    assert load_light(path) == onnx.load(path, load_external_data=False)


def test_a_graph_that_is_damaged_is_none(tmp_path: Path) -> None:
    path = saved(model_of(1 << 14), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DecodeError, match="ends behind its message"):
        load_light(path)
    path.write_bytes(b"")
    assert load_light(path) == onnx.ModelProto()


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_bytes_that_nobody_wrote_are_read_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.onnx"
    path.write_bytes(content)
    plain = onnx.ModelProto()
    try:
        plain.ParseFromString(content)
    except DecodeError:
        plain = None
    try:
        found = load_light(path)
    except DecodeError:
        return
    assert plain is None or found == plain
