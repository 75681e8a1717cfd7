"""What the library of cpp/ reads of outputs and makes of images: the same as Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from support import quantized_ends
from support.runner import run
from support.runner_networks import MODELS, PREPARATIONS, assert_close, images, package_of
from tvm_vision.api import compile as compile_network
from tvm_vision.models import load_model
from tvm_vision.models.image_inputs import prepared_image
from tvm_vision.package import Package, read_package, unpack_package


def written(built: Path, package: Path, folder: Path) -> dict[str, Any]:
    """Lines of results by image, after all images were written to the folder."""
    for name, image in images():
        (folder / f"{name}.bgr").write_bytes(image.tobytes())
    done = run(built / "results", package, folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {name: [] for name, _ in images()}
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        found[name].append([float(number) for number in numbers])
    return found


def expected_rows(result: Any) -> list[list[float]]:
    """What ``results`` prints of a result."""
    if result.classification is not None:
        pairs = zip(result.classification.class_ids, result.classification, strict=True)
        return [[float(index), probability] for index, (_, probability) in pairs]
    found, lines = result.detections, []
    for i in range(len(found) if found is not None else 0):
        line = [float(found.class_ids[i]), float(found.scores[i]), *found.boxes[i].tolist()]
        if found.keypoints is not None:
            line += found.keypoints[i].reshape(-1).tolist()
        if found.oriented_boxes is not None:
            line += found.oriented_boxes[i].tolist()
        if found.masks is not None and found.masks.crops[i].size:
            crop = found.masks.crops[i]
            line += [*map(float, found.masks.corners[i]), *crop.shape, float(crop.sum())]
        lines.append(line)
    return lines


@pytest.mark.parametrize("kind", MODELS)
def test_results_are_those_of_python(built, unpacked, tmp_path, kind):
    package = package_of(unpacked, MODELS[kind], tmp_path)
    assert_as_in_python(built, package, tmp_path, kind)


@pytest.mark.parametrize("dtype", quantized_ends.DTYPES)
def test_integers_outside_are_real_numbers_as_in_python(built, tmp_path, dtype):
    """Of a TFLite network, channels last, as it was made for its own runtime."""
    file = quantized_ends.write(tmp_path / "network.tflite", dtype)
    path = compile_network(file, tmp_path / "raw.tar", target="llvm", raw_io=True)
    unpack_package(path, tmp_path / "raw")
    for kind, model in quantized_ends.MODELS.items():
        folder = tmp_path / kind
        folder.mkdir()
        package = package_of(tmp_path / "raw", model, folder)
        assert_as_in_python(built, package, folder, kind)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.full((9, 9, 3), 99, np.uint8))
    mask = ("--mask", tmp_path / "mask.png")
    done = run(built / "run_model", "t", package, tmp_path / "image.png", *mask)
    zero = -1 + 128 * (dtype == "uint8")
    assert f"input: image, {dtype}[1, 64, 96, 3] = (q - {zero}) * 0.00787402, " in done.stdout


def assert_as_in_python(built: Path, package: Path, tmp_path: Path, kind: str) -> None:
    found = written(built, package, tmp_path)
    model = load_model(package)
    for name, image in images():
        result = model(image)
        rows = expected_rows(result)
        assert len(found[name]) == len(rows)
        for row, needed in zip(found[name], rows, strict=True):
            # Of a mask the last number, its pixels: edges may fall to either side.
            if kind.startswith("masks"):
                assert row[-1] == pytest.approx(needed[-1], abs=2 + 0.01 * needed[-1])
                row, needed = row[:-1], needed[:-1]
            assert row == pytest.approx(needed, rel=1e-4, abs=2e-3)
        if result.segmentation is not None:
            mask = np.fromfile(tmp_path / f"{name}.mask", np.uint8).reshape(image.shape[:2])
            assert_close(mask, result.segmentation.mask)
        if result.depth is not None:
            depth = np.fromfile(tmp_path / f"{name}.depth", np.float32).reshape(image.shape[:2])
            np.testing.assert_allclose(depth, result.depth.values, atol=0.05)


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("how", PREPARATIONS)
@pytest.mark.parametrize("kind", ["classifier", "yolo"])
def test_images_are_prepared_as_in_python(
    built, unpacked, unpacked_gray, tmp_path, how, kind, gray
):
    preprocessing = PREPARATIONS[how].in_gray() if gray else PREPARATIONS[how]
    frames = kind == "yolo"
    if frames and not (preprocessing.letterbox or preprocessing.stretch):
        preprocessing = replace(preprocessing, crop=1.0, stretch=True)
    model = replace(MODELS["scores" if frames else "classifier"], preprocessing=preprocessing)
    package: Package | Path = package_of(unpacked_gray if gray else unpacked, model, tmp_path)
    written(built, Path(str(package)), tmp_path)
    with read_package(Path(str(package))) as read:
        specs = read.info.inputs
    for name, image in images():
        needed = prepared_image(model, specs, image, remedies=("", ""))["images"]
        found = np.fromfile(tmp_path / f"{name}.input", np.float32).reshape(needed.shape)
        # By one level at the most: OpenCV has other code for other processors.
        level = 1 / min(preprocessing.std)
        assert np.abs(found - needed).max() <= level * (1 + 1e-4)
        close = np.isclose(found, needed, rtol=0, atol=1e-4 * level).mean()
        assert close > (0.9 if how == "cubic" else 0.97)
