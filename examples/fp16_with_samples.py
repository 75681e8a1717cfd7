"""Half the memory, and float32 where fp16 would cost too much.

python examples/fp16_with_samples.py

Samples are images such as the robot sees. Each layer's error is measured on them.
"""

import tempfile
from pathlib import Path

from small_network import LABELS, write_images, write_network

import tvm_vision
from tvm_vision.models.classifier import preset
from tvm_vision.package import ModelInfo, read_package

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model = write_network(folder / "colors.onnx")
    info = ModelInfo("colors", kind="classifier", labels=LABELS, preprocessing=preset("unit"))
    single = tvm_vision.compile(model, folder / "fp32.tar", model_info=info)
    half = tvm_vision.compile(
        model,
        folder / "fp16.tar",
        model_info=info,
        precision="fp16",
        sample_images=write_images(folder),
        max_error=0.001,
    )
    for package in (single, half):
        memory = read_package(package).info.memory
        print(f"{package.name}: {memory.weights + memory.activations} bytes on the device")
    measured = read_package(half).info.measured_precision
    assert measured is not None
    print(f"largest error on {measured.samples} samples: {measured.error:.1e}")
    print(f"{len(measured.kept)} of {measured.layers} layers keep float32")
    assert measured.error <= 0.001
