"""The demo as a library, on the CPU with a tiny network: no download, no PyTorch."""

import importlib.util
import subprocess
import sys

import numpy as np
import onnx
import pytest

from tvm_vision.demo import classify, photos, weights
from tvm_vision.demo.annotate import write_images
from tvm_vision.demo.classify import run_demo
from tvm_vision.errors import DeviceError, InputError, UnsupportedModelError
from tvm_vision.runtime.sources import read_image


def test_results_agree_with_onnxruntime_and_are_shown(model, photo, tmp_path):
    lines: list[str] = []
    result = run_demo(model, [photo], device="cpu", report=lines.append)
    (only,) = result.photos
    assert only.ours.class_ids == only.reference.class_ids
    assert only.error < 1e-5
    assert result.inference_ms > 0
    text = "\n".join(lines)
    assert "device: CPU through LLVM, as asked" in text
    assert only.ours.labels[0][:28] in text
    assert "5 likeliest classes in the same order: on 1 of 1 photos" in text
    written = write_images(result, tmp_path / "out" / "deeper")
    assert [path.name for path in written] == ["photo.png"]
    assert read_image(written[0]).shape[0] == 420


def test_a_wrong_result_is_an_error_not_a_table(model, photo, monkeypatch):
    honest = classify._onnxruntime
    monkeypatch.setattr(classify, "_onnxruntime", lambda path: lambda x: honest(path)(x) * 1.01)
    with pytest.raises(DeviceError, match=r"photo\.png differ from onnxruntime's by 9\.9e-03"):
        run_demo(model, [photo], device="cpu", report=lambda line: None)


def test_nan_is_an_error(model, photo, monkeypatch):
    nan = np.full((1, 1000), np.nan, np.float32)
    monkeypatch.setattr(classify.CompiledClassifier, "logits", lambda self, image: nan)
    with pytest.raises(InputError, match="expected finite logits"):
        run_demo(model, [photo], device="cpu", report=lambda line: None)


def test_a_network_of_another_shape_is_refused(tmp_path, photo, make_classifier):
    path = tmp_path / "ten.onnx"
    onnx.save(make_classifier(classes=10), path)
    with pytest.raises(UnsupportedModelError, match=r"has image .*; logits \[1, 10\]"):
        run_demo(path, [photo], device="cpu", report=lambda line: None)


def test_a_missing_model_without_pytorch_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs torch, which is not installed: .*\[export\]"):
        weights.export_efficientnet_lite0(tmp_path / "none.onnx")


def test_compiling_and_running_need_no_pytorch(model, photo):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path; from tvm_vision.demo.classify import run_demo\n"
        f"run_demo(Path({str(model)!r}), [Path({str(photo)!r})], device='cpu')"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_a_broken_photo(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.png' is not an image that OpenCV can read"):
        read_image(path)


def test_a_missing_photo(tmp_path):
    with pytest.raises(InputError, match=r"none\.png' is not there"):
        read_image(tmp_path / "none.png")


def test_bundled_photos_without_their_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="scikit-image, which is not installed: pip install"):
        photos.bundled_photos()


def test_an_output_folder_that_cannot_be_made(model, photo):
    result = run_demo(model, [photo], device="cpu", report=lambda line: None)
    with pytest.raises(InputError, match="cannot be made"):
        write_images(result, photo / "folder")
