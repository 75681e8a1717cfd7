"""Where a frame's time goes, kernel by kernel: python examples/profile_layers.py."""

import tempfile
from pathlib import Path

import numpy as np
from small_network import SIZE, write_network

import tvm_vision

with tempfile.TemporaryDirectory() as folder:
    model = write_network(Path(folder) / "colors.onnx")
    network = tvm_vision.load(tvm_vision.compile(model, Path(folder) / "colors.tar"))
    network.set_input("image", np.zeros((1, 3, SIZE, SIZE), np.float32))

    report = network.profile(repeat=5)
    print(report.device_description)
    for kernel in report.kernels:
        nodes = ", ".join(kernel.nodes)
        print(f"{kernel.median_us:9.1f} µs {kernel.share:5.0%}  {kernel.function}: {nodes}")
    print(f"{report.span_us:9.1f} µs from the first kernel to the last")
    print(f"{report.wall_us:9.1f} µs for a frame by the host's clock")

    # Whole frames, without timestamps between kernels.
    print(network.benchmark(repeat=5))
