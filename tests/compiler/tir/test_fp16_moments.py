"""Variances, covariances and distances as differences of moments: those keep float32."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from support.fp16_forms import SHAPE, Nodes, expected, network_of, node, of_image, shapes_of_fp32
from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx

MEAN = 40.0
BOUND = 2e-3
WEIGHTS = np.outer([1, 2, 1], [1, 2, 1]).astype("float32") / np.float32(16.5)
WORDS = 40 + np.random.default_rng(3).standard_normal((3, 16)).astype("float32")
CONSTANTS: dict[str, np.ndarray] = {
    "last": np.array([-1]),
    "image_axes": np.array([2, 3]),
    "two": np.array(2, "float32"),
    "small": np.array(1e-5, "float32"),
    "least": np.array(0, "float32"),
    "number": np.array(96, "float32"),
    "window": np.tile(WEIGHTS / WEIGHTS.sum(dtype="float32"), (3, 1, 1, 1)),
    "thirds": np.full((3, 1, 3, 3), 1 / 9, "float32"),
    "end": np.array([-1]),
    "begin": np.array([-1000]),
    "three": np.array([3]),
    "square": np.eye(96, dtype="float32"),
    "scales": np.ones(96, "float32"),
    "rows": np.array([1]),
    "back": np.array([-1]),
    "minus_two": np.array(-2, "float32"),
    "words": WORDS,
    "squares_of_words": (WORDS**2).sum(0),
}


def less(square: str, mean: str, output: str = "v") -> Nodes:
    return [node("Mul", f"{mean} {mean}", "mm"), node("Sub", f"{square} mm", output)]


def normalized(variance: Nodes, x: str = "r") -> Nodes:
    """As JAX's libraries export it: no variance is below 0."""
    return [
        *variance,
        node("Max", "v least", "w"),
        node("Add", "w small", "above"),
        node("Sqrt", "above", "s"),
        node("Sub", f"{x} m", "d"),
        node("Div", "d s", "y"),
    ]


def windows(operator: str, inputs: str, **attributes: object) -> Nodes:
    """Of windows of an image, with another operator for their means."""
    return [
        node(operator, f"i {inputs}", "m", **attributes),
        node("Mul", "i i", "q"),
        node(operator, f"q {inputs}", "e", **attributes),
    ]


def rows(square: onnx.NodeProto) -> Nodes:
    return [
        square,
        node("ReduceMean", "r last", "m", keepdims=1),
        node("ReduceMean", "q last", "e", keepdims=1),
    ]


POINTS = [
    node("Slice", "r begin three last", "p"),
    node("Mul", "p p", "pp"),
    node("ReduceSum", "pp last", "squares", keepdims=1),
    node("Transpose", "p", "t", perm=[0, 2, 1]),
    node("Transpose", "squares", "others", perm=[0, 2, 1]),
    node("MatMul", "p t", "inner"),
]
SAME = {"pads": [1, 1, 1, 1]}
FORMS: dict[str, Nodes] = {
    "rows, by Mul": normalized([*rows(node("Mul", "r r", "q")), *less("e", "m")]),
    "rows, by Pow": normalized(
        [
            *rows(node("Pow", "r two", "q")),
            node("Pow", "m two", "mm"),
            node("Sub", "e mm", "v"),
        ]
    ),
    "channels of an image": of_image(
        node("Mul", "i i", "q"),
        node("ReduceMean", "i image_axes", "m", keepdims=1),
        node("ReduceMean", "q image_axes", "e", keepdims=1),
        *normalized(less("e", "m"), "i"),
    ),
    "sums, divided later": normalized(
        [
            node("ReduceSum", "r last", "t", keepdims=1),
            node("Div", "t number", "m"),
            node("ReduceSumSquare", "r last", "u", keepdims=1),
            node("Div", "u number", "e"),
            *less("e", "m"),
        ]
    ),
    "windows, by AveragePool": of_image(
        *windows("AveragePool", "", kernel_shape=[3, 3]), *less("e", "m", "y")
    ),
    "windows, by convolution": of_image(*windows("Conv", "window", group=3), *less("e", "m", "y")),
    "windows, by convolution with padding": of_image(
        *windows("Conv", "thirds", group=3, **SAME), *less("e", "m"), node("Abs", "v", "y")
    ),
    "products of two": of_image(
        node("Slice", "i end begin three back", "j"),
        node("AveragePool", "i", "a", kernel_shape=[3, 3]),
        node("AveragePool", "j", "b", kernel_shape=[3, 3]),
        node("Mul", "i j", "q"),
        node("AveragePool", "q", "e", kernel_shape=[3, 3]),
        node("Mul", "a b", "ab"),
        node("Sub", "e ab", "y"),
    ),
    "distances of points": [
        *POINTS,
        node("Mul", "inner two", "twice"),
        node("Sub", "squares twice", "s"),
        node("Add", "s others", "y"),
    ],
    # As networks of point clouds look for neighbours.
    "distances of points, negative": [
        *POINTS,
        node("Mul", "inner minus_two", "twice"),
        node("Neg", "squares", "n"),
        node("Sub", "n twice", "s"),
        node("Sub", "s others", "y"),
    ],
    "distances to words of a code book": [
        *POINTS[:3],
        node("MatMul", "p words", "inner"),
        node("Mul", "inner two", "twice"),
        node("Add", "squares squares_of_words", "s"),
        node("Sub", "s twice", "y"),
    ],
}


