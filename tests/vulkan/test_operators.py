"""Operators of vision networks on Vulkan, each against onnxruntime on fresh random inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tvm import relax, s_tir, te, tirx
from tvm.target import Target

from support import networks
from support.lowering import HOST
from support.relax_vm import compile_relax
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")

# Largest error over the largest value of the reference.
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "float64": 1e-12}


def device_target() -> Target:
    """The first device, as it says what it can do."""
    return Target({"kind": "vulkan", "from_device": 0, "host": HOST})


@dataclass
class Case:
    """One ONNX node: kind, inputs (shape, constant array, or "" for none), attributes."""

    kind: str
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0
    opset: int = 13

    def __str__(self) -> str:
        shapes = [list(x.shape if isinstance(x, np.ndarray) else x) for x in self.inputs]
        attributes = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.kind}-{shapes}-{attributes}-{self.dtype}".replace(" ", "")

    def model(self) -> onnx.ModelProto:
        """A graph of this one node; arrays among the inputs become initialisers."""
        names = ["" if isinstance(x, str) else f"x{i}" for i, x in enumerate(self.inputs)]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph_inputs, constants = [], []
        for name, value in zip(names, self.inputs, strict=True):
            if name == "":
                continue
            if isinstance(value, np.ndarray):
                constants.append(numpy_helper.from_array(value, name))
            else:
                graph_inputs.append(helper.make_tensor_value_info(name, kind, list(value)))
        node = helper.make_node(self.kind, names, ["y"], **self.attributes)
        result = helper.make_value_info("y", onnx.TypeProto())
        graph = helper.make_graph([node], "case", graph_inputs, [result], constants)
        opset = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        return inferred

    def arrays(self, seed: int) -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        shapes = [x for x in self.inputs if isinstance(x, tuple)]
        return [random.uniform(self.low, self.high, s).astype(self.dtype) for s in shapes]


def check(case: Case, seed: int = 0) -> None:
    import onnxruntime

    model = case.model()
    arrays = case.arrays(seed)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}
    reference = session.run(None, feed)[0]
    module, _ = import_onnx(model)
    executable = compile_relax(module, device_target())
    vm = relax.VirtualMachine(executable, tvm.vulkan(0))
    result = vm["main"](*[tvm.runtime.tensor(a, tvm.vulkan(0)) for a in arrays]).numpy()
    assert result.shape == reference.shape
    assert result.dtype == reference.dtype
    if reference.size == 0:
        return
    if reference.dtype.kind != "f":
        np.testing.assert_array_equal(result, reference)
        return
    assert np.isfinite(result).all()
    largest = max(np.abs(reference.astype("float64")).max(), 1e-3)
    error = np.abs(result.astype("float64") - reference.astype("float64")).max() / largest
    assert error < TOLERANCE[case.dtype], f"relative error {error}"


def conv(n: int, cin: int, h: int, w: int, cout: int, k: int, **attributes: Any) -> Case:
    groups = attributes.get("group", 1)
    return Case("Conv", [(n, cin, h, w), (cout, cin // groups, k, k), (cout,)], attributes)


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def f32(*values: float) -> np.ndarray:
    return np.array(values, "float32")


CONVOLUTIONS = [
    conv(1, 3, 15, 17, 8, 3, pads=[1, 1, 1, 1], strides=[2, 2]),
    conv(2, 5, 9, 7, 7, 1),
    conv(1, 8, 13, 13, 6, 5, pads=[2, 2, 2, 2]),
    conv(1, 4, 11, 10, 4, 3, dilations=[2, 2]),
    conv(1, 12, 9, 9, 12, 3, group=12, pads=[1, 1, 1, 1]),
    conv(1, 12, 16, 16, 12, 5, group=12, pads=[2, 2, 2, 2], strides=[2, 2]),
    conv(1, 12, 8, 8, 18, 3, group=6, pads=[0, 1, 1, 0]),
    Case("Conv", [(1, 3, 20), (4, 3, 3)], {"pads": [1, 1]}),
    Case("ConvTranspose", [(1, 4, 5, 6), (4, 3, 3, 3)], {"strides": [2, 2], "pads": [1] * 4}),
]
POOLING = [
    Case("MaxPool", [(1, 4, 13, 12)], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    Case("MaxPool", [(1, 3, 9, 9)], {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
    Case("MaxPool", [(1, 3, 11, 11)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("AveragePool", [(1, 5, 9, 8)], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    Case("GlobalAveragePool", [(2, 7, 7, 7)]),
    Case("GlobalMaxPool", [(1, 33, 5, 9)]),
]  # fmt: skip
MATRICES = [
    Case("MatMul", [(17, 33), (33, 9)]),
    Case("MatMul", [(1, 1), (1, 1)]),
    Case("MatMul", [(3, 17, 20), (3, 20, 31)]),
    Case("MatMul", [(64, 64), (64, 64)]),
    Case("Gemm", [(1, 130), (10, 130), (10,)], {"transB": 1}),
    Case("Gemm", [(70, 65), (65, 40), (40,)], {"alpha": 0.5, "beta": 2.0}),
]
REDUCTIONS = [
    Case(kind, [shape], {"axes": axes, "keepdims": keep})
    for kind in ("ReduceMean", "ReduceMax", "ReduceMin")
    for shape, axes, keep in (((3, 5, 7), [1], 0), ((1, 130, 65), [1, 2], 1), ((1, 1, 1), [0], 1))
] + [
    Case("ReduceSum", [(2, 300, 4), i64(1)], {"keepdims": 0}),
    Case("ReduceProd", [(2, 9), ], {"axes": [1]}),
    Case("ArgMax", [(1, 3, 16, 17)], {"axis": 1, "keepdims": 0}),
    Case("ArgMin", [(5, 129)], {"axis": -1}),
    Case("Softmax", [(3, 1000)], {"axis": -1}, low=-50, high=50),
    Case("Softmax", [(2, 5, 3)], {"axis": 1}),
    Case("LogSoftmax", [(4, 21)], {"axis": -1}),
    Case("CumSum", [(4, 50), np.array(1, "int64")]),
]  # fmt: skip
SHAPES = [
    Case("Concat", [(1, 3, 5, 5), (1, 4, 5, 5), (1, 1, 5, 5)], {"axis": 1}),
    Case("Concat", [(2, 3), (2, 5)], {"axis": -1}),
    Case("Transpose", [(2, 3, 4, 5)], {"perm": [0, 2, 3, 1]}),
    Case("Reshape", [(2, 12), i64(4, -1)]),
    Case("Slice", [(6, 20), i64(1, -7), i64(5, 1000), i64(0, 1), i64(2, 3)]),
    Case("Slice", [(9,), i64(-1), i64(-10), i64(0), i64(-2)]),
    Case("Pad", [(1, 2, 5, 6), i64(0, 0, 1, 2, 0, 0, 3, 0), f32(1.5).reshape(())]),
    Case("Pad", [(1, 2, 5, 6), i64(0, 0, 1, 2, 0, 0, 3, 0)], {"mode": "reflect"}),
    Case("Gather", [(5, 4), i64(0, -1, 3, -5)], {"axis": 0}),
    Case("Gather", [(3, 7), np.array([[6, 0], [-7, 2]])], {"axis": 1}),
    Case("GatherElements", [(3, 3), np.array([[0, -1, 2], [2, 0, 1]])], {"axis": 0}),
    Case("GatherND", [(4, 5, 2), np.array([[0, 1], [3, -1]])]),
    Case("ScatterND", [(8, 2), np.array([[4], [1], [7]]), (3, 2)], opset=13),
    Case("Expand", [(3, 1), i64(2, 3, 4)]),
    Case("Tile", [(2, 3), i64(2, 2)]),
    Case("DepthToSpace", [(1, 8, 3, 5)], {"blocksize": 2}),
    Case("SpaceToDepth", [(1, 2, 6, 4)], {"blocksize": 2}),
    Case("Where", [np.array([[True], [False]]), (2, 3), (2, 3)]),
]
RESIZE = [
    Case("Resize", [(1, 3, 5, 7), "", f32(1, 1, 2, 2)],
         {"mode": "nearest", "nearest_mode": "floor",
          "coordinate_transformation_mode": "asymmetric"}),
    Case("Resize", [(1, 2, 8, 6), "", f32(1, 1, 0.5, 1.5)],
         {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    Case("Resize", [(1, 2, 4, 5), "", "", i64(1, 2, 9, 11)],
         {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
]  # fmt: skip
NORMALISATION = [
    Case("BatchNormalization", [(2, 5, 4, 4), *[np.linspace(0.5, 1.5, 5, dtype="float32")] * 4]),
    Case("InstanceNormalization", [(1, 4, 6, 6), f32(1, 2, 3, 4), f32(0, 1, 0, -1)]),
    Case("LayerNormalization", [(3, 40), (40,), (40,)], {"axis": -1}, opset=17),
]
ACTIVATIONS = [
    Case("LeakyRelu", [(3, 333)], {"alpha": 0.1}, low=-20, high=20),
    Case("PRelu", [(2, 3, 5), (3, 1)]),
    Case("HardSigmoid", [(100,)], low=-5, high=5),
    Case("HardSwish", [(100,)], low=-5, high=5, opset=14),
    Case("Elu", [(100,)]),
    Case("Sigmoid", [(1, 1)], low=-90, high=90),
    Case("Softplus", [(100,)], low=-30, high=30),
    Case("Mish", [(100,)], low=-30, high=30, opset=18),
    Case("Gelu", [(1000,)], low=-6, high=6, opset=20),
    Case("Erf", [(1000,)], low=-4, high=4),
    Case("Tanh", [(1000,)], low=-100, high=100),
    Case("Clip", [(70,), f32(-1).reshape(()), f32(0.5).reshape(())]),
]
SMALL = [
    Case("Relu", [()]),
    Case("Relu", [(1,)]),
    Case("Concat", [(0, 3), (2, 3)], {"axis": 0}),
    Case("Add", [(7, 1, 5), (3, 1)]),
]
HALF = [
    Case(c.kind, [x.astype("float16") if isinstance(x, np.ndarray) and x.dtype == "float32" else x
                  for x in c.inputs], c.attributes, "float16", c.low, c.high, c.opset)
    for c in (CONVOLUTIONS[0], CONVOLUTIONS[4], POOLING[0], POOLING[4], MATRICES[0], SHAPES[0],
              ACTIVATIONS[0], REDUCTIONS[0], REDUCTIONS[-3])
]  # fmt: skip
ALL = [*CONVOLUTIONS, *POOLING, *MATRICES, *REDUCTIONS, *SHAPES, *RESIZE, *NORMALISATION]
ALL += [*ACTIVATIONS, *SMALL]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_operator(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", HALF, ids=str)
def test_operator_in_half_precision(case: Case, device_info: Any) -> None:
    if not (device_info.supports_float16 and device_info.supports_16bit_buffer):
        pytest.skip("the device lacks shaderFloat16 or storageBuffer16BitAccess")
    check(case)


def test_more_workgroups_than_one_axis_takes() -> None:
    # 70,000 rows of reductions: more workgroups than the 65,535 every device takes in one axis.
    check(Case("ReduceSum", [(70_000, 3), i64(1)], {"keepdims": 0}))


@pytest.mark.parametrize("n", [65_535, 65_536, 140_001])
def test_more_workgroups_in_one_axis_with_one_thread_each(n: int) -> None:
    source = te.placeholder((n,), "int32", "source")
    result = te.compute((n,), lambda i: source[i] * 3 + 1, "result")
    schedule = s_tir.Schedule(te.create_prim_func([source, result]))
    (loop,) = schedule.get_loops(schedule.get_sblock("result"))
    block, thread = schedule.split(loop, [None, 1])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    run = tvm.compile(schedule.mod, target=device_target())
    host = np.arange(n, dtype="int32")
    out = tvm.runtime.empty((n,), "int32", tvm.vulkan(0))
    run(tvm.runtime.tensor(host, tvm.vulkan(0)), out)
    np.testing.assert_array_equal(out.numpy(), host * 3 + 1)


def test_one_kernel_for_any_length_and_none_at_all() -> None:
    n = tirx.Var("n", "int32")
    source = te.placeholder((n,), "float32", "source")
    result = te.compute((n,), lambda i: source[i] * 2, "result")
    schedule = s_tir.Schedule(te.create_prim_func([source, result]))
    (loop,) = schedule.get_loops(schedule.get_sblock("result"))
    block, thread = schedule.split(loop, [None, 64])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    run = tvm.compile(schedule.mod, target=device_target())
    for length in (0, 1, 63, 64, 1000, 0):
        host = np.random.default_rng(length).random(length, "float32")
        out = tvm.runtime.empty((length,), "float32", tvm.vulkan(0))
        run(tvm.runtime.tensor(host, tvm.vulkan(0)), out)
        np.testing.assert_array_equal(out.numpy(), host * 2)


sizes = st.integers(1, 40)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(m=sizes, k=sizes, n=sizes)
def test_any_matmul(m: int, k: int, n: int) -> None:
    check(Case("MatMul", [(m, k), (k, n)]), seed=m * 10_000 + k * 100 + n)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    cin=st.integers(1, 9), cout=st.integers(1, 9), h=st.integers(3, 20), w=st.integers(3, 20),
    k=st.sampled_from([1, 2, 3]), stride=st.sampled_from([1, 2, 3]), pad=st.sampled_from([0, 1]),
)  # fmt: skip
def test_any_convolution(
    cin: int, cout: int, h: int, w: int, k: int, stride: int, pad: int
) -> None:
    check(conv(1, cin, h, w, cout, k, strides=[stride] * 2, pads=[pad] * 4), seed=h * w)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(1, 20), min_size=1, max_size=4), data=st.data())
def test_any_reduction(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    kind = data.draw(st.sampled_from(["ReduceMax", "ReduceMean"]))
    check(Case(kind, [tuple(shape)], {"axes": axes, "keepdims": data.draw(st.integers(0, 1))}))


def test_networks_are_what_they_are_called() -> None:
    # Published parameter counts; each batch norm folded away had two parameters a channel and left
    # one, the bias. SqueezeNet has none.
    published = {
        "squeezenet1_1": 1_235_496, "resnet18": 11_689_512, "mobilenet_v2": 3_504_872,
        "shufflenet_v2": 2_278_604, "efficientnet_lite0": 4_652_008,
    }  # fmt: skip
    for name, count in published.items():
        graph = networks.NETWORKS[name]().graph
        dims = {w.name: w.dims for w in graph.initializer if w.data_type == onnx.TensorProto.FLOAT}
        total = sum(int(np.prod(d)) for d in dims.values() if d)
        folded = sum(dims[n.input[2]][0] for n in graph.node if n.op_type == "Conv")
        assert total + (0 if name == "squeezenet1_1" else folded) == count, name
