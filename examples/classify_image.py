"""A classifier whose package knows its labels.

python examples/classify_image.py [IMAGE ...]
"""

import sys
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
    # What is said here goes into mod.json: a robot needs the package alone.
    info = ModelInfo("colors", kind="classifier", labels=LABELS, preprocessing=preset("unit"))
    package = tvm_vision.compile(
        write_network(folder / "colors.onnx"), folder / "colors.tar", model_info=info
    )
    model = load_model(package, top=2)
    for path in map(Path, sys.argv[1:] or write_images(folder)):
        result = model(cv2.imread(str(path)))
        print(f"{path.name}: {result.describe()} ({result.timing.total_ms:.2f} ms)")
        if not sys.argv[1:]:
            assert next(iter(result.classification))[0] == path.stem
