"""Networks for a device such as a Raspberry Pi 5: 256 threads, 16 KiB of shared memory, 16 lanes,
eight tensors a kernel, no int64, int16, int8 and float16; and for SwiftShader's limits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_vision
from support import networks
from support.compiled import executor_of
from tvm_vision import vulkan
from tvm_vision.devices import known_devices
from tvm_vision.evaluate import Reference
from tvm_vision.evaluate.compare import compare

pytestmark = pytest.mark.usefixtures("device_info")
DEMO = Path(tvm_vision.__file__).parent / "demo" / "yoeo_demo.onnx"
# Hosts of any processor: what is compiled runs here.
TARGETS = {
    name: dataclasses.replace(known_devices()[name], machine="").target_config()
    for name in ("v3d-7.1", "swiftshader")
}


def agree(model: onnx.ModelProto | Path, target: dict, *inputs: np.ndarray, **options: Any) -> None:
    """Outputs of a network compiled for a target, run here, are onnxruntime's."""
    here = vulkan.devices()[0].properties
    for name in ("supports_8bit_buffer", "supports_16bit_buffer"):
        if target[name] and not here[name]:
            pytest.skip(f"this device has no {name}, which the target has")
    compiled = tvm_vision.compile(model, target=target, options=options)
    executor = executor_of(compiled)
    for index, array in enumerate(inputs):
        executor.set_input(index, array)
    executor.run()
    reference = Reference(onnx.load(model) if isinstance(model, Path) else model)
    names = [spec.name for spec in compiled.inputs]
    for index, exact in enumerate(reference.run(dict(zip(names, inputs, strict=True))).values()):
        found = executor.get_output(index).numpy()
        assert found.dtype == exact.dtype
        error = compare("an output", found, exact).error
        assert error <= (2e-2 if options else 1e-3), (index, error)


@pytest.mark.slow
def test_the_demo() -> None:
    """Its mask is an arg max: int64 in the model, bytes in the end."""
    image = np.random.default_rng(1).random((1, 3, 512, 512), "float32")
    agree(DEMO, TARGETS["v3d-7.1"], image)


@pytest.mark.parametrize("name", TARGETS)
def test_a_classifier(name: str) -> None:
    image = np.random.default_rng(2).random((1, 3, 64, 64), "float32")
    agree(networks.blocks(64), TARGETS[name], image)


def test_halves_where_buffers_hold_them() -> None:
    """Half of the memory, with arithmetic in float32."""
    image = np.random.default_rng(2).random((1, 3, 64, 64), "float32")
    agree(networks.blocks(64), TARGETS["v3d-7.1"], image, precision="fp16")


def indices() -> onnx.ModelProto:
    """All that gives or takes indices of int64, among them outputs; bytes and bools too."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        helper.make_node("ArgMin", ["x"], ["worst"], axis=2),
        helper.make_node("TopK", ["x", "three"], ["values", "places"], axis=1),
        helper.make_node("Gather", ["table", "best"], ["chosen"]),
        helper.make_node("GatherElements", ["x", "places"], ["again"], axis=1),
        helper.make_node("Add", ["best", "bias"], ["moved"]),
        helper.make_node("Less", ["moved", "best2"], ["smaller"]),
        helper.make_node("Mul", ["best", "minus"], ["best2"]),
        helper.make_node("Where", ["smaller", "moved", "best2"], ["either"]),
        helper.make_node("Cast", ["places"], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("Cast", ["moved"], ["small"], to=TensorProto.INT8),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=TensorProto.FLOAT),
    ]
    nodes[6], nodes[7] = nodes[7], nodes[6]
    outputs = {
        "best": TensorProto.INT64, "worst": TensorProto.INT64, "values": TensorProto.FLOAT,
        "places": TensorProto.INT64, "chosen": TensorProto.FLOAT, "again": TensorProto.FLOAT,
        "either": TensorProto.INT64, "smaller": TensorProto.BOOL, "bytes": TensorProto.UINT8,
        "small": TensorProto.INT8, "sizes": TensorProto.FLOAT,
    }  # fmt: skip
    constants = {
        "three": np.array([3], "int64"),
        "table": np.arange(-5, 6, dtype="float32"),
        "bias": np.array(-4, "int64"),
        "minus": np.array(-1, "int64"),
    }
    graph = helper.make_graph(
        nodes,
        "indices",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 11, 5))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("name", TARGETS)
def test_indices(name: str) -> None:
    x = np.random.default_rng(4).random((2, 11, 5), "float32")
    agree(indices(), TARGETS[name], x)


@pytest.mark.parametrize("kind", ["int64", "uint8", "int8", "bool", "int16"])
@pytest.mark.parametrize("name", TARGETS)
def test_inputs_and_outputs_of_a_type_that_is_missing(name: str, kind: str) -> None:
    """Stored as the caller has them, of a length that is no whole word."""
    of = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    graph = helper.make_graph(
        [node],
        "turn",
        [helper.make_tensor_value_info("x", of, (3, 7))],
        [helper.make_tensor_value_info("y", of, (7, 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = np.random.default_rng(5).integers(-100, 100, (3, 7)).astype(kind)
    agree(model, TARGETS[name], x)
