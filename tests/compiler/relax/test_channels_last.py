"""Channels last: the same results, and turned axes only where they pay."""

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tvm import relax
from tvm.target import Target

from support.compiled import MATRIX_GPU, executor_of, kernels_of
from support.networks import NETWORKS, Builder, reference
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.relax.channels_last import channels_last, convolutions_of, transposes
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

OP = relax.op


def small_network(builder, x):
    """Convolutions dense, grouped and strided, activations, pools, a concatenation, a resize."""
    w0, w1, w2 = constant(0, 8, 5, 3, 3)[0], constant(1, 8, 1, 3, 3)[0], constant(2, 6, 16, 1, 1)[0]
    bias = constant(3, 1, 8, 1, 1)[0]
    a = builder.emit(OP.nn.leakyrelu(OP.add(OP.nn.conv2d(x, w0, 2, 1), bias), 0.1))
    b = builder.emit(OP.clip(OP.nn.conv2d(a, w1, padding=1, groups=8), 0.0, 6.0))
    c = builder.emit(OP.concat([OP.nn.max_pool2d(b, 3, 1, padding=1), a], axis=1))
    d = builder.emit(OP.nn.conv2d(c, w2))
    e = builder.emit(OP.image.resize2d(d, relax.ShapeExpr([12, 14]), method="nearest_neighbor"))
    return [e, builder.emit(OP.mean(d, [2, 3]))]


def volumes(builder, x):
    """Convolutions of three axes, dense, strided, in groups and of one row, pools, a mean."""
    w0, w1 = constant(0, 8, 5, 3, 3, 3)[0], constant(1, 8, 1, 1, 3, 3)[0]
    w2, w3 = constant(2, 6, 16, 3, 1, 1)[0], constant(4, 4, 6, 1, 1, 1)[0]
    bias = constant(3, 1, 8, 1, 1, 1)[0]
    a = builder.emit(OP.nn.relu(OP.add(OP.nn.conv3d(x, w0, (1, 2, 2), 1), bias)))
    b = builder.emit(OP.clip(OP.nn.conv3d(a, w1, padding=(0, 1, 1), groups=8), 0.0, 6.0))
    c = builder.emit(OP.concat([OP.nn.max_pool3d(b, 3, 1, padding=1), a], axis=1))
    d = builder.emit(OP.nn.conv3d(c, w2, padding=(1, 0, 0)))
    return [builder.emit(OP.nn.conv3d(d, w3)), builder.emit(OP.mean(d, [2, 3, 4]))]


def squeezed(builder, x):
    """Axes that are gone, counted from the last."""
    a = builder.emit(OP.nn.conv2d(x, constant(0, 8, 5, 3, 3)[0]))
    rows = builder.emit(OP.squeeze(OP.mean(a, [3], keepdims=True), [-1]))
    return [rows, builder.emit(OP.squeeze(OP.mean(a, [2, 3], keepdims=True), [-2, -1]))]


CASES = [(small_network, (1, 5, 11, 13)), (volumes, (1, 5, 4, 7, 9))]


def results(network, layout, precision, image):
    module, signature = module_of(network, image.shape)
    compiled = compile_model(module, signature, target="vulkan", precision=precision, layout=layout)
    executor = executor_of(compiled)
    executor.set_input(0, image)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.num_outputs)]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(("network", "shape"), [*CASES, (squeezed, (1, 5, 11, 13))])
