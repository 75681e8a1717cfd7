"""Networks of one channel, as OCR's and a microcontroller's are, from the file to what they say."""

from __future__ import annotations

import json

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from support import kind_networks, onnx_models
from support.tflite_models import Graph
from tvm_vision.package import read_package
from tvm_vision.runtime.sources import read_image

LABELS = ("dark", "red", "green")


def write_brightness(path, shape):
    """Logits by the mean of an image of one channel, in 0..1, least at 0, 0.3 and 0.59: the
    likeliest class is dark, red or green, as luma has these."""
    flat = [1, int(np.prod(shape[1:]))]
    weights = np.full((flat[1], 3), 1 / flat[1], np.float32)
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["row"]),
        helper.make_node("MatMul", ["row", "weights"], ["mean"]),
        helper.make_node("Sub", ["mean", "places"], ["off"]),
        helper.make_node("Mul", ["off", "off"], ["square"]),
        helper.make_node("Mul", ["square", "scale"], ["y"]),
    ]
    constants = {
        "flat": np.array(flat), "weights": weights, "scale": np.float32(-100),
        "places": np.array([[0, 0.299, 0.587]], np.float32),
    }  # fmt: skip
    model = onnx_models.make_model(nodes, [("x", shape)], [("y", (1, 3))])
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()
    )
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with an image of one colour for each label, named as it is, and one that is grey."""
    folder = tmp_path_factory.mktemp("photos")
    for name, color in (("dark", (9, 0, 0)), ("red", (0, 0, 255)), ("green", (0, 255, 0))):
        (folder / name).mkdir()
        cv2.imwrite(str(folder / name / "one.png"), np.full((40, 30, 3), color, np.uint8))
    (folder / "red" / "gray.png").write_bytes(
        cv2.imencode(".png", np.full((9, 9), 76, np.uint8))[1].tobytes()
    )
    return folder


@pytest.mark.parametrize(
    "shape", [(1, 1, 12, 8), (1, 12, 8, 1), (1, 12, 8)], ids=["NCHW", "NHWC", "NHW"]
)
def test_a_classifier_of_gray_images(command, photos, tmp_path, shape):
    model = write_brightness(tmp_path / "net.onnx", shape)
    package, labels = tmp_path / "net.tar", tmp_path / "labels.txt"
    labels.write_text("\n".join(LABELS))
    how = ("--kind", "classifier", "--preprocess", "unit", "--labels", labels)
    result = command("compile", model, "-o", package, "--target", "llvm", *how)
    assert result.exit_code == 0, result.output
    assert "kind: classifier, 3 classes, images cropped, gray" in result.stdout
    shown = command("inspect", package).stdout
    assert "image        12x8 gray, crop 1, area\n  mean, std  0; 255\n" in shown
    result = command("classify", package, photos / "red", photos / "green" / "one.png", "--json")
    assert result.exit_code == 0, result.output
    found = [json.loads(line)["classes"][0]["label"] for line in result.stdout.splitlines()]
    assert found == ["red", "red", "green"]
    result = command("evaluate", model, photos, "--like", package, "--target", "llvm", "--json",
                     "-o", tmp_path / "kept")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [row["scores"]["top1"] for row in json.loads(result.stdout)] == [1.0, 1.0]
    result = command("check", package, model, "--image", photos / "red" / "one.png")
    assert result.exit_code == 0 and "WRONG" not in result.stdout, result.output
    result = command("quantize", model, "-o", tmp_path / "i8.onnx", "--sample-images",
                     photos / "red", "--preprocess", "unit")  # fmt: skip
    assert "is needed for an image" not in result.output


@pytest.mark.parametrize("kind", ["detect", "segmenter"])
def test_other_kinds_of_gray_images(command, tmp_path, kind):
    outputs, metadata = kind_networks.outputs_of(kind)
    model = kind_networks.write(tmp_path / "net.onnx", outputs, metadata, channels=1)
    package, photo = tmp_path / "net.tar", tmp_path / "photo.png"
    cv2.imwrite(str(photo), np.full((64, 64, 3), 90, np.uint8))
    of_kind = ("--kind", "segmenter") if kind == "segmenter" else ()
    result = command("compile", model, "-o", package, "--target", "llvm", *of_kind)
    assert result.exit_code == 0 and ", gray" in result.stdout, result.output
    with read_package(package) as read:
        made = read.info.model.preprocessing
    assert made is not None and (made.color_order, len(made.mean), len(made.std)) == ("gray", 1, 1)
    result = command("detect", package, photo, "--save", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert read_image(tmp_path / "out" / "photo.png").shape == (64, 64, 3)


def test_a_preparation_in_gray_says_one_number(command, refuses, tmp_path):
    model = write_brightness(tmp_path / "net.onnx", (1, 1, 12, 8))
    how = tmp_path / "how.json"
    arguments = ("compile", model, "-o", tmp_path / "net.tar", "--target", "llvm", "--preprocess")
    how.write_text(json.dumps({"color_order": "gray", "mean": [10], "std": [2]}))
    result = command(*arguments, how)
    assert result.exit_code == 0, result.output
    with read_package(tmp_path / "net.tar") as read:
        made = read.info.model.preprocessing
    assert made is not None and (made.mean, made.std) == ((10.0,), (2.0,))
    how.write_text(json.dumps({"color_order": "gray", "mean": [1, 2, 3]}))
    assert "preprocessing.mean must be a list of 1, found" in refuses(*arguments, how)
    color = kind_networks.write(tmp_path / "color.onnx", {"y": np.zeros((1, 3), np.float32)})
    how.write_text(json.dumps({"color_order": "gray"}))
    line = refuses("compile", color, *arguments[2:], how)
    assert "gray is for an input of one channel, found [1, 3, 32, 32]: say rgb or bgr" in line


def test_pixels_of_a_gray_tflite_file(command, tmp_path):
    """Bytes without sign are the pixels themselves."""
    graph = Graph()
    image = graph.tensor((1, 8, 6, 1), "uint8", name="image", scale=1 / 255, zero_point=0)
    real, mean = graph.tensor((1, 8, 6, 1)), graph.tensor((1, 1))
    axes = graph.tensor(data=np.array([1, 2], np.int32))
    graph.operator("DEQUANTIZE", [image], [real])
    graph.operator("MEAN", [real, axes], [mean])
    graph.write(tmp_path / "net.tflite", [image], [mean])
    result = command("compile", tmp_path / "net.tflite", "-o", tmp_path / "net.tar", "--target",
                     "llvm")  # fmt: skip
    assert result.exit_code == 0 and "images stretched, gray" in result.stdout, result.output
