"""What fusion makes one kernel: nothing of another size than its sum, nothing of more tensors than
fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.networks import efficientnet_b0, reference, yoeo_like
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.build import prepare
from tvm_vision.frontend.onnx.load import import_onnx

SHAPE = (1, 8, 6, 6)
Build = Callable[..., Any]


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(kind, names, output.split(), name=f"{kind}_{output}", **attributes)


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# name -> the nodes after s, which a sum makes of x, and their constants; y is the result.
RESIZING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "pad of channels": (
        [node("Pad", "s pads", "y")],
        {"pads": np.array([0, 0, 0, 0, 0, 4, 0, 0])},
    ),
    "pad before": ([node("Pad", "s pads", "y")], {"pads": np.array([0, 3, 0, 0, 0, 0, 0, 0])}),
    "pad of rows and columns": (
        [node("Pad", "s pads", "y")],
        {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 1])},
    ),
    "pad between elementwise operators": (
        [node("Relu", "s", "a"), node("Pad", "a pads", "b"), node("Sigmoid", "b", "y")],
        {"pads": np.array([0, 0, 0, 0, 0, 4, 0, 0])},
    ),
    "times all pixels": (
        [node("GlobalAveragePool", "s", "a"), node("Conv", "a w", "b"),
         node("Sigmoid", "b", "c"), node("Mul", "c s", "y")],
        {"w": weights(8, 8, 1, 1)},
    ),
    "broadcast of a constant": ([node("Add", "s big", "y")], {"big": weights(5, 8, 6, 6)}),
    "expanded": ([node("Expand", "s to", "y")], {"to": np.array([3, 8, 6, 6])}),
    "repeated": ([node("Tile", "s times", "y")], {"times": np.array([1, 2, 1, 1])}),
    "nearest": (
        [node("Resize", "s _ scales", "y", mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")],
        {"scales": np.array([1, 1, 2, 2], "float32")},
    ),
    "beside itself": ([node("Concat", "s s", "y", axis=1)], {}),
    "beside another": ([node("Relu", "x", "a"), node("Concat", "s a", "y", axis=2)], {}),
    "scattered": (
        [node("ConvTranspose", "s w", "a", strides=[2, 2]), node("Relu", "a", "y")],
        {"w": weights(8, 4, 2, 2)},
    ),
    "cut": (
        [node("Slice", "s from to axes", "y")],
        {"from": np.array([1]), "to": np.array([5]), "axes": np.array([1])},
    ),
    "cut behind": (
        [node("Slice", "s from to axes", "a"), node("Relu", "a", "y")],
        {"from": np.array([0, 0]), "to": np.array([5, 5]), "axes": np.array([1, 3])},
    ),
    "cut behind the last column": (
        [node("Slice", "s from to axes", "y")],
        {"from": np.array([0]), "to": np.array([-1]), "axes": np.array([3])},
    ),
    "one part of a split": ([node("Split", "s", "a b", axis=1), node("Relu", "b", "y")], {}),
}  # fmt: skip
SUMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "pool": (node("MaxPool", "x", "s", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}),
    "average": (node("AveragePool", "x", "s", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}),
    "convolution": (node("Conv", "x v", "s", pads=[1, 1, 1, 1]), {"v": weights(8, 8, 3, 3)}),
    "pointwise": (node("Conv", "x v", "s"), {"v": weights(8, 8, 1, 1)}),
    "depthwise": (
        node("Conv", "x v", "s", pads=[1, 1, 1, 1], group=8),
        {"v": weights(8, 1, 3, 3)},
    ),
}


def model(nodes: list[Any], constants: dict[str, Any]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opset, ir_version=8)
    )


@pytest.mark.parametrize("sum_", SUMS)
@pytest.mark.parametrize("after", RESIZING)
def test_what_follows_a_sum_is_all_written(
    device_info: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sum_: str,
    after: str,
) -> None:
    """And by the schedule that is meant for the sum: none is passed over for a fault."""
    first, constants = SUMS[sum_]
    nodes, more = RESIZING[after]
    made = model([node("Relu", "input", "x"), first, *nodes], {**constants, **more})
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    (expected,) = reference(made, x)
    module, signature = import_onnx(made)
    executor = executor_of(compile_model(module, signature, target="vulkan"))
    executor.run(input=x)
    found = executor.get_output(0).numpy()
    assert np.abs(found - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())
    assert "passed over" not in caplog.text


def kernels_of(build: Build, *shapes: tuple[int, ...], tensors: int = 64) -> list[list[str]]:
    """The nodes of each kernel for a device whose kernels may see so many tensors."""
    module, _ = module_of(lambda _, *inputs: build(*inputs), *shapes)
    device = {"kind": "vulkan", "max_per_stage_descriptor_storage_buffer": tensors}
    graph = prepare(module, target=Target(device))
    for kernel in graph.kernels:
        assert len(kernel.inputs) + len(kernel.outputs) <= tensors
    return [[name.rstrip("0123456789") for name in kernel.nodes] for kernel in graph.kernels]


def test_a_gate_is_a_kernel_of_its_own_and_keeps_its_activation() -> None:
    w, _ = constant(0, 8, 8, 1, 1)

    def gated(x: Any, pooled: Any) -> Any:
        return relax.op.multiply(relax.op.sigmoid(relax.op.nn.conv2d(pooled, w)), x)

    kernels = kernels_of(gated, SHAPE, (1, 8, 1, 1))
    assert kernels == [["conv2d", "tir_sigmoid"], ["multiply"]]


def test_what_keeps_its_size_stays_in_the_kernel_of_the_sum() -> None:
    w, _ = constant(0, 8, 8, 3, 3)
    bias, _ = constant(1, 1, 8, 1, 1)

    def block(x: Any) -> Any:
        y = relax.op.add(relax.op.nn.conv2d(x, w, padding=1), bias)
        return relax.op.nn.relu(relax.op.add(y, x))

    assert kernels_of(block, SHAPE) == [["conv2d", "add", "add", "relu"]]


def test_what_is_never_a_part_of_a_sum_is_not_held_back() -> None:
    """Detection heads are reshaped, so that no sum takes them in, and joined by one kernel."""
    module, _ = import_onnx(yoeo_like(64))
    graph = prepare(module, target=Target({"kind": "vulkan"}))
    sigmoids = [sum("Sigmoid" in node for node in kernel.nodes) for kernel in graph.kernels]
    assert max(sigmoids) == 2


@pytest.mark.parametrize("tensors", [4, 6, 16])
def test_no_kernel_sees_more_tensors_than_the_device_allows(tensors: int) -> None:
    def chain(x: Any, *others: Any) -> Any:
        for other in others:
            x = relax.op.add(relax.op.sigmoid(x), other)
        return x

    kernels = kernels_of(chain, *[SHAPE] * 21, tensors=tensors)
    # Each takes in as many as it can: two tensors are what goes in and out.
    assert len(kernels) == -(-20 // (tensors - 2))


def test_results_that_two_kernels_need_count() -> None:
    def ladder(*inputs: Any) -> Any:
        x, y = inputs[0], inputs[1]
        for other in inputs[2:]:
            x, y = relax.op.add(y, other), relax.op.multiply(x, other)
        return relax.op.add(x, y)

    assert len(kernels_of(ladder, *[SHAPE] * 14, tensors=5)) > 1


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_kernels_of_long_chains_end(precision: str) -> None:
    """What asks where their numbers come from went through so many that Python ended it."""
    steps: list[Any] = []
    for i in range(300):
        steps += [
            node("Relu", f"a{3 * i}", f"a{3 * i + 1}"),
            node("Add", f"a{3 * i + 1} shift", f"a{3 * i + 2}"),
            node("Mul", f"a{3 * i + 2} scale", f"a{3 * i + 3}"),
        ]
    ends = [node("Relu", "input", "a0"), *steps, node("Identity", "a900", "y")]
    made = model(ends, {"shift": np.float32(0.1), "scale": np.float32(0.99)})
    target = Target({"kind": "vulkan", "supports_16bit_buffer": True})
    graph = prepare(import_onnx(made)[0], target=target, precision=precision)
    assert 9 <= len(graph.kernels) <= 12


@pytest.fixture(scope="module")
def gates(device_info: Any) -> dict[str, Any]:
    """A network of gates on each target: windows of 3 and 5, with and without a residual sum."""
    imported = import_onnx(efficientnet_b0(64, stages=3))
    return {target: compile_model(*imported, target=target) for target in ("vulkan", "llvm")}


def test_nodes_keep_their_names_across_walls(gates: dict[str, Any]) -> None:
    for compiled in gates.values():
        named = [name for kernel in compiled.graph["kernels"] for name in kernel["nodes"]]
        assert not [name for name in named if "wall" in name]
        assert not [name for name in compiled.graph["kernels"] if "wall" in name["function"]]


def test_a_network_of_gates_equals_onnxruntime(device_info: Any, gates: dict[str, Any]) -> None:
    x = np.random.default_rng(3).standard_normal((1, 3, 64, 64)).astype("float32")
    (expected,) = reference(efficientnet_b0(64, stages=3), x)
    for target, compiled in gates.items():
        device = tvm.cpu() if target == "llvm" else None
        executor = executor_of(compiled, device)
        executor.run(input=x)
        found = executor.get_output(0).numpy()
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max(), target