def test_both_layouts_give_the_same(network, shape):
    image = np.random.default_rng(0).standard_normal(shape).astype("float32")
    wanted = results(network, "nchw", "fp32", image)
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 5e-3)):
        given = results(network, "nhwc", precision, image)
        for found, expected in zip(given, wanted, strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(("network", "shape"), CASES)
def test_axes_turn_only_at_the_ends(network, shape):
    module, _ = module_of(network, shape)
    transposed = channels_last(module)
    assert transposes(module) == 0
    assert transposes(transposed) == 2  # the image and an output; the mean has no such axes
    layouts = {str(call.attrs.data_layout) for call in convolutions_of(transposed)}
    assert layouts == {"NHWC" if len(shape) == 4 else "NDHWC"}


@pytest.mark.parametrize(
    ("name", "precision", "attributes", "last"),
    [
        ("resnet18", "fp16", {}, True),
        ("yoeo_like", "fp16", {}, True),
        ("resnet18", "fp32", {}, False),
        ("resnet18", "fp16", {"keys": ["vulkan", "gpu"]}, False),
        ("mobilenet_v2", "fp16", {}, True),  # every third convolution is depthwise
        ("shufflenet_v2", "fp16", {}, False),  # its shuffles would turn axes back and forth
        # Nobody timed one: dense ones have to prevail.
        ("mobilenet_v2", "fp16", {"device_type": "integrated"}, False),
    ],
)
def test_layout_is_chosen_by_network_precision_and_device(name, precision, attributes, last):
    target = Target({**MATRIX_GPU, **attributes}, host="llvm")
    module, _ = import_onnx(NETWORKS[name](64))
    graph = lower_to_graph(*kernels_of(module, target, precision=precision))
    weights = [graph.tensors[t].shape for t in graph.params if len(graph.tensors[t].shape) == 4]
    channels_first = any(shape[-1] in (1, 3, 7) and shape[0] > 7 for shape in weights)
    assert channels_first != last


def test_lower_levels_keep_the_order_of_the_model():
    target = Target(MATRIX_GPU, host="llvm")
    module, _ = module_of(small_network, (1, 5, 11, 13))
    graph = lower_to_graph(
        *kernels_of(module, target, opt_level=2, layout="nhwc", precision="fp16")
    )
    assert (8, 5, 3, 3) in {graph.tensors[t].shape for t in graph.params}


def test_an_unknown_layout_is_refused():
    module, signature = module_of(small_network, (1, 5, 11, 13))
    with pytest.raises(InputError, match="layout must be auto, nchw or nhwc, found 'chw'"):
        compile_model(module, signature, target="llvm", layout="chw")


def slice_of_five_axes(builder, x):
    """A convolution, split into groups of channels by a reshape, of which one is taken."""
    w = constant(0, 8, 4, 1, 1)[0]
    a = builder.emit(OP.nn.conv2d(x, w))
    b = builder.emit(OP.reshape(a, (1, 2, 4, 6, 6)))
    return builder.emit(OP.strided_slice(b, axes=[1], begin=[1], end=[2]))


def shuffle(builder, x):
    """Channels shuffled between two convolutions, as in ShuffleNet."""
    w0, w1 = constant(0, 8, 4, 1, 1)[0], constant(1, 8, 8, 1, 1)[0]
    a = builder.emit(OP.reshape(OP.nn.conv2d(x, w0), (1, 2, 4, 6, 6)))
    b = builder.emit(OP.reshape(OP.permute_dims(a, [0, 2, 1, 3, 4]), (1, 8, 6, 6)))
    return builder.emit(OP.nn.conv2d(b, w1))


@pytest.mark.parametrize(
    ("network", "error"),
    [(slice_of_five_axes, tvm.error.InternalError), (shuffle, ValueError)],
)
def test_what_cannot_be_turned_stays_as_it_is(network, error, monkeypatch):
    """TVM's pass gives up on some networks: left open, nothing is lost; asked for, it is a line."""
    module, _ = module_of(network, (1, 4, 6, 6))
    kernels, _ = kernels_of(module, Target(MATRIX_GPU), precision="fp16")
    assert lower_to_graph(kernels).kernels

    def gives_up(mod, shuffles):
        raise error("Invalid SLayout")

    monkeypatch.setattr("tvm_vision.compiler.relax.layout_choice.channels_last", gives_up)
    kernels, _ = kernels_of(module, Target(MATRIX_GPU), precision="fp16")
    assert lower_to_graph(kernels).kernels
    with pytest.raises(UnsupportedModelError, match="--layout auto"):
        kernels_of(module, Target(MATRIX_GPU), layout="nhwc", precision="fp16")


# Operators between two convolutions that TVM turns along, or turns back before: name, further
# inputs, attributes. Some need four axes of their result to be those of an image.
BETWEEN: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("ConvTranspose", [(8, 8, 3, 3)], {"strides": [2, 2]}),
    ("ConvTranspose", [(8, 2, 2, 2)], {"strides": [2, 2], "group": 4}),
    ("ScatterND", [np.array([[[0, 1]]]), (1, 1, 12, 12)], {}),
    ("ScatterND", [np.indices((1, 8, 12, 1)).transpose(1, 2, 3, 4, 0), (1, 8, 12, 1)], {}),
    ("ScatterND", [np.array([[0, 1, 2], [0, 7, 1]]), (2, 12)], {"reduction": "add"}),
    ("LayerNormalization", [(8, 12, 12), (8, 12, 12)], {"axis": 1}),
    ("RMSNormalization", [(12,)], {"axis": -1}),
    ("RMSNormalization", [(8, 12, 12)], {"axis": 1}),
    ("GroupNormalization", [(8,), (8,)], {"num_groups": 2}),
    ("InstanceNormalization", [(8,), (8,)], {}),
    ("LayerNormalization", [(12,), (12,)], {"axis": -1}),
    ("PRelu", [(8, 1, 1)], {}),
    ("Add", [(8, 12, 12)], {}),
    ("MaxPool", [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}),
    ("Gather", [np.array([1, 3, 3, 0, 7, 2, 5, 4])], {"axis": 1}),
    ("Pad", [np.array([0, 0, 1, 2, 0, 0, 3, 1])], {"mode": "reflect"}),
    ("CumSum", [np.array(1)], {}),
    ("Resize", ["", np.array([1, 1, 2, 2], "float32")], {"mode": "linear"}),
]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    "between",
    [BETWEEN[1:9], pytest.param(BETWEEN, marks=pytest.mark.slow)],
    ids=["turned wrongly by TVM", "all"],
)
def test_operators_between_convolutions(between):
    """Each on its own way from one convolution to another, held to onnxruntime."""
    random, b = np.random.default_rng(5), Builder(6)
    x = b.conv("input", 3, 8, 3)
    outputs = []
    for operator, further, attributes in between:
        given = [
            value if isinstance(value, str)
            else b.constant(value if isinstance(value, np.ndarray)
                            else random.uniform(-0.5, 0.5, value).astype("float32"))
            for value in further
        ]  # fmt: skip
        y = b.node(operator, [x, *given], **attributes)
        channels = 2 if operator == "DepthToSpace" else 8
        outputs.append((b.conv(y, channels, 4), TensorProto.FLOAT))
    model = b.model(12, outputs)
    model.opset_import[0].version, model.ir_version = 23, 10
    image = random.standard_normal((1, 3, 12, 12)).astype("float32")
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target="vulkan", layout="nhwc")
    executor = executor_of(compiled)
    executor.set_input(0, image)
    executor.run()
    for number, expected in enumerate(reference(model, image)):
        found = executor.get_output(number).numpy()
        bound = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=bound, err_msg=between[number][0])


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_transposed_convolutions_have_kernels_where_layouts_are_chosen(kernel):
    """U-Nets in fp16 on a device with matrices."""
    b = Builder(7)
    weights = b.random.uniform(-1, 1, (16, 16, kernel, kernel)).astype("float32")
    y = b.node("ConvTranspose", [b.conv("input", 3, 16, 3), b.constant(weights)], strides=[2, 2])
    model = b.model(12, [(b.conv(y, 16, 16, 3), TensorProto.FLOAT)])
    module, _ = import_onnx(model)
    assert lower_to_graph(*kernels_of(module, Target(MATRIX_GPU), precision="fp16")).kernels
