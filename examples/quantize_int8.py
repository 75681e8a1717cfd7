"""A network with int8 weights and activations: python examples/quantize_int8.py.

Needs onnxruntime (pip install 'tvm_vision[demo]'), which looks at the samples.
"""

import tempfile
from pathlib import Path

import cv2
from small_network import LABELS, write_images, write_network

import tvm_vision
from tvm_vision.models import load_model
from tvm_vision.models.classifier import preset
from tvm_vision.package import ModelInfo

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    images = write_images(folder)
    info = ModelInfo("colors", kind="classifier", labels=LABELS, preprocessing=preset("unit"))
    errors = tvm_vision.quantize(
        write_network(folder / "colors.onnx"),
        folder / "int8.onnx",
        sample_images=images,
        model_info=info,
    )
    print("error of each output:", {output: round(error, 4) for output, error in errors.items()})
    # "int8": "on" asks for it on devices, too, whose hardware has no dot product of int8.
    package = tvm_vision.compile(
        folder / "int8.onnx", folder / "int8.tar", model_info=info, options={"int8": "on"}
    )
    model = load_model(package)
    for path in images:
        best, probability = next(iter(model(cv2.imread(str(path))).classification))
        print(f"{path.name}: {best} {probability:.0%}")
        assert best == path.stem
