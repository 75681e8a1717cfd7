"""Kernels side by side: as few barriers as the longest chain needs, and the same results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from support.compiled import FIXED, executor_of
from support.networks import NETWORKS, mainly
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.compiler.graph.reorder import MOST_GROWTH, SMALL_GROWTH, dependencies, in_levels
from tvm_vision.compiler.graph.static_graph import KernelCall, StaticGraph, describe
from tvm_vision.errors import InputError
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 4, 8, 8)
UNIT = 4096  # elements, 16 KiB


def graph_of(links: list[list[int]], sizes: list[int] | None = None) -> StaticGraph:
    """Kernels of one result each; ``links`` [i] are the kernels that the i-th reads, -1 the input.

    What nothing reads is an output.
    """
    graph = StaticGraph()
    x = graph.add_tensor((UNIT,), "float32")
    graph.inputs = [x]
    made: list[int] = []
    for number, before in enumerate(links):
        made.append(graph.add_tensor((UNIT * (sizes[number] if sizes else 1),), "float32"))
        inputs = [x if i < 0 else made[i] for i in before]
        graph.kernels.append(KernelCall(f"k{number}", inputs, [made[-1]]))
    read = {i for before in links for i in before}
    graph.outputs = [t for i, t in enumerate(made) if i not in read]
    return graph


def barriers(plain: dict[str, Any]) -> int:
    """How many the executor needs, by the storages that kernels touch: as its hazard tracker."""
    count = 0
    since: list[Any] = []
    for kernel in plain["kernels"]:
        own = []
        for place, tensor in enumerate(kernel["args"]):
            of = plain["tensors"][tensor]
            size = 4 * math.prod(of["shape"])
            writes = place >= len(kernel["args"]) - kernel["num_outputs"]
            own.append((of["storage"], of["offset"], of["offset"] + size, writes))
        if any(
            a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and (a[3] or b[3])
            for a in own
            for b in since
        ):
            count, since = count + 1, []
        since += own
    return count


def planned(graph: StaticGraph) -> tuple[int, int]:
    """Barriers and bytes of activations."""
    plain, memory = describe(*in_levels(graph))
    return barriers(plain), memory.activations


DIAMONDS = {
    "one step": ([[-1], [0], [0], [1, 2]], 2, 2),
    "two steps": ([[-1], [0], [1], [0], [3], [2, 4]], 4, 3),
    "three branches": ([[-1], [0], [1], [0], [3], [0], [5], [2, 4, 6]], 5, 3),
    "a chain beside a step": ([[-1], [0], [1], [2], [0], [3, 4]], 4, 4),
}


@pytest.mark.parametrize("name", DIAMONDS)
def test_diamonds(name: str) -> None:
    links, before, after = DIAMONDS[name]
    graph = graph_of(links)
    assert barriers(describe(graph)[0]) >= before
    assert planned(graph)[0] == after


@st.composite
def links(draw: Any) -> tuple[list[list[int]], list[int]]:
    count = draw(st.integers(1, 14))
    found = [
        draw(st.lists(st.integers(max(-1, i - 5), i - 1), min_size=1, max_size=3, unique=True))
        for i in range(count)
    ]
    return found, draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))


@settings(max_examples=200, deadline=None)
@given(links())
def test_no_more_barriers_than_the_longest_chain(drawn: Any) -> None:
    graph = graph_of(*drawn)
    before = describe(graph)[1].activations
    ordered, levels = in_levels(graph)
    plain, memory = describe(ordered, levels)
    assert sorted(k.function for k in ordered.kernels) == sorted(k.function for k in graph.kernels)
    written = set(graph.inputs)
    for kernel in ordered.kernels:
        assert written.issuperset(kernel.inputs)
        written.update(kernel.outputs)
    if levels is None:
        assert plain == describe(graph)[0]
        return
    depth = [0]
    for waits in dependencies(graph):
        depth.append(1 + max((depth[p + 1] for p in waits), default=0))
    assert barriers(plain) == max(depth) - 1 == max(levels)
    # Inputs and outputs take what they take; the bound is on what is planned.
    assert memory.activations <= max(MOST_GROWTH * before, before + SMALL_GROWTH)


def test_order_stays_where_memory_would_grow() -> None:
    # Ten branches side by side would hold ten large tensors at once.
    branches = [step for i in range(10) for step in ([-1], [2 * i])]
    graph = graph_of([*branches, list(range(1, 20, 2))], [100, 1] * 10 + [1])
    ordered, levels = in_levels(graph)
    assert levels is None
    assert ordered.kernels == graph.kernels


def test_parts_of_one_memory_are_written_side_by_side() -> None:
    graph = graph_of([[-1], [-1], [0, 1]])
    whole = graph.add_tensor((2 * UNIT,), "float32")
    first, second, _ = (kernel.outputs[0] for kernel in graph.kernels)
    graph.tensors[first].root = graph.tensors[second].root = whole
    graph.tensors[second].offset = 4 * UNIT
    assert dependencies(graph) == [[], [], [0, 1]]
    graph.tensors[second].offset = 0
    assert dependencies(graph) == [[], [0], [0, 1]]


@pytest.mark.parametrize("name", mainly("blocks", "yoeo_like", "shufflenet_v2"))
def test_networks_wait_less_and_take_little_more_memory(name: str) -> None:
    module, _ = import_onnx(NETWORKS[name](64))
    graph = prepare(module, target=FIXED)
    plain, memory = describe(graph)
    count, activations = planned(graph)
    assert count <= barriers(plain)
    assert activations <= 1.05 * memory.activations
    fewer = {"shufflenet_v2": 4, "yoeo_like": 4}
    assert barriers(plain) - count >= fewer.get(name, 0)


def branches() -> Any:
    """A first step, two branches of two steps, and both joined."""

    def pool(x: str, y: str, k: int) -> Any:
        edge = [k // 2] * 4
        return helper.make_node("MaxPool", [x], [y], kernel_shape=[k, k], pads=edge)

    nodes = [pool("x", "a", 3), pool("a", "b", 3), pool("b", "bb", 5)]
    nodes += [pool("a", "c", 5), pool("c", "cc", 7)]
    nodes.append(helper.make_node("Concat", ["bb", "cc"], ["d"], axis=2))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, SHAPE)],
        [value("d", TensorProto.FLOAT, (1, 4, 16, 8))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def run(model: Any, x: np.ndarray, frames: int = 2) -> tuple[list[np.ndarray], Any]:
    module, signature = import_onnx(model)
    made = compile_model(module, signature, target="vulkan")
    executor = executor_of(made)
    for _ in range(frames):
        executor.run(**{executor.input_names[0]: x})
    return list(executor.outputs().values()), executor


@pytest.mark.usefixtures("device_info", "unpoisoned")
def test_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    (found,), executor = run(branches(), x)
    monkeypatch.setenv("TVM_VISION_REORDER", "off")
    (expected,), in_model_order = run(branches(), x)
    np.testing.assert_array_equal(found, expected)
    # One for the branch that steps alone, one for the memory that it reuses.
    assert in_model_order.barriers - executor.barriers == 2


@pytest.mark.usefixtures("device_info", "unpoisoned")
@pytest.mark.parametrize(
    ("name", "fewer"),
    [
        ("blocks", 1),
        pytest.param("shufflenet_v2", 4, marks=pytest.mark.slow),
        pytest.param("yoeo_like", 3, marks=pytest.mark.slow),
    ],
)
def test_networks_on_the_device(name: str, fewer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal((1, 3, 64, 64)).astype("float32")
    found, executor = run(NETWORKS[name](64), x)
    monkeypatch.setenv("TVM_VISION_REORDER", "off")
    expected, in_model_order = run(NETWORKS[name](64), x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert in_model_order.barriers - executor.barriers >= fewer


def test_wrong_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_VISION_REORDER", "random")
    module, signature = import_onnx(branches())
    with pytest.raises(InputError, match="must be on or off, found 'random'"):
        compile_model(module, signature, target="vulkan")
