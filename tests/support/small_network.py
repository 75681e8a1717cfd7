"""The smallest network with a convolution: one image and what onnxruntime makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from support import networks

SIZE = 16


def model(channels: int = 8) -> Any:
    """channels: between the convolution and what follows it. With 64 weights are most of it."""
    builder = networks.Builder(9)
    x = builder.conv("input", 3, channels, 3, 2, act="relu6")
    return builder.model(SIZE, [(builder.head(x, channels, 10), TensorProto.FLOAT)])


IMAGE = np.random.default_rng(2).random((1, 3, SIZE, SIZE), "float32")
REFERENCE = networks.reference(model(), IMAGE)[0]
