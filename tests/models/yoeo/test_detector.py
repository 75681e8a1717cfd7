"""Packages of tiny YOEO networks at work on the CPU, against onnxruntime and by their own words."""

import os
import subprocess
import sys
import threading

import cv2
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import yoeo_networks
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import InputError
from tvm_vision.evaluate import Reference
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.models import load_model
from tvm_vision.models.yoeo import YoeoDetector
from tvm_vision.package import ModelInfo, read_package


def compiled(folder, name, **options):
    path = yoeo_networks.write_tiny(folder / f"{name}.onnx", **options)
    info = yoeo_model_info(path)
    return compile_network(path, folder / f"{name}.tar", target="llvm", model_info=info)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("yoeo")


@pytest.fixture(scope="module")
def decoded(folder):
    return compiled(folder, "decoded")


@pytest.fixture(scope="module")
def raw(folder):
    return compiled(folder, "raw", raw_heads=True)


@pytest.fixture(scope="module", params=["decoded", "raw"])
def package(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def detector(package):
    return YoeoDetector.load(package, confidence=0.4)


def test_says_what_it_is(detector, package):
    assert detector.class_names == ("ball", "goalpost", "robot")
    assert detector.segmentation_names == ("background", "lines", "field")
    assert (detector.kind, detector.device_type) == ("yoeo", "cpu")
    assert isinstance(load_model(package, confidence=0.1), YoeoDetector)
    with read_package(package) as read:
        assert detector.checksum == read.info.checksum
    detector.warm_up()


def test_is_onnxruntime_with_the_same_steps_around(detector, package, folder):
    image = yoeo_networks.random_image()
    result = detector(image)
    tensor, letterbox = detector.prepare(image)
    reference = Reference(package.with_suffix(".onnx")).run({"InputLayer": tensor})
    detections, segmentation = detector.interpret(reference, letterbox).values()
    assert 3 < len(result.detections) == len(detections)
    assert result.detections.class_ids.tolist() == detections.class_ids.tolist()
    assert np.abs(result.detections.boxes - detections.boxes).max() < 1e-2
    assert np.abs(result.detections.scores - detections.scores).max() < 1e-5
    assert (result.segmentation.mask == segmentation.mask).mean() > 0.999
    assert len(np.unique(segmentation.mask)) > 1
    stages = result.timing
    assert min(stages.preprocess_ms, stages.inference_ms, stages.postprocess_ms) > 0


def test_raw_heads_say_the_same_as_decoded_boxes(raw, decoded):
    image = yoeo_networks.random_image(75, 200)
    results = [YoeoDetector.load(path, confidence=0.3)(image) for path in (raw, decoded)]
    first, second = (result.detections for result in results)
    assert first is not None and second is not None
    assert 3 < len(first) == len(second)
    assert np.abs(first.boxes - second.boxes).max() < 1e-2
    assert np.array_equal(results[0].segmentation.mask, results[1].segmentation.mask)


def test_settings_count_and_are_checked(detector):
    image = yoeo_networks.random_image()
    many = len(detector(image).detections)
    detector.max_detections = 2
    assert len(detector(image).detections) == 2
    detector.max_detections = 300
    detector.iou = 0.0
    assert len(detector(image).detections) < many
    detector.iou, detector.confidence = 0.4, 1.0
    assert len(detector(image).detections) == 0
    for name, value in [
        ("confidence", 1.1),
        ("confidence", float("nan")),
        ("confidence", "much"),
        ("iou", -0.1),
        ("max_detections", 0),
        ("max_detections", 1.5),
    ]:
        with pytest.raises(InputError, match=f"is needed, found {value}"):
            setattr(detector, name, value)


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 1, 3), (1, 3000, 3), (3000, 1, 3), (97, 33), (64, 64, 4), (2, 2, 1)]
)
def test_images_of_any_form(detector, shape):
    result = detector(np.full(shape, 128, np.uint8))
    assert result.segmentation.mask.shape == shape[:2]
    boxes = result.detections.boxes
    assert (boxes >= 0).all() and (boxes <= [shape[1], shape[0]] * 2).all()


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 9))
def test_boxes_lie_in_any_image_and_masks_cover_it(detector, height, width, seed):
    detector.confidence = 0.2
    result = detector(yoeo_networks.random_image(height, width, seed))
    assert result.segmentation.mask.shape == (height, width)
    boxes = result.detections.boxes
    assert (boxes >= 0).all() and (boxes <= [width, height] * 2).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_a_frame_does_not_depend_on_those_before(detector):
    image = yoeo_networks.random_image()
    first = detector(image)
    detector(yoeo_networks.random_image(300, 31, seed=5))
    second = detector(image)
    assert np.array_equal(first.detections.boxes, second.detections.boxes)
    assert np.array_equal(first.segmentation.mask, second.segmentation.mask)


