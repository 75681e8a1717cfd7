"""Channels last go through padding of every kind, and what it gives is what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from support.compiled import executor_of
from support.networks import reference
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.channels_last import calls_of, channels_last, transposes
from tvm_vision.frontend.onnx.load import import_onnx

SIZE = 9
# Mode, widths of the axes of pixels before and after, whether channels last go through.
PADS = [
    ("constant", [1, 2, 3, 0], True),
    ("constant", [0, -2, 3, -1], False),
    ("edge", [12, 1, 0, 2], True),
    ("reflect", [SIZE - 1, 0, 1, 2], True),
    ("wrap", [SIZE, 1, 2, 0], True),
]


def padded(mode: str, widths: list[int], axes: int = 2, value: float = 0.0) -> onnx.ModelProto:
    """A Pad of images or volumes between two convolutions."""
    random, half, rest = np.random.default_rng(5), len(widths) // 2, [0] * (axes - 2)
    first, second = (random.uniform(-1, 1, (8, c, *[2] * axes)).astype("float32") for c in (3, 8))
    tensors = {
        "first": first,
        "second": second,
        "pads": np.array([0, 0, *rest, *widths[:half], 0, 0, *rest, *widths[half:]]),
        "value": np.array(value, "float32"),
    }
    nodes = [
        helper.make_node("Conv", ["input", "first"], ["a"]),
        helper.make_node("Pad", ["a", "pads", "value"], ["b"], mode=mode),
        helper.make_node("Conv", ["b", "second"], ["output"]),
    ]
    return model_of(nodes, tensors, TensorProto.FLOAT, [1, 3, *[SIZE + 1] * axes])


def model_of(
    nodes: list[onnx.NodeProto], tensors: dict[str, np.ndarray], kind: int, shape: list[int]
) -> onnx.ModelProto:
    """A network of an image of float32."""
    graph = helper.make_graph(
        nodes,
        "pads",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 19)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9)
    )


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("mode", "widths", "goes_through"), PADS)
def test_axes_turn_only_at_the_ends(
    mode: str, widths: list[int], goes_through: bool, axes: int
) -> None:
    turned = channels_last(import_onnx(padded(mode, widths, axes))[0])
    assert (transposes(turned) == 2) == goes_through
    assert not calls_of(turned, "relax.nn.max_pool2d", "relax.nn.max_pool3d")


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("mode", "widths", "_"), PADS)
def test_values_on_a_gpu(mode: str, widths: list[int], _: bool, layout: str) -> None:
    check(padded(mode, widths, value=-1.5), "vulkan", layout)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("mode", "widths", "_"), PADS)
def test_values_on_a_processor(mode: str, widths: list[int], _: bool, axes: int) -> None:
    check(padded(mode, widths, axes, 2.5), "llvm", "auto")


def check(model: onnx.ModelProto, target: str, layout: str) -> None:
    """Against onnxruntime, to 1e-5 of the largest number."""
    found, expected = both(model, target, layout)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def both(model: onnx.ModelProto, target: str, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """What a network gives, and what it gives in onnxruntime."""
    image, found = result(model, target, layout)
    (expected,) = reference(model, image)
    return found, expected


def result(model: onnx.ModelProto, target: str, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """An image, and what a network makes of it."""
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    image = np.asarray(np.random.default_rng(3).standard_normal(shape), "float32")
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target=target, layout=layout)
    executor = executor_of(compiled, tvm.vulkan(0) if target == "vulkan" else tvm.cpu(0))
    executor.set_input(0, image)
    executor.run()
    return image, executor.get_output(0).numpy()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", 2**53 + 1), ("int32", -7), ("uint8", 200), ("bool", True), ("float32", -np.inf)],
)
def test_numbers_of_every_type_are_kept(dtype: str, value: float) -> None:
    """A Pad's number is one of its tensor's type: what is not float32 is not rounded to it."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Clip", ["input", "zero"], ["a"]),
        helper.make_node("Cast", ["a"], ["x"], to=kind),
        helper.make_node("Pad", ["x", "pads", "value"], ["output"]),
    ]
    tensors = {
        "zero": np.array(0, "float32"),
        "pads": np.array([1, 0, 0, 2]),
        "value": np.array(value, dtype),
    }
    np.testing.assert_array_equal(*both(model_of(nodes, tensors, kind, [2, 3]), "llvm", "auto"))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("shape", [[], [2, 3]])
def test_nothing_around_a_tensor(shape: list[int], mode: str) -> None:
    """A number, which onnxruntime refuses, has no axes, and its Pad no widths."""
    nodes = [
        helper.make_node("Relu", ["input"], ["a"]),
        helper.make_node("Pad", ["a", "pads"], ["output"], mode=mode),
    ]
    tensors = {"pads": np.zeros(2 * len(shape), "int64")}
    image, found = result(model_of(nodes, tensors, TensorProto.FLOAT, shape), "llvm", "auto")
    np.testing.assert_array_equal(found, np.maximum(image, 0))
