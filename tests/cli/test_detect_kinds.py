"""``compile``, ``detect`` and ``bag`` on a network of each kind whose outputs are known."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from support import kind_networks
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx import quantize
from tvm_vision.models import load_model
from tvm_vision.models.converters import run_lengths
from tvm_vision.models.image_inputs import image_inputs
from tvm_vision.package import read_package
from tvm_vision.runtime.sources import read_image

KINDS = ("detect", "segment", "pose", "obb", "detr", "ssd", "segmenter", "depth")
FRAME = (64, 64)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A package of each, made when it is first asked for, with the line that tells its kind."""
    from click.testing import CliRunner

    from tvm_vision.tools.cli import main

    folder, made = tmp_path_factory.mktemp("kinds"), {}

    def package(kind):
        if kind not in made:
            outputs, metadata = kind_networks.outputs_of(kind)
            path = kind_networks.write(folder / f"{kind}.onnx", outputs, metadata)
            arguments = ["compile", path, "-o", folder / f"{kind}.tar", "--target", "llvm"]
            if kind in ("detr", "ssd"):
                arguments += ["--labels", folder / "labels.txt"]
                (folder / "labels.txt").write_text("ball\nrobot\n")
            result = CliRunner().invoke(main, [str(argument) for argument in arguments])
            assert result.exit_code == 0, result.output
            made[kind] = (folder / f"{kind}.tar", result.stdout.splitlines()[1])
        return made[kind]

    return package


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    cv2.imwrite(str(path), np.full((*FRAME, 3), 90, np.uint8))
    return path


def detected(command, packages, photo, kind, *more):
    result = command("detect", packages(kind)[0], photo, "--json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_found_and_drawn(command, packages, photo, tmp_path, kind):
    package, line = packages(kind)
    expected = "yolo" if kind in ("detect", "segment", "pose", "obb") else kind
    assert line.startswith(f"kind: {expected}, ")
    result = command("detect", package, photo, "--save", tmp_path / "out")
    assert result.exit_code == 0, result.output
    drawn = read_image(tmp_path / "out" / "photo.png")
    assert drawn.shape == (*FRAME, 3) and not np.array_equal(drawn, read_image(photo))
    with_all = command("inspect", package).stdout
    assert f"({expected}" in with_all
    part = {"segmenter": "segmentation", "depth": "depth"}.get(kind, "detection")
    assert f"\n{part} " in with_all


@pytest.mark.parametrize("kind", ["detect", "segment", "pose", "detr", "ssd"])
def test_boxes_of_each_kind(command, packages, photo, kind):
    """Boxes of the input, 32 x 32, are twice as large in the frame."""
    found = detected(command, packages, photo, kind)["detections"]
    assert [(item["name"], item["box"]) for item in found] == [
        ("ball", [8.0, 24.0, 24.0, 40.0]),
        ("robot", [36.0, 16.0, 60.0, 48.0]),
    ]
    assert [item["score"] for item in found] == pytest.approx([0.9, 0.8], abs=0.2)


def test_what_belongs_to_boxes(command, packages, photo):
    masks = detected(command, packages, photo, "segment")["detections"]
    # Prototypes are above 0 in the left half: all of the ball, nothing of the robot.
    ball = np.zeros(FRAME, np.bool_)
    ball[24:40, 8:24] = True
    assert masks[0]["mask"] == run_lengths(ball)
    assert masks[1]["mask"] == run_lengths(np.zeros(FRAME, np.bool_))
    points = detected(command, packages, photo, "pose")["detections"]
    assert points[0]["keypoints"] == [[16.0, 32.0, pytest.approx(0.9)]] * 5
    corners = np.array(detected(command, packages, photo, "obb")["detections"][0]["corners"])
    assert corners.mean(axis=0) == pytest.approx([16, 32], abs=0.1)
    assert np.linalg.norm(corners[0] - corners[1]) == pytest.approx(16, abs=0.2)


def test_thresholds_of_options(command, packages, photo):
    found = detected(command, packages, photo, "detect", "--confidence", 0.85)["detections"]
    assert [item["name"] for item in found] == ["ball"]
    found = detected(command, packages, photo, "ssd", "--max-detections", 1)["detections"]
    assert len(found) == 1


def test_pixels_of_each_kind(command, packages, photo):
    assert detected(command, packages, photo, "segmenter")["segmentation"] == {
        "class1": pytest.approx(0.5, abs=0.02)
    }
    depth = detected(command, packages, photo, "depth")["depth"]
    assert depth == {"least": 1.0, "most": 5.0, "unit": ""}


def test_thresholds_say_nothing_to_networks_without_boxes(packages):
    model = load_model(packages("depth")[0], confidence=0.5, top=3)
    assert model.kind == "depth" and not hasattr(model, "confidence")


def test_a_kind_that_is_not_clear_is_said_with_the_remedy(command, refuses, tmp_path, photo):
    plane = np.zeros((1, 1, 32, 32), np.float32)
    model = kind_networks.write(tmp_path / "plane.onnx", {"y": plane})
    package = tmp_path / "plane.tar"
    result = command("compile", model, "-o", package, "--target", "llvm")
    assert "kind: network (it may be a segmenter or depth: --kind says which)" in result.stdout
    message = refuses("detect", package, photo)
    assert "'plane' is of kind network: compile it with --kind segmenter or depth" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "detr"], "a network of kind detr has two outputs, logits"),
        (["--kind", "depth"], "choose another --kind, or network"),
        (
            ["--labels", "labels.txt"],
            "2 labels are needed, one for each class of 'output0', found 4",
        ),
        (["--kind-option", "confidence=7"], "must be from 0 to 1, found 7.0"),
        (["--kind-option", "nothing=7"], "--kind-option nothing: one of boxes"),
    ],
)
def test_what_does_not_fit_is_one_line(refuses, tmp_path, monkeypatch, arguments, message):
    import re

    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\n")
    outputs, metadata = kind_networks.outputs_of("detect")
    model = kind_networks.write(tmp_path / "network.onnx", outputs, metadata)
    line = refuses("compile", model, "-o", "x.tar", "--target", "llvm", *arguments)
    assert re.search(message, line), line
    assert not (tmp_path / "x.tar").exists()


