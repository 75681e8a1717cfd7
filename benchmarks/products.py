"""Writes a network of products alone, to time their tiles: rows and widths of transformers, of
convolutions of one pixel, and of batches.

    python -m benchmarks.products products.onnx
    tvm-vision tune products.onnx --precision fp16 --records products.jsonl
    python -m benchmarks.fit_costs products.jsonl products.onnx --precision fp16

benchmarks/results has such records of an H200, and what its driver said of it, so that costs can be
fitted again without one:

    python -m benchmarks.fit_costs benchmarks/results/nvidia-h200-products.jsonl products.onnx \\
        --target benchmarks/results/nvidia-h200-device.json --precision fp16

Those of float32 (``--fp32`` here, nvidia-h200-products-fp32.jsonl, ``--precision fp32``) are of
other rows and widths, and of tiles that fetch ahead.
"""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .network_files import FP32, command_of, model_of

SEED = 0
# Rows, then widths: each product's outputs are the next one's inputs.
CHAINS = (
    (49, 768, 3072, 768, 512, 2048),
    (196, 768, 2304, 768, 3072, 768),
    (197, 384, 1152, 384, 1536, 384),
    (197, 192, 576, 192, 768, 192),
    (256, 512, 2048, 512),
    (788, 768, 2304, 768, 3072, 768),
    (1024, 1024, 1024, 256, 1024),
    (3136, 64, 256, 64, 128, 512),
    (12544, 64, 256, 64),
    (3152, 768, 2304, 768, 3072, 768),
)
FP32_CHAINS = (
    (197, 768, 2304),
    (197, 768, 3072, 768),
    (788, 768, 2304),
    (788, 768, 3072, 768),
    (196, 384, 1536, 384),
    (49, 512, 2048, 512),
    (196, 1024, 256, 1024),
    (784, 512, 128, 512),
    (3136, 64, 256, 64),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (12544, 64, 256),
    (4096, 320, 1280, 320),
    (16, 1280, 5120, 1280),
    (64, 384, 1536, 384),
    (100, 256, 2048, 256),
    (256, 96, 384, 96),
    (400, 512, 2048, 512),
    (784, 192, 768, 192),
    (1500, 384, 1536, 384),
    (3136, 96, 384, 96),
    (4096, 64, 64),
)


def network(fp32: bool = False) -> onnx.ModelProto:
    """A chain for each of CHAINS, or FP32_CHAINS, with bias and ReLU behind each product; weights
    of SEED."""
    random = np.random.default_rng(SEED)
    inputs, outputs, nodes, weights = [], [], [], []
    for i, (rows, *widths) in enumerate(FP32_CHAINS if fp32 else CHAINS):
        at = f"x{i}"
        inputs.append(helper.make_tensor_value_info(at, TensorProto.FLOAT, [rows, widths[0]]))
        for j, (k, n) in enumerate(itertools.pairwise(widths)):
            w, b, p, s, y = (f"{name}{i}_{j}" for name in "wbpsy")
            factor = random.standard_normal((k, n), np.float32) / np.float32(k**0.5)
            weights.append(numpy_helper.from_array(factor, w))
            weights.append(numpy_helper.from_array(random.standard_normal(n, np.float32), b))
            nodes.append(helper.make_node("MatMul", [at, w], [p]))
            nodes.append(helper.make_node("Add", [p, b], [s]))
            nodes.append(helper.make_node("Relu", [s], [y]))
            at = y
        outputs.append(helper.make_tensor_value_info(at, TensorProto.FLOAT, [rows, widths[-1]]))
    return model_of(helper.make_graph(nodes, "products", inputs, outputs, weights))


main = command_of(network, 150, FP32)

if __name__ == "__main__":
    main()
