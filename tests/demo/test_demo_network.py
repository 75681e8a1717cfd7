"""The network that comes along, on the images that come along: fp16 and GPUs see the same."""

import onnx
import pytest

from tvm_vision.api import compile as compile_network
from tvm_vision.demo.images import MODEL, demo_clip, demo_images
from tvm_vision.evaluate import Reference, compare_frames
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models.yoeo import YoeoDetector
from tvm_vision.runtime.sources import frames, read_image

MAX_BYTES = 6_000_000


@pytest.fixture(scope="module")
def reference():
    return Reference(MODEL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("network")


def compiled(folder, target, precision):
    path = folder / f"{target}-{precision}.tar"
    info = yoeo_model_info(MODEL)
    if not path.exists():
        compile_network(MODEL, path, target=target, precision=precision, model_info=info)
    return YoeoDetector.load(path)


def test_it_is_small_and_says_what_it_finds():
    assert MODEL.stat().st_size < MAX_BYTES
    onnx.checker.check_model(onnx.load(MODEL), full_check=True)
    info = yoeo_model_info(MODEL)
    assert info.labels == ("ball", "goalpost", "robot")
    assert info.yoeo.segmentation_labels == ("background", "lines", "field")


def test_images_and_clip_are_there():
    paths, clip = demo_images(), demo_clip()
    assert len(paths) >= 4 and clip is not None
    assert sum(path.stat().st_size for path in [*paths, clip]) < 1_000_000
    assert len(list(frames([clip]))) > 10


@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
def test_it_sees_what_onnxruntime_sees(reference, folder, precision):
    assert_same(compiled(folder, "llvm", precision), reference, precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_vulkan_device_sees_the_same(reference, folder, precision, device_info):
    assert_same(compiled(folder, "vulkan", precision), reference, precision)


def assert_same(detector, reference, precision):
    """Boxes and mask of all images are onnxruntime's."""
    images = [read_image(path) for path in demo_images()]
    boxes = 0
    for found in compare_frames(detector, reference, images):
        assert found.within(precision), str(found)
        boxes += found.boxes
    assert boxes > 20


def test_it_finds_a_ball_and_a_robot(folder):
    detector = compiled(folder, "llvm", "fp32")
    results = [detector(read_image(path)) for path in demo_images()]
    names = {name for result in results for name, score, _ in result.detections if score > 0.8}
    assert {"ball", "robot"} <= names
    assert all(result.segmentation.share("field") > 0.05 for result in results)
