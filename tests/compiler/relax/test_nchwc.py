"""Channels in blocks: right for every operator that follows, and only where it can be."""

import platform

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from support.compiled import kernels_of
from support.interpreter import run
from support.networks import NETWORKS, reference
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.nchwc.tap_products import TapProducts
from tvm_vision.compiler.target import parse_target
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import cpu_schedules
from tvm_vision.schedules.cpu.processor import vector_lanes
from tvm_vision.topi import nchwc as blocked

OP = relax.op
# Processors with vectors of 4, 8 and, on most machines, 16 floats.
TARGETS: tuple[str, ...] = ("llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3", "llvm")
if platform.machine() != "x86_64":
    TARGETS = ("llvm",)


def both(build, *shapes, seed=0, precision="fp32", target="llvm"):
    """Results in blocks and in the model's order, and the kernels' functions of the first."""
    module, signature = module_of(build, *shapes)
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal(shape).astype("float32") for shape in shapes]
    compiled = [
        compile_model(module, signature, target=target, layout=layout, precision=precision)
        for layout in ("auto", "nchw")
    ]
    results = [run(model, inputs) for model in compiled]
    return *results, [kernel["function"] for kernel in compiled[0].graph["kernels"]]


def assert_same(build, *shapes, tolerance=1e-5, **options):
    blocked, plain, kernels = both(build, *shapes, **options)
    for found, expected in zip(blocked, plain, strict=True):
        assert found.shape == expected.shape
        largest = max(1e-6, float(np.abs(expected).max()))
        assert np.abs(found - expected).max() <= tolerance * largest
    return kernels


