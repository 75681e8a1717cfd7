"""Convolutions of one image that are added up are one convolution, and its numbers are theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from support.compiled import executor_of
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.compilation import Compilation
from tvm_vision.compiler.pipeline import run
from tvm_vision.compiler.relax.join_branches import join_branches
from tvm_vision.compiler.relax.kernel_calls import bindings_of
from tvm_vision.compiler.relax.operators import operator_of
from tvm_vision.compiler.relax.rewriting import is_constant
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions

CHANNELS = 6


class Graph:
    """Nodes and weights of a network that is written down."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(5)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int, low: float = -1.0) -> str:
        return self.constant(self.rng.uniform(low, 1, shape))

    def constant(self, values: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def conv(self, x: str, rows: int, columns: int = 0, pad: Any = None, **how: Any) -> str:
        columns = columns or rows
        inputs = CHANNELS // how.get("group", 1)
        step = how.get("dilations", [1, 1])[0]
        pads = pad or [step * (rows // 2), step * (columns // 2)] * 2
        bias = [self.weight(CHANNELS)] if how.pop("bias", False) else []
        weight = self.weight(CHANNELS, inputs, rows, columns)
        return self.node("Conv", x, weight, *bias, pads=pads, **how)

    def norm(self, x: str) -> str:
        rows = [self.weight(CHANNELS), self.weight(CHANNELS), self.weight(CHANNELS)]
        return self.node("BatchNormalization", x, *rows, self.weight(CHANNELS, low=0.5))

    def sum(self, *terms: str) -> str:
        total, *rest = terms
        for term in rest:
            total = self.node("Add", total, term)
        return total

    def scaled(self, x: str) -> str:
        return self.node("Mul", x, self.weight(CHANNELS, 1, 1))


def mixer(g: Graph) -> str:
    """As FastViT has it: x + scale (branches - norm)."""
    branches = g.sum(g.norm(g.conv("x", 3, group=6)), g.norm(g.conv("x", 1, group=6)))
    return g.sum("x", g.scaled(g.node("Sub", branches, g.norm("x"))))


def strided(g: Graph) -> str:
    return g.sum(g.conv("x", 3, strides=[2, 2]), g.conv("x", 1, strides=[2, 2], bias=True))


Build = Callable[[Graph], str]
# By a name: what is added up, and how many convolutions and sums of tensors are left of it.
FORMS: dict[str, tuple[Build, int, int]] = {
    "nine pixels and one": (lambda g: g.sum(g.conv("x", 3), g.conv("x", 1)), 1, 0),
    "with biases": (
        lambda g: g.sum(g.conv("x", 3, bias=True), g.conv("x", 1, bias=True)), 1, 0,
    ),
    "normalized, with the image": (
        lambda g: g.sum(g.norm(g.conv("x", 3)), g.norm(g.conv("x", 1)), g.norm("x")), 1, 0,
    ),
    "copies of each channel": (
        lambda g: g.sum(*(g.norm(g.conv("x", 3, group=6)) for _ in range(4)), g.norm("x")), 1, 0,
    ),
    "a mixer": (mixer, 1, 0),
    "each channel and the image": (lambda g: g.sum(g.conv("x", 5, group=6), "x"), 1, 0),
    "rows, columns and both": (
        lambda g: g.sum(g.conv("x", 1, 3), g.conv("x", 3, 1), g.conv("x", 3)), 1, 0,
    ),
    "groups": (
        lambda g: g.sum(g.conv("x", 3, group=2), g.conv("x", 3, group=6), g.norm("x")), 1, 0,
    ),
    "all channels and each": (
        lambda g: g.sum(g.conv("x", 3, group=6), g.conv("x", 3)), 1, 0,
    ),
    "strided": (strided, 1, 0),
    "pads at the end": (
        lambda g: g.sum(g.conv("x", 3, pad=[0, 0, 2, 2]), g.conv("x", 1)), 1, 0,
    ),
    "windows beside each other": (
        lambda g: g.sum(
            g.conv("x", 1, 3, pad=[0, 0, 0, 2]), g.conv("x", 1, 3, pad=[0, 2, 0, 0]),
        ), 1, 0,
    ),
    "and another tensor": (
        lambda g: g.sum(g.conv("x", 3), g.node("Exp", "x"), g.conv("x", 1)), 1, 1,
    ),
    "and a smaller one": (
        lambda g: g.sum(
            g.conv("x", 3), g.node("GlobalAveragePool", g.node("Exp", "x")), g.conv("x", 1)
        ), 1, 1,
    ),
    "divided and turned round": (
        lambda g: g.node(
            "Sub", g.constant(3.0),
            g.node("Div", g.sum(g.conv("x", 3), g.conv("x", 1)), g.constant(-2.0)),
        ), 1, 0,
    ),
    # What stays.
    "a row and a column": (lambda g: g.sum(g.conv("x", 1, 3), g.conv("x", 3, 1)), 2, 1),
    "one with gaps": (lambda g: g.sum(g.conv("x", 3), g.conv("x", 3, dilations=[2, 2])), 2, 1),
    "of two images": (lambda g: g.sum(g.conv("x", 3), g.conv(g.node("Exp", "x"), 1)), 2, 1),
    "all channels and the image": (lambda g: g.sum(g.conv("x", 3), "x"), 1, 1),
    "one that others read": (
        lambda g: (lambda c: g.sum(g.conv("x", 3), c, g.node("Relu", c)))(g.conv("x", 1)), 2, 2,
    ),
    "rounded by a large number": (
        lambda g: g.sum(g.node("Add", g.conv("x", 3), g.constant(1.5 * 2**23)), g.conv("x", 1)),
        2, 1,
    ),
    "none of it": (lambda g: g.scaled(g.conv("x", 3)), 1, 0),
}  # fmt: skip
SIZE = (9, 12)
CASES = [*((name, SIZE) for name in FORMS), ("strided", (8, 7))]


def network(build: Build, size: tuple[int, int]) -> Any:
    graph = Graph()
    result = graph.node("Relu", build(graph))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, CHANNELS, *size))
    made = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    written = helper.make_graph(graph.nodes, "g", [given], [made], graph.weights)
    return helper.make_model(written, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(size: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(2).standard_normal((1, CHANNELS, *size)).astype(np.float32)


def outputs(model: Any, x: np.ndarray, target: str, **options: Any) -> np.ndarray:
    made = compile_model(*import_onnx(model), target=target, **options)
    executor = executor_of(made, tvm.cpu() if target == "llvm" else None)
    executor.run(x=x)
    return next(iter(executor.outputs().values()))


def joined(model: Any, **options: Any) -> Any:
    """What is left of a network behind the pass."""
    state = Compilation(
        import_onnx(model)[0], parse_target("llvm"), CompileOptions.of(options or {})
    )
    return run(state, last="join_branches").module["main"]


@pytest.mark.parametrize(("name", "size"), CASES)
def test_what_is_joined_and_its_numbers(name, size):
    build, convolutions, sums = FORMS[name]
    model, x = network(build, size), images(size)
    bound = dict(bindings_of(joined(model)))
    calls = [operator_of(value) for value in bound.values()]
    assert calls.count("relax.nn.conv2d") == convolutions
    # A constant that is added is a bias, and no sum of tensors.
    added = [v for v in bound.values() if operator_of(v) in ("relax.add", "relax.subtract")]
    assert len([v for v in added if not any(is_constant(a, bound.get) for a in v.args)]) == sums
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = outputs(model, x, "llvm")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 5e-3)])
def test_on_a_gpu(precision, tolerance, device_info):
    model, x = network(FORMS["a mixer"][0], SIZE), images(SIZE)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = outputs(model, x, "vulkan", precision=precision)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_it_can_be_switched_off():
    model = network(FORMS["nine pixels and one"][0], SIZE)
    calls = [operator_of(value) for _, value in bindings_of(joined(model, join_branches="off"))]
    assert calls.count("relax.nn.conv2d") == 2


@pytest.mark.parametrize("of_one", [True, False])
def test_long_sums(of_one):
    """Of many terms, which are one sum, not one within another."""
    terms = 1500

    def build(b: relax.BlockBuilder, x: Any) -> Any:
        weight = relax.const(np.ones((CHANNELS, 1, 1, 1), "float32"))
        total = x
        for number in range(terms):
            image = x if of_one else b.emit(relax.op.multiply(x, relax.const(float(number))))
            each = relax.op.nn.conv2d(image, weight, groups=CHANNELS)
            total = b.emit(relax.op.add(total, b.emit(each)))
        return total

    module, _ = module_of(build, (1, CHANNELS, 2, 2))
    left = operators_in(join_branches(module)).count("nn.conv2d")
    assert left == (1 if of_one else terms)


def test_what_is_doubled_again_and_again_is_walked_through_once():
    def build(b: relax.BlockBuilder, x: Any) -> Any:
        for _ in range(200):
            x = b.emit(relax.op.add(x, x))
        return x

    module, _ = module_of(build, (1, CHANNELS, 2, 2))
    assert join_branches(module).same_as(module)