def numbers() -> np.ndarray:
    """Far from 0 beside their deviation, and exact in fp16, so that nothing but what is computed
    of them is rounded."""
    random = np.random.default_rng(7).standard_normal(SHAPE)
    return (np.round((MEAN + random) * 32) / 32).astype("float32")


def hold(form: str, target: str) -> None:
    model = network_of(FORMS[form], CONSTANTS)
    compiled = compile_model(*import_onnx(model), target=target, precision="fp16")
    x = numbers()
    right = expected(model, x)
    (found,) = run(compiled, [x])
    assert np.abs(found - right).max() <= BOUND * np.abs(right).max()


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_is_right(form: str) -> None:
    hold(form, "llvm")


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("form", ["rows, by Mul", "windows, by convolution"])
def test_on_vulkan(form: str) -> None:
    hold(form, "vulkan")


def test_what_is_normalized_stays_fp16() -> None:
    """Squares that are summed up are as large as the features; the features are not float32."""
    shapes = shapes_of_fp32(network_of(FORMS["rows, by Mul"], CONSTANTS))
    assert shapes.count(SHAPE) <= 1


PLAIN: dict[str, Nodes] = {
    # As positions turn queries: a difference of products, neither of which is a sum.
    "rotation": [
        node("Sigmoid", "r", "c"),
        node("Exp", "c", "q"),
        node("Mul", "r c", "a"),
        node("Mul", "q c", "b"),
        node("Sub", "a b", "y"),
    ],
    "a product of matrices less a product": [
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("MatMul", "r t", "s"),
        node("Sigmoid", "s", "g"),
        node("Softmax", "s", "h"),
        node("Mul", "g h", "p"),
        node("Sub", "s p", "y"),
    ],
    "gates, products and what is added to them": [
        node("Gelu", "r", "g"),
        node("MatMul", "g square", "h"),
        node("MatMul", "r square", "j"),
        node("Add", "h j", "k"),
        node("ReduceMean", "g rows", "m", keepdims=1),
        node("Add", "m k", "l"),
        node("Sub", "l r", "y"),
    ],
    "what is divided by a moment": [
        node("Sigmoid", "r", "g"),
        node("Mul", "r g", "p"),
        node("ReduceMean", "p last", "u", keepdims=1),
        node("Div", "two u", "v"),
        node("Mul", "v v", "w"),
        node("Sub", "v w", "y"),
    ],
    "a normalization of what a gate lets through": [
        node("MatMul", "r square", "h"),
        node("Sigmoid", "h", "g"),
        node("Mul", "h g", "p"),
        node("LayerNormalization", "p scales", "n", axis=-1),
        node("MatMul", "p square", "j"),
        node("Add", "n j", "y"),
    ],
    "less what a gate lets through": [
        node("Sigmoid", "r", "g"),
        node("Mul", "r g", "p"),
        node("Sub", "r p", "y"),
    ],
}


@pytest.mark.parametrize("form", PLAIN)
def test_other_differences_are_fp16(form: str) -> None:
    assert shapes_of_fp32(network_of(PLAIN[form], CONSTANTS)) == []
