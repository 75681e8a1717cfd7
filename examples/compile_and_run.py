"""Compile an ONNX file for this machine and run it: python examples/compile_and_run.py."""

import tempfile
from pathlib import Path

import numpy as np
from small_network import SIZE, write_network

import tvm_vision

with tempfile.TemporaryDirectory() as folder:
    model = write_network(Path(folder) / "colors.onnx")
    # The first Vulkan device, or this processor where there is none.
    package = tvm_vision.compile(model, Path(folder) / "colors.tar")
    network = tvm_vision.load(package)
    print("device:", network.device_description)

    image = np.random.default_rng(0).random((1, 3, SIZE, SIZE), np.float32)
    network.run(image=image)
    scores = network.get_output(0).numpy()
    print("scores:", scores.shape, scores.dtype, scores.round(3).tolist())
    # Both ways to name an output give the same.
    assert np.array_equal(scores, network.outputs()["scores"])