@pytest.mark.parametrize("edge", [None, 96])
def test_results_stay_when_the_next_frame_comes(detector, edge):
    # Of 96 pixels, as the network's own, nothing is resized on the way to the result.
    image = yoeo_networks.random_image()[:edge, :edge]
    result = detector(image)
    boxes, mask = result.detections.boxes.copy(), result.segmentation.mask.copy()
    detector(255 - image)
    assert np.array_equal(result.detections.boxes, boxes)
    assert np.array_equal(result.segmentation.mask, mask)


def test_a_network_that_went_wrong_is_an_error(folder):
    model = yoeo_networks.tiny_model()
    bias = next(t for t in model.graph.initializer if list(t.dims) == [16])
    broken = onnx.numpy_helper.from_array(np.full(16, np.nan, np.float32), bias.name)
    bias.CopyFrom(broken)
    onnx.save(model, folder / "nan.onnx")
    info = yoeo_model_info(folder / "nan.onnx")
    path = compile_network(folder / "nan.onnx", folder / "nan.tar", target="llvm", model_info=info)
    with pytest.raises(InputError, match="scores are needed from the network, found NaN in"):
        YoeoDetector.load(path)(yoeo_networks.random_image())


def test_networks_that_are_no_yoeo(folder, decoded):
    found = compile_network(decoded.with_suffix(".onnx"), folder / "found.tar", target="llvm")
    YoeoDetector.load(found)  # its file says what it is
    plain = compile_network(
        decoded.with_suffix(".onnx"), folder / "plain.tar", target="llvm",
        model_info=ModelInfo("decoded"),
    )  # fmt: skip
    with pytest.raises(InputError, match="a YOEO network is needed, and 'decoded' \\(network\\)"):
        YoeoDetector.load(plain)
    old = ModelInfo("old", kind="yoeo", labels=("a",))
    path = compile_network(
        decoded.with_suffix(".onnx"), folder / "old.tar", target="llvm", model_info=old
    )
    with pytest.raises(InputError, match="'old' \\(yoeo\\) is none or does not say what its outp"):
        load_model(path)


def test_images_are_bgr(detector, folder):
    image = yoeo_networks.random_image()
    cv2.imwrite(str(folder / "image.png"), image)
    read = cv2.imread(str(folder / "image.png"))
    assert np.array_equal(detector(read).segmentation.mask, detector(image).segmentation.mask)
    swapped = detector(np.ascontiguousarray(image[..., ::-1]))
    assert not np.array_equal(swapped.detections.scores, detector(image).detections.scores)


def test_a_robot_needs_no_compiler(package):
    code = (
        # tvm_ffi imports PyTorch where it finds it.
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from tvm_vision.models import load_model\n"
        f"model = load_model({str(package)!r}, confidence=0.4)\n"
        "result = model(np.full((60, 80, 3), 128, np.uint8))\n"
        "assert result.segmentation.mask.shape == (60, 80)\n"
        "loaded = {'onnx', 'tvm.relax', 'tvm_vision.compiler'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_two_threads_never_get_each_others_frames(detector):
    frames = [yoeo_networks.random_image(), yoeo_networks.random_image()[::-1].copy()]
    wanted = [detector(frame).segmentation.mask for frame in frames]
    assert not np.array_equal(*wanted)
    counts = {"right": 0, "refused": 0, "wrong": 0}

    def work(number):
        for _ in range(60):
            try:
                found = detector(frames[number]).segmentation.mask
            except InputError as error:
                assert "thread" in str(error)
                counts["refused"] += 1
                continue
            counts["right" if np.array_equal(found, wanted[number]) else "wrong"] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts["wrong"] == 0 < counts["right"], counts
