"""TFLite networks whose image and outputs are integers, NHWC: logits of three classes, and scores
of these for each place."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_vision.package import ModelInfo, Preprocessing, SegmentationInfo

from .tflite_models import Graph

SIZE = (64, 96)
NAMES = ("ball", "post", "robot")
DTYPES = ("int8", "uint8")
MODELS = {
    "classifier": ModelInfo(
        "c", "classifier", NAMES, Preprocessing(SIZE, mean=(127.5,) * 3, std=(127.5,) * 3)
    ),
    "segmenter": ModelInfo(
        "s", "segmenter", NAMES,
        Preprocessing(
            SIZE, letterbox=True, mean=(127.5,) * 3, std=(127.5,) * 3, interpolation="linear"
        ),
        segmentation=SegmentationInfo("scores", channels_last=True),
    ),
}  # fmt: skip


def write(path: Path, dtype: str) -> Path:
    """The image in -1 to 1, a convolution over it, and the mean of that."""
    rng, graph, moved = np.random.default_rng(6), Graph(), 128 * (dtype == "uint8")

    def tensor(shape: tuple[int, ...], scale: float, zero: int, name: str) -> int:
        return graph.tensor(shape, dtype, scale=scale, zero_point=zero + moved, name=name)

    image = tensor((1, *SIZE, 3), 1 / 127, -1, "image")
    kernel = rng.integers(-127, 128, (3, 8, 8, 3)).astype(np.int8)
    kernel = (kernel.astype(np.int16) + moved).astype(dtype)
    weights = graph.tensor(data=kernel, scale=0.004, zero_point=moved)
    bias = graph.tensor(data=np.array([900, -300, 0], np.int32), scale=0.004 / 127)
    scores = tensor((1, 16, 24, 3), 0.06, 7, "scores")
    logits = tensor((1, 3), 0.02, -9, "logits")
    graph.operator(
        "CONV_2D", [image, weights, bias], [scores], Padding=0, StrideH=4, StrideW=4,
        DilationHFactor=1, DilationWFactor=1,
    )  # fmt: skip
    axes = graph.tensor(data=np.array([1, 2], np.int32))
    graph.operator("MEAN", [scores, axes], [logits])
    return graph.write(path, [image], [logits, scores])
