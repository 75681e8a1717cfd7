"""Writes a network of large convolutions alone, to time their tiles: those of decoders and heads of
segmentation, and of detectors' pyramids.

    python -m benchmarks.convolutions convolutions.onnx
    tvm-vision tune convolutions.onnx --precision fp16 --records convolutions.jsonl --task conv2d
    python -m benchmarks.fit_costs convolutions.jsonl convolutions.onnx --precision fp16

benchmarks/results has such records of an H200, and what its driver said of it: with
``--target benchmarks/results/nvidia-h200-device.json`` costs can be fitted again without one.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .network_files import command_of, model_of

SEED = 0
WINDOW = 3
# Channels, outputs, edge of the image, dilation.
LAYERS = (
    (1024, 256, 96, 1),
    (768, 256, 40, 1),
    (512, 512, 40, 1),
    (2048, 512, 40, 2),
    (256, 256, 80, 1),
    (256, 256, 160, 1),
    (384, 128, 80, 1),
    (192, 64, 160, 1),
    (128, 128, 160, 1),
    (512, 256, 96, 1),
    (64, 64, 320, 1),
)


def network() -> onnx.ModelProto:
    """Each of LAYERS with an input of its own, bias and ReLU; weights of SEED."""
    random = np.random.default_rng(SEED)
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    nodes, weights = [], []
    for number, (channels, filters, edge, dilation) in enumerate(LAYERS):
        x, w, b, sums, y = (f"{name}{number}" for name in "xwbsy")
        shape = (filters, channels, WINDOW, WINDOW)
        values = random.standard_normal(shape, np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)
        weights.append(numpy_helper.from_array(values, w))
        weights.append(numpy_helper.from_array(random.standard_normal(filters, np.float32), b))
        pads, dilations = [dilation * (WINDOW // 2)] * 4, [dilation] * 2
        nodes.append(helper.make_node("Conv", [x, w, b], [sums], pads=pads, dilations=dilations))
        nodes.append(helper.make_node("Relu", [sums], [y]))
        for name, of_image, image in ((x, inputs, channels), (y, outputs, filters)):
            sizes = [1, image, edge, edge]
            of_image.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes))
    return model_of(helper.make_graph(nodes, "convolutions", inputs, outputs, weights))


main = command_of(network, megabytes=76)

if __name__ == "__main__":
    main()
