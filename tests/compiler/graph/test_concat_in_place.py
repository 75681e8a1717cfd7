"""Concatenations in place: where they may be, and that the results stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from support.compiled import executor_of
from support.numpy_operators import sliding_windows
from tvm_vision.compiler import compile_model
from tvm_vision.errors import InputError
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 4, 8, 8)  # 1024 bytes: parts come to lie at multiples of 256


def network(
    make: Callable[[], list[Any]], outputs: Mapping[str, tuple[int, ...]], **inputs: Any
) -> Any:
    """A network of nodes over ``x`` and its three poolings a, b, c."""
    pools = [
        helper.make_node(
            "MaxPool", ["x"], [name], name=f"Pool_{name}", kernel_shape=[k, k], pads=[k // 2] * 4
        )
        for name, k in (("a", 3), ("b", 5), ("c", 7))
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*pools, *make()],
        "g",
        [value("x", TensorProto.FLOAT, inputs.get("shape", SHAPE))],
        [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], name=f"{kind}_{output}", **attributes)


def pool(inputs: str, output: str) -> Any:
    return node("MaxPool", inputs, output, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def join(inputs: str, output: str, axis: int = 1) -> Any:
    return node("Concat", inputs, output, axis=axis)


def compiled(model: Any, target: str = "llvm", **options: Any) -> Any:
    module, signature = import_onnx(model)
    return compile_model(module, signature, target=target, **options)


def joins(model: Any, target: str = "llvm", **options: Any) -> int:
    """How many kernels concatenate."""
    graph = compiled(model, target, **options).graph
    return sum("concat" in kernel["function"] for kernel in graph["kernels"])


def results(model: Any, x: np.ndarray, target: str, precision: str) -> dict[str, np.ndarray]:
    made = compiled(model, target, precision=precision)
    executor = executor_of(made, tvm.vulkan(0) if target == "vulkan" else tvm.cpu(0))
    executor.run(x=x)
    # A second frame meets what the first one left in the memory.
    executor.run(x=x)
    return executor.outputs()


def pooled(x: np.ndarray, k: int) -> np.ndarray:
    edge = k // 2
    padded = np.pad(x, ((0, 0), (0, 0), (edge, edge), (edge, edge)), constant_values=-np.inf)
    windows = sliding_windows(padded, (k, k), (2, 3))
    return windows.max((-2, -1))


NESTED = [
    join("a b", "ab"),
    pool("ab", "p"),
    join("p c", "pc"),
    join("ab pc", "all"),
    pool("all", "y"),
    pool("a", "z"),
]
LONG: dict[str, tuple[int, ...]] = {"y": (1, 20, 8, 8), "z": SHAPE}


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_nested_ones_give_the_same_values(target: str, precision: str) -> None:
    x = np.random.default_rng(3).standard_normal(SHAPE).astype("float32")
    a, b, c = (pooled(x, k) for k in (3, 5, 7))
    ab = np.concatenate([a, b], 1)
    everything = np.concatenate([ab, pooled(ab, 3), c], 1)
    model = network(lambda: NESTED, LONG)
    found = results(model, x, target, precision)
    tolerance = 0 if precision == "fp32" else 2e-3
    np.testing.assert_allclose(found["y"], pooled(everything, 3), atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(found["z"], pooled(a, 3), atol=tolerance, rtol=tolerance)


def test_nested_ones_need_no_kernel() -> None:
    model = network(lambda: NESTED, LONG)
    assert joins(model) == 0
    graph = compiled(model).graph
    offsets = {t["offset"] for t in graph["tensors"] if t["shape"] == list(SHAPE)}
    assert {1024, 4096} <= offsets
    for tensor in graph["tensors"]:
        size = 4 * int(np.prod(tensor["shape"]))
        assert tensor["offset"] % 256 == 0
        assert tensor["offset"] + size <= graph["storages"][tensor["storage"]]


def test_parts_and_results_may_be_used_elsewhere_and_handed_out() -> None:
    def make() -> list[Any]:
        return [join("a b", "y"), pool("a", "z")]

    model = network(make, {"y": (1, 8, 8, 8), "z": SHAPE})
    assert joins(model) == 0
    x = np.random.default_rng(4).standard_normal(SHAPE).astype("float32")
    for target in ("llvm", "vulkan"):
        found = results(model, x, target, "fp32")
        a = pooled(x, 3)
        np.testing.assert_array_equal(found["y"], np.concatenate([a, pooled(x, 5)], 1))
        np.testing.assert_array_equal(found["z"], pooled(a, 3))


REFUSED = {
    "an input of the network": ([join("a x", "y")], {"y": (1, 8, 8, 8)}, {}),
    "the same twice": ([join("a a", "y")], {"y": (1, 8, 8, 8)}, {}),
    "an output of the network": ([join("a b", "y")], {"y": (1, 8, 8, 8), "a": SHAPE}, {}),
    "an inner axis": ([join("a b", "y", axis=2)], {"y": (1, 4, 16, 8)}, {}),
    "a batch": ([join("a b", "y")], {"y": (2, 8, 8, 8)}, {"shape": (2, 4, 8, 8)}),
    "parts that are not aligned": (
        [join("a b", "y")],
        {"y": (1, 8, 7, 7)},
        {"shape": (1, 4, 7, 7)},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_it_must_not_be(case: str) -> None:
    nodes, outputs, inputs = REFUSED[case]
    model = network(lambda: nodes, outputs, **inputs)
    assert joins(model) == 1
    x = np.random.default_rng(5).standard_normal(inputs.get("shape", SHAPE)).astype("float32")
    values = {"x": x, "a": pooled(x, 3), "b": pooled(x, 5)}
    joined = nodes[0]
    axis = joined.attribute[0].i
    expected = np.concatenate([values[name] for name in joined.input], axis)
    np.testing.assert_array_equal(results(model, x, "llvm", "fp32")["y"], expected)


def test_a_part_belongs_to_one_result() -> None:
    def make() -> list[Any]:
        return [join("a b", "ab"), join("a c", "ac"), pool("ab", "y"), pool("ac", "z")]

    model = network(make, {"y": (1, 8, 8, 8), "z": (1, 8, 8, 8)})
    assert joins(model) == 1


DENSE = [
    join("a b", "ab"),
    node("Relu", "ab", "r"),
    pool("r", "d"),
    join("a b d", "abd"),
    node("Sigmoid", "abd", "s"),
    pool("s", "e"),
    join("b d", "bd"),
    node("Relu", "bd", "z"),
    join("a b d e", "abde"),
    node("Relu", "abde", "y"),
]


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_those_of_the_same_parts_are_views_of_the_longest(target: str, precision: str) -> None:
    """As in a dense block, though each is followed by what could take it in."""
    model = network(lambda: DENSE, {"y": (1, 32, 8, 8), "z": (1, 12, 8, 8)})
    assert joins(model, target, precision=precision) == 0
    x = np.random.default_rng(6).standard_normal(SHAPE).astype("float32")
    a, b = pooled(x, 3), pooled(x, 5)
    d = pooled(np.maximum(np.concatenate([a, b], 1), 0), 3)
    e = pooled(1 / (1 + np.exp(-np.concatenate([a, b, d], 1))), 3)
    found = results(model, x, target, precision)
    tolerance = 1e-6 if precision == "fp32" else 2e-3
    y = np.maximum(np.concatenate([a, b, d, e], 1), 0)
    np.testing.assert_allclose(found["y"], y, atol=tolerance, rtol=tolerance)
    z = np.maximum(np.concatenate([b, d], 1), 0)
    np.testing.assert_allclose(found["z"], z, atol=tolerance, rtol=tolerance)


def test_a_reader_that_is_a_kernel_leaves_nothing_to_take_in() -> None:
    """One of two readers would have the concatenation in its kernel, the other cannot."""

    def make() -> list[Any]:
        return [join("a b", "ab"), node("Relu", "ab", "y"), pool("ab", "z")]

    model = network(make, {"y": (1, 8, 8, 8), "z": (1, 8, 8, 8)})
    assert joins(model) == 0
    x = np.random.default_rng(8).standard_normal(SHAPE).astype("float32")
    ab = np.concatenate([pooled(x, 3), pooled(x, 5)], 1)
    found = results(model, x, "vulkan", "fp32")
    np.testing.assert_array_equal(found["y"], np.maximum(ab, 0))
    np.testing.assert_array_equal(found["z"], pooled(ab, 3))


def test_what_follows_element_by_element_stays_fused() -> None:
    def make() -> list[Any]:
        return [join("a b", "ab"), node("Relu", "ab", "y")]

    graph = compiled(network(make, {"y": (1, 8, 8, 8)})).graph
    assert [k["nodes"] for k in graph["kernels"]][-1] == ["Concat_ab", "Relu_y"]


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(lambda: NESTED, LONG)
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "off")
    assert joins(model) == 2  # the third was joined to the second before
    monkeypatch.setenv("TVM_VISION_CONCAT_IN_PLACE", "maybe")
    with pytest.raises(InputError, match="must be on or off, found 'maybe'"):
        joins(model)
    monkeypatch.delenv("TVM_VISION_CONCAT_IN_PLACE")
    assert joins(model, opt_level=1) == 2
