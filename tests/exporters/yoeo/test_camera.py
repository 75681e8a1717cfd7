"""Frames prepared by the network's first kernels, beside those that OpenCV prepares."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from support import yoeo_networks
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import InputError
from tvm_vision.evaluate import Reference, compare_frames, strictness_for
from tvm_vision.exporters.yoeo.camera import with_camera
from tvm_vision.exporters.yoeo.describe import write_camera_model, yoeo_model_info
from tvm_vision.models.frames import Preprocessor
from tvm_vision.models.image_inputs import image_inputs
from tvm_vision.models.yoeo import YoeoDetector

SHAPES = [(120, 160), (160, 120), (96, 96), (64, 300), (37, 91)]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return yoeo_networks.write_tiny(tmp_path_factory.mktemp("camera") / "yoeo.onnx")


@pytest.fixture(scope="module", params=["llvm", "vulkan"])
def package(request, network):
    info = yoeo_model_info(network)
    path = network.with_name(f"camera-{request.param}.onnx")
    write_camera_model(network, path, info, (120, 160))
    return compile_network(path, path.with_suffix(".tar"), target=request.param, model_info=info)


def prepared(network, image, **changes):
    """The network's input, by the nodes in front of it and by OpenCV."""
    described = yoeo_model_info(network).preprocessing
    assert described is not None
    preprocessing = replace(described, **changes)
    model = with_camera(onnx.load(network), "InputLayer", image.shape[:2], preprocessing)
    onnx.checker.check_model(model, full_check=True)
    values = Reference(model, values=["InputLayer"]).run({"camera/InputLayer": image[None]})
    prepare = Preprocessor(preprocessing)
    prepare(image)
    return values["InputLayer"], prepare.tensor


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interpolation", ["linear", "nearest", "cubic"])
def test_the_same_as_opencv(network, shape, interpolation):
    nodes, opencv = prepared(
        network, yoeo_networks.random_image(*shape), interpolation=interpolation
    )
    assert nodes.shape == opencv.shape
    # OpenCV rounds to whole numbers of 0..255 after resizing; cubic may leave that range before.
    inside = (opencv > 0) & (opencv < 1) if interpolation == "cubic" else np.ones(1, bool)
    wrong = inside & (np.abs(nodes - opencv) > 1.01 / 255)
    # Half-way between two pixels either is the nearest: columns of 300 in 96 meet that.
    assert wrong.mean() <= (0.02 if interpolation == "nearest" and shape[1] == 300 else 0)


def test_mean_scale_and_order(network):
    changes = {"mean": (10.0, 20.0, 30.0), "std": (50.0, 60.0, 70.0), "color_order": "bgr"}
    nodes, opencv = prepared(
        network, yoeo_networks.random_image(), interpolation="nearest", **changes
    )
    assert nodes == pytest.approx(opencv, abs=1e-5)


def test_no_kernels_for_areas(network):
    with pytest.raises(
        InputError, match="an interpolation of linear, nearest, cubic .* found area"
    ):
        prepared(network, yoeo_networks.random_image(), interpolation="area")


def test_boxes_and_mask_are_the_same(package, network):
    detector = YoeoDetector.load(package)
    reference = Reference(network)
    assert detector.frame_size == (120, 160) and strictness_for(detector, reference) == "fp16"
    detector.warm_up()
    images = [yoeo_networks.random_image(seed=seed) for seed in range(3)]
    for found in compare_frames(detector, reference, images):
        assert found.boxes > 3 and found.within("fp16"), str(found)


def test_only_frames_of_that_size(package):
    detector = YoeoDetector.load(package, confidence=0.3)
    with pytest.raises(InputError, match="frames of 120x160 .* found 160x120: compile it with"):
        detector(yoeo_networks.random_image(160, 120))
    grey = np.full((120, 160), 99, np.uint8)
    color, alpha = np.dstack([grey] * 3), np.dstack([grey] * 4)
    results = [detector(image).detections.boxes.copy() for image in (grey, color, alpha)]
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[1], results[2])


def test_images_as_inputs_of_other_commands(package):
    executor = YoeoDetector.load(package)._executor
    (array,) = image_inputs(executor.info, yoeo_networks.random_image(50, 50)).values()
    assert array.shape == (1, 120, 160, 3) and array.dtype == np.uint8
    assert executor.info["inputs"][0]["layout"] == "NHWC"
