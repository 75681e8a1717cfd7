"""Writes a network of large convolutions alone, to time their tiles: those of decoders and heads of
segmentation, and of detectors' pyramids.

    python -m benchmarks.convolutions convolutions.onnx
    tvm-vision tune convolutions.onnx --precision fp16 --records convolutions.jsonl --task conv2d
    python -m benchmarks.fit_costs convolutions.jsonl convolutions.onnx --precision fp16

benchmarks/results has such records of an H200, and what its driver said of it: with
``--target benchmarks/results/nvidia-h200-device.json`` costs can be fitted again without one. Those
of float32 (``--fp32`` here, nvidia-h200-convolutions-fp32.jsonl) are of smaller layers, of one
pixel too, as backbones have them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .network_files import FP32, command_of, model_of

SEED = 0


@dataclass(frozen=True)
class Layer:
    """A convolution: channels, outputs, edge of its square image and of its windows."""

    channels: int
    outputs: int
    edge: int
    window: int = 3
    stride: int = 1
    dilation: int = 1


LAYERS = (
    Layer(1024, 256, 96),
    Layer(768, 256, 40),
    Layer(512, 512, 40),
    Layer(2048, 512, 40, dilation=2),
    Layer(256, 256, 80),
    Layer(256, 256, 160),
    Layer(384, 128, 80),
    Layer(192, 64, 160),
    Layer(128, 128, 160),
    Layer(512, 256, 96),
    Layer(64, 64, 320),
)
FP32_LAYERS = (
    Layer(3, 64, 224, 7, 2),
    Layer(3, 16, 416, 3, 2),
    Layer(16, 32, 208, 3, 2),
    Layer(64, 128, 80, 3, 2),
    Layer(128, 256, 40, 3, 2),
    Layer(256, 512, 14, 3, 2),
    Layer(64, 64, 56),
    Layer(32, 64, 104),
    Layer(128, 128, 28),
    Layer(256, 256, 14),
    Layer(512, 512, 7),
    Layer(128, 256, 26),
    Layer(256, 21, 40, dilation=4),
    Layer(48, 48, 40, 5),
    Layer(64, 256, 56, 1),
    Layer(256, 64, 56, 1),
    Layer(512, 128, 28, 1),
    Layer(256, 1024, 14, 1),
    Layer(1024, 256, 14, 1),
    Layer(2048, 512, 7, 1),
    Layer(96, 24, 56, 1),
    Layer(144, 32, 28, 1),
    Layer(384, 96, 14, 1),
    Layer(160, 960, 7, 1),
    Layer(960, 320, 7, 1),
    Layer(256, 255, 52, 1),
)


def network(fp32: bool = False) -> onnx.ModelProto:
    """Each of LAYERS, or FP32_LAYERS, with an input of its own, bias and ReLU; weights of SEED."""
    random = np.random.default_rng(SEED)
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    nodes, weights = [], []
    for number, layer in enumerate(FP32_LAYERS if fp32 else LAYERS):
        x, w, b, sums, y = (f"{name}{number}" for name in "xwbsy")
        shape = (layer.outputs, layer.channels, layer.window, layer.window)
        values = random.standard_normal(shape, np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)
        weights.append(numpy_helper.from_array(values, w))
        weights.append(
            numpy_helper.from_array(random.standard_normal(layer.outputs, np.float32), b)
        )
        given = {
            "pads": [layer.dilation * (layer.window // 2)] * 4,
            "strides": [layer.stride] * 2,
            "dilations": [layer.dilation] * 2,
        }
        nodes.append(helper.make_node("Conv", [x, w, b], [sums], **given))
        nodes.append(helper.make_node("Relu", [sums], [y]))
        after = -(-layer.edge // layer.stride)
        ends = (
            (x, inputs, layer.channels, layer.edge),
            (y, outputs, layer.outputs, after),
        )
        for name, of_image, image, edge in ends:
            sizes = [1, image, edge, edge]
            of_image.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes))
    return model_of(helper.make_graph(nodes, "convolutions", inputs, outputs, weights))


main = command_of(network, 76, FP32)

if __name__ == "__main__":
    main()