def test_files_with_open_sides_say_their_size(command, tmp_path):
    outputs, metadata = kind_networks.outputs_of("detect")
    model = kind_networks.write(tmp_path / "open.onnx", outputs, metadata, open_sides=True)
    result = command("compile", model, "-o", tmp_path / "open.tar", "--target", "llvm")
    assert result.exit_code == 0 and "kind: yolo" in result.stdout


@pytest.mark.parametrize("kind", ["detect", "pose", "obb", "detr", "ssd", "segmenter"])
def test_check_compares_what_is_seen(command, packages, photo, kind):
    package, _ = packages(kind)
    model = package.with_suffix(".onnx")
    result = command("check", package, model, "--image", photo)
    assert result.exit_code == 0, result.output
    seen = "mask 100.00 % the same" if kind == "segmenter" else "2 candidate boxes"
    assert f"photo.png: {seen}" in result.stdout
    assert ("boxes" in result.stdout, "mask" in result.stdout) == (
        kind != "segmenter", kind == "segmenter",
    )  # fmt: skip


def test_check_sees_other_boxes(refuses, packages, photo, tmp_path):
    """Numbers within a tolerance, and boxes that are not."""
    outputs, metadata = kind_networks.outputs_of("detect")
    outputs["output0"][0, 0, :2] += 1.5
    other = kind_networks.write(tmp_path / "other.onnx", outputs, metadata)
    message = refuses("check", packages("detect")[0], other, "--image", photo, "--tolerance", "0.1")
    assert "boxes and mask must be the same as onnxruntime's, and are not on photo.png" in message


@pytest.mark.parametrize("kind", KINDS)
def test_quantize_sees_what_the_package_will_see(command, packages, photo, kind, monkeypatch):
    """Ranges of images that are prepared otherwise are of no use."""
    package, _ = packages(kind)
    seen = []

    def stopped(plain, samples, **_):
        seen.extend(samples)
        raise UnsupportedModelError("enough was seen")

    monkeypatch.setattr(quantize, "quantized", stopped)
    model = package.with_suffix(".onnx")
    result = command("quantize", model, "-o", "int8.onnx", "--sample-images", photo)
    assert result.stderr == "Error: enough was seen\n"
    with read_package(package) as opened:
        (expected,) = image_inputs(opened.info.to_json(), read_image(photo)).values()
    ((found,),) = (sample.values() for sample in seen)
    np.testing.assert_array_equal(found, expected)
