"""Channels filled up to vectors: the same results, and only where it costs nothing."""

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

from support.compiled import MATRIX_GPU, kernels_of
from support.interpreter import run
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.lower import lower_to_graph
from tvm_vision.compiler.relax.channels_last import calls_of, channels_last
from tvm_vision.compiler.relax.pad_channels import pad_channels

OP = relax.op


def network(channels):
    """Three dense convolutions, the first of the input itself, the last of seven channels."""

    def build(builder, x):
        w0, w1 = constant(0, 8, channels, 3, 3)[0], constant(1, 7, 8, 3, 3)[0]
        w2 = constant(2, 9, 7, 1, 1)[0]
        a = builder.emit(OP.nn.relu(OP.nn.conv2d(x, w0, 2, 1)))
        b = builder.emit(OP.nn.relu(OP.nn.conv2d(a, w1, 1, 1)))
        return builder.emit(OP.nn.conv2d(b, w2))

    return build


def read_channels(module):
    return [int(call.args[0].ty.shape.values[-1]) for call in calls_of(module, "relax.nn.conv2d")]


@pytest.mark.parametrize(("channels", "padded"), [(3, 4), (5, 8), (4, 4), (1, 4)])
def test_only_what_is_turned_gets_more_channels(channels, padded):
    module, _ = module_of(network(channels), (1, channels, 9, 11))
    assert read_channels(pad_channels(channels_last(module))) == [padded, 8, 7]


def test_volumes_get_more_channels_too():
    def build(builder, x):
        return builder.emit(OP.nn.conv3d(x, constant(0, 8, 3, 3, 3, 3)[0], 1, 1))

    module, _ = module_of(build, (1, 3, 4, 9, 11))
    (call,) = calls_of(pad_channels(channels_last(module)), "relax.nn.conv3d")
    assert [[int(size) for size in value.ty.shape] for value in call.args] == [
        [1, 4, 9, 11, 4],
        [3, 3, 3, 4, 8],
    ]


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_results_are_the_same(channels):
    image = np.random.default_rng(channels).standard_normal((1, channels, 9, 11))
    image = image.astype("float32")
    module, signature = module_of(network(channels), image.shape)
    plain = compile_model(module, signature, target="vulkan", layout="nchw")
    transposed = pad_channels(channels_last(module))
    padded = compile_model(transposed, signature, target="vulkan", layout="nchw")
    (expected,), (found,) = run(plain, [image]), run(padded, [image])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_turning_and_filling_up_are_one_kernel_and_weights_are_constants():
    module, _ = module_of(network(3), (1, 3, 16, 16))
    target = Target(MATRIX_GPU, host="llvm")
    kernels, nodes = kernels_of(module, target, layout="nhwc", precision="fp16")
    graph = lower_to_graph(kernels, nodes)
    assert len(graph.kernels) == 1 + 3 + 1  # turned, three convolutions, turned back
    assert graph.tensors[graph.kernels[0].outputs[0]].shape == (1, 16, 16, 4)
    assert (3, 3, 4, 8) in {value.shape for value in graph.params.values()}
