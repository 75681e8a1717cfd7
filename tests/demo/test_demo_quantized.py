"""The network that comes along with int8 weights and activations: it hardly sees anything else."""

import cv2
import numpy as np
import pytest

from tvm_vision.api import compile as compile_network
from tvm_vision.api import quantize
from tvm_vision.demo.images import MODEL, demo_clip, demo_images
from tvm_vision.evaluate import Reference, compare_frames, strictness_for
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models.yoeo import YoeoDetector
from tvm_vision.options import variable_of
from tvm_vision.runtime.sources import frames, read_image

# Small networks in int8: tests/compiler/relax/test_qdq.py.
pytestmark = pytest.mark.slow

FRAMES = 5  # of the clip, to calibrate with; the images are others


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The network, quantized."""
    folder = tmp_path_factory.mktemp("quantized")
    clip = demo_clip()
    assert clip is not None
    for index, frame in enumerate(list(frames([clip]))[::9][:FRAMES]):
        cv2.imwrite(str(folder / f"{index}.png"), frame.image)
    quantize(MODEL, folder / "int8.onnx", sample_images=[folder], model_info=yoeo_model_info(MODEL))
    return folder / "int8.onnx"


def detector(model, target):
    path = model.parent / f"{model.stem}-{target}.tar"
    compile_network(model, path, target=target, model_info=yoeo_model_info(model))
    return YoeoDetector.load(path)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_it_sees_what_onnxruntime_sees(made, target, monkeypatch):
    monkeypatch.setenv(variable_of("int8"), "on")
    ours, reference = detector(made, target), Reference(made)
    strictness = strictness_for(ours, reference)
    assert strictness == "int8"
    boxes = 0
    for found in compare_frames(ours, reference, map(read_image, demo_images())):
        assert found.within(strictness), str(found)
        boxes += found.boxes
    assert boxes > 20


def test_detections_hardly_change(made, tmp_path, monkeypatch):
    """Of 20 boxes that float32 finds on four images at most two vanish, and no more appear; the
    others overlap by 0.95 on average, and of each mask 99.5 % are the same."""
    exact = YoeoDetector.load(compile_network(MODEL, tmp_path / "exact.tar", target="llvm",
                                              model_info=yoeo_model_info(MODEL)))  # fmt: skip
    monkeypatch.setenv(variable_of("int8"), "on")
    ours = detector(made, "llvm")
    kept, found_again = [], []
    for image in map(read_image, demo_images()):
        wanted, found = exact(image), ours(image)
        kept += overlaps(wanted.detections, found.detections)
        found_again += overlaps(found.detections, wanted.detections)
        assert np.mean(wanted.segmentation.mask == found.segmentation.mask) > 0.995
    assert len(kept) == 20
    for each in (kept, found_again):
        same = [overlap for overlap in each if overlap > 0.5]
        assert len(same) >= len(each) - 2
        assert np.mean(same) > 0.95


def overlaps(some, others):
    """For each of some boxes the largest overlap with one of the others of its class."""
    return [
        max((iou(box, other) for of, _, other in others if of == name), default=0.0)
        for name, _, box in some
    ]


def iou(one, other):
    (a, b, c, d), (e, f, g, h) = one, other
    width, height = min(c, g) - max(a, e), min(d, h) - max(b, f)
    common = max(0.0, width) * max(0.0, height)
    return common / ((c - a) * (d - b) + (g - e) * (h - f) - common)