def conv(builder, x, out, channels, k=1, seed=1, groups=1, **options):
    weights = constant(seed, out, channels // groups, k, k)[0]
    return builder.emit(OP.nn.conv2d(x, weights, groups=groups, **options))


def after_convolution(follow, *, channels=20):
    """A network: a convolution, then what ``follow`` does in blocks."""

    def build(builder, x):
        return follow(builder, conv(builder, x, channels, 5, 3, padding=1))

    return build


def padded(builder, y, mode):
    around = builder.emit(OP.nn.pad(y, [0, 0, 0, 0, 2, 1, 0, 3], mode, 0.5))
    return conv(builder, around, 20, 20, 3, seed=5)


FOLLOWERS = {
    "bias and relu": lambda b, y: b.emit(
        OP.nn.relu(b.emit(OP.add(y, constant(2, 1, 20, 1, 1)[0])))
    ),
    "constant first": lambda b, y: b.emit(OP.subtract(constant(2, 20, 1, 1)[0], y)),
    "constant along rows": lambda b, y: b.emit(OP.multiply(y, constant(2, 6, 1)[0])),
    "constant along columns": lambda b, y: b.emit(OP.multiply(y, constant(2, 7)[0])),
    "constant everywhere": lambda b, y: b.emit(OP.maximum(y, constant(2, 20, 6, 7)[0])),
    "number": lambda b, y: b.emit(OP.divide(y, relax.const(np.float32(3)))),
    "silu": lambda b, y: b.emit(OP.multiply(y, b.emit(OP.sigmoid(y)))),
    "leaky": lambda b, y: b.emit(OP.nn.leakyrelu(y, 0.1)),
    "residual": lambda b, y: b.emit(OP.add(conv(b, y, 20, 20, seed=5), y)),
    "scale of channels": lambda b, y: b.emit(
        OP.multiply(y, conv(b, b.emit(OP.mean(y, [2, 3], True)), 20, 20, seed=5))
    ),
    "mean": lambda b, y: b.emit(OP.mean(y, [2, 3], True)),
    # PyTorch's newer exporter writes axes as its programs have them.
    "mean from the end": lambda b, y: b.emit(OP.mean(y, [-1, -2], True)),
    "max from the end": lambda b, y: b.emit(OP.max(y, [-2, -1], True)),
    "min from both ends": lambda b, y: b.emit(OP.min(y, [-1, 2], True)),
    "sum that goes on": lambda b, y: conv(
        b, b.emit(OP.sum(b.emit(OP.sigmoid(y)), [-2, -1], True)), 20, 20, seed=5
    ),
    "concat and softmax from the end": lambda b, y: b.emit(
        OP.concat([b.emit(OP.nn.softmax(y, axis=-3)), y], axis=-3)
    ),
    "mean without axes": lambda b, y: b.emit(OP.mean(y, [2, 3])),
    "mean of channels": lambda b, y: b.emit(OP.mean(y, [1], True)),
    "flatten": lambda b, y: b.emit(OP.reshape(y, (2, 20 * 42))),
    "max pool": lambda b, y: b.emit(
        OP.nn.max_pool2d(y, (3, 3), (2, 2), (1, 1, 1, 1), ceil_mode=True)
    ),
    "average pool": lambda b, y: b.emit(
        OP.nn.avg_pool2d(y, (3, 2), (2, 1), (1, 0, 1, 1), count_include_pad=False)
    ),
    "adaptive pool": lambda b, y: b.emit(OP.nn.adaptive_avg_pool2d(y, (1, 1))),
    "adaptive pool of more": lambda b, y: b.emit(OP.nn.adaptive_avg_pool2d(y, (3, 3))),
    "nearest": lambda b, y: b.emit(
        OP.image.resize2d(y, (12, 14), method="nearest_neighbor", rounding_method="floor")
    ),
    "linear": lambda b, y: b.emit(OP.image.resize2d(y, (9, 5), method="linear")),
    "padding of channels": lambda b, y: b.emit(OP.nn.pad(y, [0, 0, 1, 0, 0, 0, 0, 0])),
    "rows and columns": lambda b, y: conv(
        b, b.emit(OP.strided_slice(y, [2, 3], [1, 0], [6, 7], [2, 3])), 20, 20, seed=5
    ),
    "columns from the end": lambda b, y: b.emit(OP.strided_slice(y, [-1], [1], [5])),
    "rows in any order": lambda b, y: b.emit(
        OP.take(y, relax.const(np.array([5, 0, 0, 3])), axis=2)
    ),
    "one column": lambda b, y: b.emit(OP.take(y, relax.const(np.array(2)), axis=3)),
    "softmax": lambda b, y: b.emit(OP.nn.softmax(y, axis=1)),
    "transpose": lambda b, y: b.emit(OP.permute_dims(y, [0, 2, 3, 1])),
    "two results": lambda b, y: [b.emit(OP.nn.relu(y)), b.emit(OP.exp(y))],
    "a result that goes on": lambda b, y: [y, conv(b, y, 3, 20, seed=5)],
    "a number around it": lambda b, y: padded(b, y, "constant"),
    "reflected": lambda b, y: padded(b, y, "reflect"),
    "its border repeated": lambda b, y: padded(b, y, "replicate"),
    "from its other end": lambda b, y: padded(b, y, "circular"),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_follows_a_convolution(name):
    assert_same(after_convolution(FOLLOWERS[name]), (2, 5, 6, 7))


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_other_vectors(target):
    def follow(builder, y):
        y = conv(builder, builder.emit(OP.nn.relu(y)), 18, 18, 3, seed=2, groups=18, padding=1)
        return builder.emit(OP.concat([y, builder.emit(OP.nn.relu(y))], 1))

    kernels = assert_same(after_convolution(follow, channels=18), (1, 5, 6, 7), target=target)
    block = vector_lanes(parse_target(target))
    assert any(f"depthwise_conv2d_c{block}_" in f"{kernel}_" for kernel in kernels)


@pytest.mark.parametrize(
    ("groups", "depth", "out_depth", "stay"),
    [
        (23, 8, 8, False),  # the last block is filled up with a group of zeros
        (11, 8, 16, False),
        (9, 4, 4, False),
        (3, 24, 24, False),
        (5, 24, 24, False),  # a fourth pair would be a block more than there is: all together
        (17, 6, 6, True),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_groups_of_fewer_channels_than_a_block(groups, depth, out_depth, stay, target):
    channels, out = groups * depth, groups * out_depth

    def follow(builder, y):
        y = builder.emit(OP.nn.relu(y))
        y = conv(builder, y, out, channels, 3, seed=2, groups=groups, padding=1)
        return conv(builder, y, 20, out, seed=3)

    build = after_convolution(follow, channels=channels)
    kernels = assert_same(build, (1, 5, 6, 7), target=target)
    in_blocks = sum("conv2d_c" in kernel for kernel in kernels)
    assert in_blocks == 3 or (stay and in_blocks == 2)


def shuffle(builder, x, groups, shape):
    n, channels, h, w = shape
    y = builder.emit(OP.reshape(x, (n, groups, channels // groups, h, w)))
    y = builder.emit(OP.permute_dims(y, [0, 2, 1, 3, 4]))
    return builder.emit(OP.reshape(y, shape))


def test_selections_of_channels_are_one_gather():
    """Concatenation, shuffle and split inside blocks: a kernel for each part that is used."""

    def follow(builder, y):
        z = conv(builder, y, 22, 22, seed=5)
        whole = shuffle(builder, builder.emit(OP.concat([y, z], 1)), 2, (2, 44, 6, 7))
        parts = builder.emit(OP.split(whole, [22], 1))
        left, right = builder.emit(parts[0]), builder.emit(parts[1])
        return builder.emit(OP.concat([left, conv(builder, right, 22, 22, seed=6)], 1))

    kernels = assert_same(after_convolution(follow, channels=22), (2, 5, 6, 7))
    assert sum(kernel.startswith("gather") for kernel in kernels) == 2
    assert not any("transpose" in kernel or "split" in kernel for kernel in kernels)


def test_a_shuffle_that_is_cut_short():
    def follow(builder, y):
        y = builder.emit(OP.reshape(y, (2, 4, 5, 6, 7)))
        return [y, builder.emit(OP.permute_dims(y, [0, 2, 1, 3, 4]))]

    assert_same(after_convolution(follow), (2, 5, 6, 7))


def test_parts_that_end_with_a_block_are_joined_as_they_are():
    def build(builder, x):
        parts = [conv(builder, x, 32, 5, seed=seed) for seed in (1, 2)]
        return builder.emit(OP.exp(builder.emit(OP.concat(parts, 1))))

    kernels = assert_same(build, (1, 5, 4, 4))
    assert not any(kernel.startswith("gather") for kernel in kernels)


def test_heads_that_only_reshape_need_no_gather():
    def follow(builder, y):
        y = builder.emit(OP.reshape(y, (2, 4, 5, 6, 7)))
        return builder.emit(OP.permute_dims(y, [0, 1, 3, 4, 2]))

    kernels = assert_same(after_convolution(follow), (2, 5, 6, 7))
    assert not any(kernel.startswith("gather") for kernel in kernels)


def test_without_a_convolution_nothing_changes():
    def build(builder, x):
        return builder.emit(OP.nn.max_pool2d(builder.emit(OP.exp(x)), (2, 2)))

    assert not any("_c" in kernel for kernel in assert_same(build, (1, 40, 6, 6)))


@pytest.mark.parametrize(
    ("rows", "out", "is_blocked"),
    [
        ((1,), 1000, True),
        ((3,), 40, True),
        ((9,), 40, True),
        ((197,), 50, True),
        ((2, 13), 40, True),
        ((2, 3, 7), 33, True),
        ((1, 1), 40, False),
        ((9,), 3, False),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_products_with_weights(rows, out, is_blocked, precision):
    """Of few rows, of many, of an odd number of columns, and with axes before the rows."""

    def build(builder, x):
        y = builder.emit(OP.matmul(x, constant(1, 37, out)[0]))
        return builder.emit(OP.nn.gelu(builder.emit(OP.add(y, constant(2, out)[0]))))

    tolerance = 1e-5 if precision == "fp32" else 5e-3
    kernels = assert_same(build, (*rows, 37), precision=precision, tolerance=tolerance)
    assert any("dense_c" in kernel for kernel in kernels) == is_blocked


@pytest.mark.parametrize("rows", [(197,), (2, 13), (2, 3, 7)])
@pytest.mark.parametrize("out", [16, 48])
@pytest.mark.parametrize("target", TARGETS)
def test_what_follows_a_product_is_computed_in_its_kernel(rows, out, target):
    """A bias, GELU, and a residual behind a reshape, for one block of columns and for several; no
    kernel turns blocks into rows."""
    shape = (1, *rows, out)

    def build(builder, x, residual):
        y = builder.emit(OP.matmul(x, constant(1, 37, out)[0]))
        y = builder.emit(OP.nn.gelu(builder.emit(OP.add(y, constant(2, out)[0]))))
        return builder.emit(OP.add(builder.emit(OP.reshape(y, shape)), residual))

    (kernel,) = assert_same(build, (*rows, 37), shape, target=target)
    assert "dense_c" in kernel and "transpose" not in kernel


@pytest.mark.parametrize("channels", [32, 20])
@pytest.mark.parametrize("joined", [True, False], ids=["pixels side by side", "an image"])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_pixels_become_blocks_and_rows_again(channels, joined, target):
    """As transformers have convolutions between products: where blocks are whole, by one kernel
    that moves vectors each way."""
    n, h, w = 2, 6, 7
    rows = (n, h * w, channels) if joined else (n, h, w, channels)

    def build(builder, x):
        y = builder.emit(OP.exp(x))
        axes = [0, 2, 1] if joined else [0, 3, 1, 2]
        y = builder.emit(OP.permute_dims(y, axes))
        y = builder.emit(OP.reshape(y, (n, channels, h, w))) if joined else y
        y = conv(builder, y, channels, channels, 3, groups=channels, padding=1)
        y = builder.emit(OP.reshape(y, (n, channels, h * w))) if joined else y
        back = builder.emit(OP.permute_dims(y, axes if joined else [0, 2, 3, 1]))
        return builder.emit(OP.tanh(back))

    kernels = assert_same(build, rows, target=target)
    if channels == 32:
        assert not any("pack_c" in kernel for kernel in kernels)
        assert len(kernels) == 3


def test_what_is_turned_otherwise_is_packed():
    """Other axes, and rows of another image's width."""

    def build(builder, x):
        y = builder.emit(OP.permute_dims(x, [0, 1, 2]))
        first = conv(builder, builder.emit(OP.reshape(y, (1, 32, 6, 8))), 32, 32)
        y = builder.emit(OP.permute_dims(builder.emit(OP.reshape(first, (1, 32, 48))), [0, 2, 1]))
        other = builder.emit(
            OP.reshape(builder.emit(OP.permute_dims(y, [0, 2, 1])), (1, 16, 12, 8))
        )
        y = conv(builder, other, 16, 16)
        return builder.emit(OP.permute_dims(y, [0, 3, 2, 1]))

    assert_same(build, (1, 32, 48))


@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "more", "channels"),
    [
        ((4, 4), (2, 2), (1, 1), (0, 0), (12, 20)),
        ((2, 2), (2, 2), (0, 0), (0, 0), (8, 16)),
        ((3, 3), (2, 2), (1, 1), (1, 1), (5, 9)),
        ((3, 5), (3, 2), (0, 2), (0, 1), (16, 8)),
        ((3, 3), (1, 1), (1, 1), (0, 0), (16, 8)),
        ((1, 1), (2, 2), (0, 0), (1, 0), (9, 9)),
        ((2, 3), (3, 3), (0, 1), (1, 0), (9, 9)),
        ((8, 8), (4, 4), (2, 2), (0, 0), (8, 3)),
        ((2, 2), (2, 2), (0, 1, 1, 0), (0, 0), (8, 8)),
    ],
)
def test_transposed_convolutions(kernel, strides, padding, more, channels):
    """Of kernels larger and smaller than their strides, with what ends within one."""
    inputs, outputs = channels

    def build(builder, x):
        weights, bias = constant(1, inputs, outputs, *kernel)[0], constant(2, 1, outputs, 1, 1)[0]
        y = OP.nn.conv2d_transpose(
            x, weights, strides=strides, padding=padding, output_padding=more
        )
        y = builder.emit(OP.add(builder.emit(y), bias))
        return conv(builder, builder.emit(OP.nn.relu(y)), 10, outputs, 3, seed=3, padding=1)

    kernels = assert_same(build, (2, inputs, 7, 6))
    # Where the results of few channels are spread, what follows on them is in the model's order.
    in_order = any("spread" in kernel for kernel in kernels)
    assert sum("_c" in kernel for kernel in kernels) >= len(kernels) - in_order


@pytest.mark.parametrize("groups", [2, 8])
def test_transposed_convolutions_that_stay(groups):
    def build(builder, x):
        weights = constant(1, 8, 16 // groups, 3, 3)[0]
        return builder.emit(OP.nn.conv2d_transpose(x, weights, strides=(2, 2), groups=groups))

    assert not any("interleave" in kernel for kernel in assert_same(build, (1, 8, 5, 4)))


@pytest.mark.parametrize("of_channels", [False, True])
def test_a_network_of_bytes_in_float32(of_channels):
    """Weights of bytes are numbers in time, and what rounds in between stays in blocks, where it
    has one scale for all channels."""

    def to_bytes_and_back(builder, x):
        count = 20 if of_channels else 1
        scale = relax.const(np.linspace(0.05, 0.06, count).astype("float32"))
        zero = relax.const(np.full(count, 3, "int8"))
        x = builder.emit(OP.quantize(x, scale, zero, 1, "int8"))
        return builder.emit(OP.dequantize(x, scale, zero, 1, "float32"))

    def convolution(builder, x, out, channels):
        random = np.random.default_rng(4)
        weights = random.integers(-127, 128, (out, channels, 3, 3)).astype("int8")
        scales = relax.const(random.uniform(0.001, 0.002, out).astype("float32"))
        zeros = relax.const(np.zeros(out, "int8"))
        weights = builder.emit(OP.dequantize(relax.const(weights), scales, zeros, 0, "float32"))
        return builder.emit(OP.nn.conv2d(x, weights, padding=1))

    def build(builder, x):
        y = to_bytes_and_back(builder, convolution(builder, x, 20, 5))
        return convolution(builder, builder.emit(OP.nn.relu(y)), 24, 20)

    # A sum that is halfway between two bytes may round to either.
    kernels = assert_same(build, (1, 5, 9, 9), tolerance=0.02)
    in_blocks = [kernel for kernel in kernels if "conv2d_c" in kernel]
    assert len(in_blocks) == 2
    assert any("quantize" in kernel for kernel in in_blocks) != of_channels


def test_halves_in_blocks():
    def follow(builder, y):
        y = conv(builder, builder.emit(OP.nn.relu(y)), 20, 20, 3, seed=2, groups=20, padding=1)
        y = builder.emit(OP.nn.max_pool2d(y, (2, 2), (2, 2)))
        return conv(builder, y, 4, 20, 3, seed=3)

    build = after_convolution(follow)
    kernels = assert_same(build, (1, 5, 9, 9), precision="fp16", tolerance=5e-3)
    assert sum("_c" in kernel for kernel in kernels) >= 4


def test_a_normalization_between_layers_stays_in_blocks():
    """Behind an activation or in front of one, and with what goes around it: nothing is unpacked
    but at the end."""

    def normalized(builder, y, seed):
        factors = [constant(seed + n, 20, low=0.5, high=1.5)[0] for n in range(4)]
        return builder.emit(builder.emit(OP.nn.batch_norm(y, *factors, axis=1))[0])

    def follow(builder, y):
        y = normalized(builder, builder.emit(OP.nn.relu(y)), 2)
        around = conv(builder, y, 20, 20, 3, seed=6, groups=20, padding=1)
        y = builder.emit(OP.add(normalized(builder, around, 7), y))
        return conv(builder, builder.emit(OP.nn.relu(normalized(builder, y, 11))), 8, 20, seed=15)

    kernels = assert_same(after_convolution(follow), (1, 5, 9, 9), tolerance=1e-4)
    assert sum("unpack" in kernel for kernel in kernels) == 1
    assert not any("pack" in kernel.replace("unpack", "") for kernel in kernels)


def test_the_layout_keeps_the_names_of_nodes():
    module, signature = import_onnx(NETWORKS["blocks"](64))
    wanted = set()
    for layout in ("nchw", "auto"):
        compiled = compile_model(module, signature, target="llvm", layout=layout)
        nodes = {node for kernel in compiled.graph["kernels"] for node in kernel["nodes"]}
        if layout == "nchw":
            wanted = {node for node in nodes if node.startswith(("Conv", "Relu", "MaxPool"))}
    assert len(wanted) > 20
    assert wanted <= nodes


@pytest.mark.parametrize("name", ["shufflenet_v2", "yoeo_like", "mobilenet_v2"])
def test_loops_are_written_for_all_windows(name):
    """None of them falls back to schedules that fit everything."""
    target = parse_target("llvm")
    kernels, _ = kernels_of(import_onnx(NETWORKS[name](64))[0], target)
    functions = {
        gv.name_hint: function
        for gv, function in cpu_schedules(kernels, target).functions_items()
        if any(part in gv.name_hint for part in ("conv2d_c", "pool2d_c", "gather_c", "dense_c"))
    }
    assert len(functions) > 15
    left = [n for n, f in functions.items() if not f.attrs.get("tirx.is_scheduled", False)]
    assert left == []


# Numbers of channels around the sizes of vectors; windows, strides and paddings of all kinds.
CHANNELS = st.sampled_from([1, 3, 5, 8, 15, 16, 17, 24, 33, 48])


@st.composite
def convolutions(draw):
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [draw(st.integers(0, min(3, r))) for r in (*reach, *reach)]
    size = [draw(st.integers(max(1, r - pads[i] - pads[i + 2]), 19)) for i, r in enumerate(reach)]
    kind = draw(st.sampled_from(["dense", "dense", "depthwise", "grouped"]))
    channels, out, groups = draw(CHANNELS), draw(CHANNELS), 1
    if kind == "depthwise":
        groups, out = channels, channels * draw(st.sampled_from([1, 1, 2]))
    elif kind == "grouped":
        groups = draw(st.sampled_from([2, 3, 4]))
        channels, out = groups * channels, groups * out
    return {
        "shape": (draw(st.sampled_from([1, 1, 2])), channels, *size),
        "weights": (out, channels // groups, *kernel),
        "attributes": {
            "strides": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            "dilations": dilation, "pads": pads, "group": groups,
        },
    }  # fmt: skip


def one_convolution(case, seed):
    """A convolution of positive values, with a bias and bounds."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal(case["weights"]).astype("float32")
    operator = case.get("operator", "Conv")
    outputs = case["weights"][1 if operator == "ConvTranspose" else 0]
    bias = random.standard_normal(outputs).astype("float32")
    nodes = [
        helper.make_node("Relu", ["input"], ["positive"]),
        helper.make_node(operator, ["positive", "w", "b"], ["y"], **case["attributes"]),
        helper.make_node("Clip", ["y", "low", "high"], ["output"]),
    ]
    tensors = {"w": weights, "b": bias, "low": np.float32(-3), "high": np.float32(6)}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, case["shape"])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def check(case, target, tolerance):
    """One convolution against onnxruntime; tolerance: of the largest value, or of 1."""
    model = one_convolution(case, seed=3)
    module, signature = import_onnx(model)
    compiled = compile_model(module, signature, target=target)
    x = np.random.default_rng(4).standard_normal(case["shape"]).astype("float32")
    (found,), (expected,) = run(compiled, [x]), reference(model, x)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * max(1.0, float(np.abs(expected).max()))


def is_padding_alone():
    """The first column of the result has its window outside the image."""
    return {
        "shape": (1, 1, 1, 1),
        "weights": (1, 1, 1, 1),
        "attributes": {"strides": (1, 2), "dilations": (1, 1), "pads": [0, 1, 0, 0], "group": 1},
    }


@settings(max_examples=24, deadline=None, derandomize=True)
@example(is_padding_alone(), "llvm")
@given(convolutions(), st.sampled_from(TARGETS))
def test_convolutions_of_any_shape(case, target):
    check(case, target, 1e-4)


@st.composite
def few_results(draw):
    """Convolutions of few results, transposed or not, with windows of two pixels and more."""
    transposed = draw(st.booleans())
    kernel = draw(st.tuples(st.integers(2, 9), st.integers(2, 9)))
    channels, out = draw(st.sampled_from([1, 3, 16, 20, 40])), draw(st.integers(1, 4))
    size = draw(st.tuples(st.integers(5, 19), st.integers(5, 19)))
    shape = (draw(st.sampled_from([1, 2])), channels, *size)
    if transposed:
        strides = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        return {
            "operator": "ConvTranspose", "shape": shape, "weights": (channels, out, *kernel),
            "attributes": {
                "strides": strides,
                "pads": [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)],
                "output_padding": [draw(st.integers(0, stride - 1)) for stride in strides],
            },
        }  # fmt: skip
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [draw(st.integers(max(0, r - side), r)) for r, side in zip(reach, size, strict=True)]
    pads += [draw(st.integers(0, 3)) for _ in reach]
    strides = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (3, 1)]))
    return {
        "operator": "Conv", "shape": shape, "weights": (out, channels, *kernel),
        "attributes": {"dilations": dilation, "pads": pads, "strides": strides},
    }  # fmt: skip


@st.composite
def paddings(draw):
    """(mode, pads of the last two axes, height and width): as far as may be reflected."""
    mode = draw(st.sampled_from(["reflect", "edge", "wrap", "constant"]))
    size = [draw(st.integers(2, 9)) for _ in range(2)]
    pads = [draw(st.integers(0, extent - 1)) for extent in (*size, *size)]
    return mode, pads, size


@settings(max_examples=30, deadline=None, derandomize=True)
@given(paddings(), st.sampled_from([4, 20]), st.sampled_from(TARGETS))
def test_what_is_added_around_an_image_is_in_blocks(case, channels, target):
    """Between convolutions; as onnxruntime has it."""
    mode, (top, left, bottom, right), size = case
    random = np.random.default_rng(5)
    tensors = {
        "w": random.standard_normal((channels, 3, 1, 1)).astype("float32"),
        "v": random.standard_normal((channels, channels, 2, 2)).astype("float32"),
        "pads": np.array([0, 0, top, left, 0, 0, bottom, right]),
        "number": np.float32(0.5),
    }
    nodes = [
        helper.make_node("Conv", ["input", "w"], ["a"]),
        helper.make_node("Pad", ["a", "pads", "number"], ["b"], mode=mode),
        helper.make_node("Conv", ["b", "v"], ["output"]),
    ]
    ends = [
        helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 3, *size)),
        helper.make_tensor_value_info("output", TensorProto.FLOAT, None),
    ]
    constants = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    compiled = compile_model(*import_onnx(model), target=target)
    x = random.standard_normal((1, 3, *size)).astype("float32")
    (found,), (expected,) = run(compiled, [x]), reference(model, x)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    kernels = [kernel["function"] for kernel in compiled.graph["kernels"]]
    assert sum("unpack" in kernel for kernel in kernels) <= 1, kernels


@settings(max_examples=30, deadline=None, derandomize=True)
@given(few_results(), st.sampled_from(TARGETS))
def test_convolutions_of_few_results(case, target):
    """Their taps are channels of a product; checked against onnxruntime."""
    check(case, target, 1e-5)


@pytest.mark.parametrize(
    ("channels", "out", "kernel", "taken"),
    [(64, 1, 3, True), (64, 3, 3, True), (64, 2, 5, True), (64, 16, 3, False), (64, 24, 4, False)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_taps_are_channels_where_that_is_less_work(channels, out, kernel, taken, transposed):
    def build(builder, x):
        weights = constant(1, *((channels, out) if transposed else (out, channels)), kernel, kernel)
        if transposed:
            return builder.emit(OP.nn.conv2d_transpose(x, weights[0], strides=(2, 2)))
        return builder.emit(OP.nn.conv2d(x, weights[0], padding=kernel // 2))

    kernels = assert_same(build, (1, channels, 20, 20))
    assert any("sum_of_taps" in kernel for kernel in kernels) is taken


@pytest.mark.parametrize(
    ("kernel", "strides", "out", "window"),
    [
        ((7, 7), (1, 1), 3, (7, 1)),
        ((9, 9), (1, 1), 3, (9, 1)),
        ((3, 3), (1, 1), 1, (1, 1)),
        ((3, 7), (2, 1), 1, (3, 1)),
        ((7, 3), (1, 2), 1, (1, 3)),
    ],
)
def test_taps_of_large_windows_are_those_of_one_axis(kernel, strides, out, window):
    moved = blocked.SlidingWindow(kernel, strides, 1, 1, (1, 1))
    ways = TapProducts.of_windows(moved, (64, 64))
    way = min(ways, key=lambda way: way.cost(16, out, 16))
    assert way.window.kernel == window and way.pays(16, out, 16)

    def build(builder, x):
        weights = constant(1, out, 16, *kernel)[0]
        return builder.emit(OP.nn.conv2d(x, weights, strides=strides, padding=1))

    assert any("sum_of_taps" in name for name in assert_same(build, (1, 16, 64, 64)))


@pytest.mark.parametrize("stride", [2, 3, 4, 8])
def test_results_between_two_pixels_are_channels_beside_each_other(stride):
    """Of the one channel of an edge map: its block is not one for each of them."""
    build = after_convolution(
        lambda b, y: b.emit(
            OP.nn.conv2d_transpose(
                y, constant(1, 1, 1, 2 * stride, 2 * stride)[0], strides=(stride, stride),
                padding=(stride // 2,) * 4,
            )
        ),
        channels=1,
    )  # fmt: skip
    assert any("spread" in kernel for kernel in assert_same(build, (1, 5, 20, 21)))


def wide(shape, weights, strides, dilations, pads):
    groups = shape[1] // weights[1]
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    return {"shape": shape, "weights": weights, "attributes": attributes}


@pytest.mark.parametrize(
    "case",
    [
        wide((1, 3, 2, 60), (16, 3, 1, 41), (1, 1), (1, 1), [0, 20, 0, 20]),
        wide((1, 16, 2, 90), (16, 1, 2, 37), (1, 2), (1, 2), [1, 10, 0, 18]),
    ],
)
def test_windows_of_many_columns(case):
    """Columns that all or the same pixels of a tile have are a loop."""
    model = one_convolution(case, seed=3)
    compiled = compile_model(*import_onnx(model), target="llvm")
    x = np.random.default_rng(4).standard_normal(case["shape"]).astype("float32")
    (found,), (expected,) = run(compiled, [x]), reference(model, x)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-4 * max(1.0, float(np.abs(expected).max()))


def test_code_is_small_for_windows_of_hundreds_of_columns():
    """Transforms into frequencies are such convolutions; written out it is 240,000 letters."""
    target = parse_target("llvm")
    case = wide((1, 1, 1, 1024), (36, 1, 1, 257), (1, 8), (1, 1), [0] * 4)
    kernels, _ = kernels_of(import_onnx(one_convolution(case, seed=3))[0], target)
    functions = cpu_schedules(kernels, target).functions_items()
    assert max(len(str(function)) for _, function in functions) < 8000
