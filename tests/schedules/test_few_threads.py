"""No kernel has few threads beside its work, on a GPU that is not here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.zoo.networks import NETWORKS
from support.compiled import MATRIX_GPU
from support.few_threads import LANES, STEPS, Launch, launches_in, launches_of
from support.networks import Builder
from support.tir_kernels import gated_by_few
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx

IMAGE, ROWS = (2, 32, 56, 56), (2, 197, 64)


def squeeze_and_excite(b: Builder) -> str:
    """A gate of one pixel, and the image that it multiplies behind its convolution."""
    pooled = b.node("GlobalAveragePool", ["image"])
    gate = b.conv(b.conv(pooled, 32, 8, act="relu"), 8, 32)
    return b.node("Mul", ["image", b.node("Sigmoid", [gate])])


def dilated(b: Builder) -> str:
    weights = b.constant(np.ones((32, 32, 3, 3), np.float32))
    return b.node("Conv", ["image", weights], dilations=[6, 6], pads=[6] * 4)


def resized(b: Builder) -> str:
    """Two channels of many pixels, made of few, and the larger of both."""
    few = b.conv("image", 32, 2)
    sizes = b.constant(np.array([2, 2, 224, 224], np.int64))
    large = b.node("Resize", [few, "", "", sizes], mode="linear")
    return b.node("ArgMax", [large], axis=1)


def joined(b: Builder) -> str:
    """Parts behind each other, and a frame around them, behind a sum of one pixel."""
    part = b.node("Concat", ["image", b.node("Relu", ["image"]), b.conv("image", 32, 8)], axis=1)
    whole = b.node("Pad", [part, b.constant(np.array([0, 0, 3, 3] * 2, np.int64))])
    return b.node("Add", [whole, b.conv(b.node("GlobalAveragePool", [whole]), 72, 72)])


def attention(b: Builder) -> str:
    """Products of odd numbers of rows, and what lies between them."""
    turned = b.node("Transpose", ["rows"], perm=[0, 2, 1])
    weights = b.node("Softmax", [b.node("MatMul", ["rows", turned])], axis=-1)
    return b.node("MatMul", [weights, "rows"])


def reduced(b: Builder) -> str:
    """All of an image, of each channel and of each pixel."""
    parts = [b.node("ReduceMean", ["image"], axes=axes, keepdims=1) for axes in ([1, 2, 3], [2, 3])]
    return b.node("Add", [b.node("ReduceMax", ["image"], axes=[1]), b.node("Mul", parts)])


def peaks(b: Builder) -> str:
    """Where each of a few heat maps is highest, and which of many values is."""
    maps = b.node("Reshape", [b.conv("image", 32, 17), b.constant(np.array([2, 17, -1]))])
    large = b.node("Resize", [maps, "", "", b.constant(np.array([2, 17, 16384]))], mode="nearest")
    places = [b.node("ArgMax", [x], axis=2) for x in (large, b.node("Neg", [large]))]
    return b.node("Sub", places)


def assigned(b: Builder) -> str:
    """Many updates in a tensor: of places that the file says, and of those that data do."""
    rows, columns = np.meshgrid(np.arange(2), np.arange(197), indexing="ij")
    places = b.constant(np.stack([rows, columns], -1)[:, ::-1])
    put = b.node("ScatterND", ["rows", places, b.node("Neg", ["rows"])])
    flat = b.node("Reshape", [put, b.constant(np.array([-1]))])
    order = b.node("Cast", [flat], to=TensorProto.INT64)
    points = b.node("Reshape", [order, b.constant(np.array([-1, 1]))])
    moved = b.node("ScatterND", [flat, points, flat])
    return b.node("ScatterElements", [moved, order, flat], axis=0)


def unpooled(b: Builder) -> str:
    """As MaxUnpool writes an image's numbers, where data say, and what is added up there."""
    flat = b.node("Reshape", ["image", b.constant(np.array([-1]))])
    places = b.node(
        "Reshape", [b.node("Cast", [flat], to=TensorProto.INT64), b.constant(np.array([-1, 1]))]
    )
    wide = b.node("Concat", [flat, flat, flat, flat], axis=0)
    put = b.node("ScatterND", [wide, places, flat])
    return b.node("ScatterND", [put, places, flat], reduction="add")


def network() -> onnx.ModelProto:
    b = Builder(1)
    layers = (
        squeeze_and_excite,
        dilated,
        resized,
        joined,
        attention,
        reduced,
        peaks,
        assigned,
        unpooled,
    )
    results = [layer(b) for layer in layers]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", IMAGE), ("rows", ROWS))
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(b.nodes, "layers", inputs, outputs, b.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_no_layer_leaves_threads_idle(precision: str) -> None:
    module, _ = import_onnx(network())
    found = launches_of(module, parse_target(MATRIX_GPU), precision=precision)
    assert len(found) > 12
    assert not [launch for launch in found if launch.is_cliff]


def test_a_walk_of_few_threads_is_seen() -> None:
    """The product with a gate within its convolution: a thread a channel, for all pixels."""

    (launch,) = launches_in("gated", "", gated_by_few)
    assert launch == Launch("gated", "", 256, 4096)
    assert launch.is_cliff
    assert not Launch("small", "", 32, STEPS).is_cliff
    assert not Launch("busy", "", LANES, 100 * STEPS).is_cliff


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "timm")),
    reason="needs PyTorch, torchvision and timm, which the zoo's networks are of",
)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.file)
def test_no_network_of_the_zoo_leaves_threads_idle(network, tmp_path: Path) -> None:
    if network.source != "own" and importlib.util.find_spec(network.source) is None:
        pytest.skip(f"needs {network.source}")
    path = tmp_path / "network.onnx"
    network.export(path)
    module, _ = import_onnx(path)
    for precision in ("fp32", "fp16"):
        found = launches_of(module, parse_target(MATRIX_GPU), precision=precision)
        assert found
        # The steps of a sequence wait for one another, whatever there are of threads.
        cliffs = [launch for launch in found if launch.is_cliff]
        assert not [launch for launch in cliffs if not launch.kernel.startswith("recurrence")]
