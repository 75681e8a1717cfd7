"""The YOEO demo as a library and as a command, with a tiny network, on the CPU."""

from typing import Any

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

from support import yoeo_networks
from tvm_vision.demo import detect, images
from tvm_vision.demo.detect import run_demo
from tvm_vision.errors import DeviceError, InputError
from tvm_vision.evaluate import Reference
from tvm_vision.models.results import Timing, VisionResult
from tvm_vision.runtime.sources import frames, read_image
from tvm_vision.tools.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def network(folder):
    return yoeo_networks.write_tiny(folder / "tiny.onnx")


@pytest.fixture(scope="module")
def still(folder):
    path = folder / "scene.png"
    cv2.imwrite(str(path), yoeo_networks.random_image())
    return path


@pytest.fixture(scope="module")
def clip(folder):
    path = folder / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 15, (160, 120))
    for seed in range(3):
        writer.write(yoeo_networks.random_image(seed=seed))
    writer.release()
    return path


def test_annotated_files_latency_and_device(network, still, clip, tmp_path):
    lines: list[str] = []
    result = run_demo(
        [still, clip], model=network, output=tmp_path, device="cpu", report=lines.append
    )
    assert [path.name for path in result.written] == ["scene.png", "clip.mp4"]
    assert read_image(tmp_path / "scene.png").shape == (120, 160, 3)
    assert len(list(frames([tmp_path / "clip.mp4"]))) == 3
    assert result.package.name == "tiny-cpu-fp32.tar"
    text = "\n".join(lines)
    assert "device: CPU through LLVM, as asked" in text
    assert "boxes and masks are onnxruntime's on 1 images" in text
    assert "  clip.avi: 3 frames, " in text and " ms (median) on CPU" in text
    assert result.timing.total_ms > 0


def test_without_a_gpu_it_takes_the_cpu(network, still, tmp_path, device_info):
    if not device_info.is_cpu:
        pytest.skip("the first Vulkan device is a GPU")
    lines: list[str] = []
    result = run_demo([still], model=network, output=tmp_path, report=lines.append)
    assert result.package.name == "tiny-cpu-fp32.tar"
    assert lines[0].startswith("device: CPU through LLVM, without a GPU: llvmpipe")


def test_a_wrong_result_is_an_error(network, still, tmp_path, monkeypatch):
    honest = Reference.run

    def dishonest(self, inputs):
        outputs = honest(self, inputs)
        shift = np.array([5, 0, 0, 0, 0, 0, 0, 0], np.float32)
        return {**outputs, "Detections": outputs["Detections"] + shift}

    monkeypatch.setattr(Reference, "run", dishonest)
    with pytest.raises(DeviceError, match=r"scene\.png: results must be onnxruntime's, and are"):
        run_demo([still], model=network, output=tmp_path, device="cpu", report=lambda line: None)
    assert not list(tmp_path.glob("*.png"))


def test_the_command(network, still, tmp_path):
    words = ["demo", still, "--model", network, "--device", "cpu", "--output", tmp_path / "out"]
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert f"wrote {tmp_path / 'out' / 'scene.png'}" in result.stdout


def test_missing_images_and_models(network, still, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "FOLDER", tmp_path)
    with pytest.raises(InputError, match="the demo's images are needed, and they are not inst"):
        run_demo(model=network, output=tmp_path, device="cpu")
    with pytest.raises(InputError, match=r"none\.onnx' is not there"):
        run_demo([still], model=tmp_path / "none.onnx", output=tmp_path, device="cpu")
    with pytest.raises(InputError, match=r"none\.png"):
        run_demo([tmp_path / "none.png"], model=network, output=tmp_path, device="cpu")


def test_a_median_of_each_stage(still, monkeypatch):
    timings = iter([(1, 9, 1), (3, 2, 1), (2, 5, 7)])
    monkeypatch.setattr(detect, "MAX_RUNS", 3)
    detector: Any = lambda image: VisionResult(Timing(*next(timings)))  # noqa: E731
    timing = detect.time_detector(detector, [still])
    assert (timing.preprocess_ms, timing.inference_ms, timing.postprocess_ms) == (2, 5, 1)
