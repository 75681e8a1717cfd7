"""Sums that leave fp16's range though the numbers of the network do not: they keep float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from support.fp16_forms import Nodes, expected, network_of, node, of_image, shapes_of_fp32
from support.interpreter import run
from support.networks import NETWORKS
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

# Of numbers as trained transformers have among their activations; all are far below 65,504.
LARGE = 3000.0
BOUND = 2e-3


def normalized(square: Nodes) -> Nodes:
    """A layer normalization written out, as older exporters write it."""
    return [
        node("ReduceMean", "r last", "mean", keepdims=1),
        node("Sub", "r mean", "d"),
        *square,
        node("ReduceMean", "q last", "v", keepdims=1),
        node("Add", "v small", "e"),
        node("Sqrt", "e", "s"),
        node("Div", "d s", "y"),
    ]


FORMS: dict[str, Nodes] = {
    "layer normalization, by Pow": normalized([node("Pow", "d two", "q")]),
    "layer normalization, by Mul": normalized([node("Mul", "d d", "q")]),
    "root mean square": [
        node("Mul", "r r", "q"),
        node("ReduceMean", "q last", "v", keepdims=1),
        node("Sqrt", "v", "s"),
        node("Div", "r s", "y"),
    ],
    "global response": [
        node("ReduceL2", "r rows", "n", keepdims=1),
        node("ReduceMean", "n last", "m", keepdims=1),
        node("Div", "n m", "q"),
        node("Mul", "r q", "y"),
    ],
    "unit length": [node("LpNormalization", "r", "y", axis=-1, p=2)],
    "cubes": [
        node("Pow", "r three", "q"),
        node("ReduceMean", "q last", "v", keepdims=1),
        node("Pow", "v third", "s"),
        node("Div", "r s", "y"),
    ],
    # Roots and quotients of what is not few beside what it is of.
    "local response": of_image(node("LRN", "i", "y", size=3, alpha=0.1, beta=0.75)),
    "length of windows": of_image(node("LpPool", "i", "y", kernel_shape=[2, 2])),
    "unit length of channels": of_image(node("LpNormalization", "i", "y", axis=1, p=2)),
    "groups": of_image(
        node("GroupNormalization", "i three_ones three_ones", "y", num_groups=3, epsilon=1e-5)
    ),
    "local deviation": of_image(
        node("AveragePool", "i", "m", kernel_shape=[3, 3]),
        node("Mul", "i i", "q"),
        node("AveragePool", "q", "e", kernel_shape=[3, 3]),
        node("Mul", "m m", "n"),
        node("Sub", "e n", "v"),
        node("Relu", "v", "w"),
        node("Sqrt", "w", "y"),
    ),
    "distances": [
        node("Unsqueeze", "r two_places", "a"),
        node("Slice", "r first two_places second", "f"),
        node("Sub", "a f", "d"),
        node("Mul", "d d", "q"),
        node("ReduceSum", "q last", "v", keepdims=0),
        node("Sqrt", "v", "y"),
    ],
    "a mean in two steps": [
        node("ReduceSum", "r last", "s", keepdims=1),
        node("Mul", "s part", "y"),
    ],
}
CONSTANTS: dict[str, np.ndarray] = {
    "last": np.array([-1]),
    "rows": np.array([1]),
    "two": np.array(2, "float32"),
    "three": np.array(3, "float32"),
    "third": np.array(1 / 3, "float32"),
    "small": np.array(1e-6, "float32"),
    "scale": np.ones(96, "float32"),
    "few": np.ones((96, 8), "float32"),
    "first": np.array([0]),
    "second": np.array([1]),
    "part": np.array(1 / 96, "float32"),
    "two_places": np.array([2]),
    "three_ones": np.ones(3, "float32"),
}


def model_of(nodes: Nodes) -> onnx.ModelProto:
    return network_of(nodes, CONSTANTS)


@pytest.mark.parametrize("form", FORMS)
def test_large_numbers_are_normalized(form: str) -> None:
    model = model_of(FORMS[form])
    compiled = compile_model(*import_onnx(model), target="llvm", precision="fp16")
    for scale in (1.0, LARGE):
        x = (np.random.default_rng(5).random((1, 20, 96)) * scale).astype("float32")
        right = expected(model, x)
        (found,) = run(compiled, [x])
        assert np.abs(found - right).max() <= BOUND * np.abs(right).max(), scale


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("form", ["layer normalization, by Pow", "global response"])
def test_on_vulkan(form: str) -> None:
    model = model_of(FORMS[form])
    compiled = compile_model(*import_onnx(model), target="vulkan", precision="fp16")
    x = (np.random.default_rng(6).random((1, 20, 96)) * LARGE).astype("float32")
    right = expected(model, x)
    (found,) = run(compiled, [x])
    assert np.abs(found - right).max() <= BOUND * np.abs(right).max()


def test_what_is_normalized_is_fp16() -> None:
    """What is as large as the features is float32 for squares that are summed up alone."""
    squares = shapes_of_fp32(model_of(normalized([node("Pow", "d two", "q")])))
    assert squares.count((1, 20, 96)) <= 1
    *before, last = FORMS["global response"]
    after = [node("Mul", "r q", "z"), node("MatMul", "z few", "p"), node("Softmax", "p", "y")]
    assert last.output == ["y"]
    other = shapes_of_fp32(model_of([*before, *after]))
    assert other and all(np.prod(shape) <= 96 for shape in other)


def swish(x: str) -> Nodes:
    return [node("Sigmoid", x, "g"), node("Mul", f"{x} g", "y")]


PLAIN: dict[str, Callable[[], onnx.ModelProto]] = {
    "mean": lambda: model_of(
        [node("ReduceMean", "r last", "m", keepdims=1), node("Sub", "r m", "y")]
    ),
    "softmax": lambda: model_of([node("Softmax", "r", "s"), node("Mul", "s r", "y")]),
    "swish": lambda: model_of(swish("r")),
    "layer normalization, and one row of it": lambda: model_of(
        [
            node("LayerNormalization", "r scale", "n", axis=-1),
            node("Slice", "n first second rows", "o"),
            node("Add", "o small", "y"),
        ]
    ),
    "squares as an activation": lambda: model_of(
        [node("Mul", "r r", "q"), node("MatMul", "q few", "p"), node("Relu", "p", "y")]
    ),
    "product": lambda: model_of(
        [node("Transpose", "r", "t", perm=[0, 2, 1]), node("MatMul", "r t", "y")]
    ),
}


@pytest.mark.parametrize("form", PLAIN)
def test_what_does_not_grow_is_fp16(form: str) -> None:
    assert shapes_of_fp32(PLAIN[form]()) == []


@pytest.mark.parametrize("name", ["mobilenet_v2", "yoeo_like"])
def test_networks_of_convolutions_are_fp16(name: str) -> None:
    assert shapes_of_fp32(NETWORKS[name](64)) == []
