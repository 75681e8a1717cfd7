"""Kinds of TFLite files: what Ultralytics' exporters and TensorFlow's metadata say in them."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from support import kind_networks
from support.kind_networks import BOXES, outputs_of, write_tflite
from tvm_vision.frontend.tflite.metadata import read_metadata
from tvm_vision.models import load_model
from tvm_vision.package import read_package
from tvm_vision.runtime.sources import read_image

RNG = np.random.default_rng(5)
WORDS = {"names": {"0": "ball", "1": "robot"}, "imgsz": [32, 32], "stride": 32}
TASKS = ("detect", "segment", "pose", "obb")


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    cv2.imwrite(str(path), RNG.integers(0, 256, (64, 64, 3), np.uint8))
    return path


def as_tflite(outputs):
    """As Ultralytics has the outputs of an ONNX file in a TFLite file: places as parts of the
    image, maps with their channels last, and those first."""
    made = dict(outputs)
    table = made["output0"].copy()
    table[:, :4] /= 32
    if table.shape[1] == 6 + 15:
        points = table[:, 6:].reshape(1, 5, 3, -1)
        points[:, :, :2] /= 32
        table[:, 6:] = points.reshape(1, 15, -1)
    made["output0"] = table
    if "output1" in made:
        prototypes = np.ascontiguousarray(made.pop("output1").transpose(0, 2, 3, 1))
        made = {"output1": prototypes, **made}
    return made


@pytest.mark.parametrize("form", ["json", "python"])
@pytest.mark.parametrize("task", TASKS)
def test_ultralytics_files_find_what_their_onnx_files_do(command, photo, tmp_path, task, form):
    outputs, said = outputs_of(task)
    words = {**WORDS, "task": task, "kpt_shape": [5, 3]}
    numbered = {**words, "names": {0: "ball", 1: "robot"}}
    files = {"metadata.json": json.dumps(words)} if form == "json" else {"meta.txt": str(numbered)}
    models = (
        kind_networks.write(tmp_path / "onnx.onnx", outputs, said),
        write_tflite(tmp_path / "tflite.tflite", as_tflite(outputs), files),
    )
    results, infos = [], []
    for model in models:
        package = tmp_path / f"{model.stem}.tar"
        result = command("compile", model, "-o", package, "--target", "llvm")
        assert result.exit_code == 0, result.output
        assert "kind: yolo, 2 classes" in result.stdout
        detections = load_model(package)(read_image(photo)).detections
        assert detections is not None
        results.append(detections)
        with read_package(package) as opened:
            infos.append(opened.info.model)
    expected, found = results
    assert len(found) == 2 and infos[0].preprocessing == infos[1].preprocessing
    assert found.class_names == expected.class_names
    for part in ("boxes", "scores", "masks", "keypoints", "oriented_boxes"):
        ours, exact = getattr(found, part), getattr(expected, part)
        assert (ours is None) == (exact is None)
        if exact is not None:
            np.testing.assert_allclose(list(ours), list(exact), atol=1e-4)
            assert np.any(list(exact))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("version", ["v5", "v26"])
def test_boxes_that_are_parts_or_pixels(command, photo, tmp_path, version, first):
    """YOLOv5's own exporter, and suppression inside: those of images of channels first give
    pixels."""
    parts = not (version == "v26" and first)
    rows = np.zeros(
        (1, 3 * 21 if version == "v5" else 300, 7 if version == "v5" else 6), np.float32
    )
    rows[0, :2, :4] = BOXES if version == "v5" else [[4, 12, 12, 20], [18, 8, 30, 24]]
    rows[0, :2, 4:6] = [[0.9, 0], [0.8, 1]]
    if version == "v5":
        rows[0, :2, 4:] = [[0.9, 1, 0], [0.8, 0, 1]]
    rows[..., :4] /= 32 if parts else 1
    words = WORDS if version == "v5" else {**WORDS, "task": "detect", "end2end": True}
    model = write_tflite(
        tmp_path / "y.tflite", {"y": rows}, {"metadata.json": json.dumps(words)}, first=first
    )
    result = command("compile", model, "-o", tmp_path / "y.tar", "--target", "llvm")
    assert "kind: yolo, 2 classes" in result.output
    found = load_model(tmp_path / "y.tar")(read_image(photo)).detections
    assert list(found.class_ids) == [0, 1] and found.class_names == ("ball", "robot")
    np.testing.assert_allclose(found.boxes, [[8, 24, 24, 40], [36, 16, 60, 48]], atol=1e-3)


@pytest.mark.parametrize(
    ("image", "pixels", "expected"),
    [
        ({}, ([127.5], [127.5]), (127.5, 127.5)),
        ({}, ([0.0] * 3, [255.0] * 3), (0, 255)),
        # A byte without sign is the pixel, whatever the file says.
        ({"dtype": "uint8", "scale": 1 / 128, "zero_point": 128}, None, (128, 128)),
        ({"dtype": "uint8", "scale": 1 / 255}, ([127.0], [128.0]), (0, 255)),
    ],
)
def test_classes_and_pixels_that_a_file_says(command, photo, tmp_path, image, pixels, expected):
    scores = np.array([[0.1, 0.7, 0.2]], np.float32)
    files = {"labels.txt": "ant\nbee\ncat\n"}
    model = write_tflite(tmp_path / "c.tflite", {"y": scores}, files, image=image, pixels=pixels)
    result = command("compile", model, "-o", tmp_path / "c.tar", "--target", "llvm")
    assert "kind: classifier, 3 classes, images stretched, rgb" in result.output
    shown = command("classify", tmp_path / "c.tar", photo, "--json")
    assert json.loads(shown.stdout)["classes"][0]["label"] == "bee"
    with read_package(tmp_path / "c.tar") as opened:
        made = opened.info.model.preprocessing
    mean, std = expected
    np.testing.assert_allclose(made.mean + made.std, [mean] * 3 + [std] * 3, rtol=1e-6)


PLANE = np.zeros((1, 32, 32, 1), np.float32)
PLANE[:, 10:20, 10:20] = 0.9
QUANTIZED = {
    "yolo": ({"y": as_tflite(outputs_of("detect")[0])["output0"]}, ()),
    "segmenter": ({"mask": PLANE}, ("--kind", "segmenter", "--kind-option", "threshold=0.5")),
    "depth": ({"depth": PLANE}, ()),
    "classifier": ({"y": np.array([[0.1, 0.7, 0.2]], np.float32)}, ()),
}


@pytest.mark.parametrize("kind", QUANTIZED)
def test_integers_outside_are_of_the_same_kind(command, photo, tmp_path, kind):
    """Scores of a pixel that are bytes are no numbers of classes."""
    outputs, options = QUANTIZED[kind]
    files = {"labels.txt": "ant\nbee\ncat\n"} if kind == "classifier" else {}
    model = write_tflite(
        tmp_path / "q.tflite", outputs, files, scale=1 / 255, pixels=([0.0], [255.0])
    )
    found = []
    for name, more in {"real": (), "raw": ("--raw-io",)}.items():
        package = tmp_path / f"{name}.tar"
        result = command("compile", model, "-o", package, "--target", "llvm", *options, *more)
        assert f"kind: {kind}" in result.output
        with read_package(package) as opened:
            model_info = opened.info.model
            assert opened.info.outputs[0].dtype == ("int8" if more else "float32")
        shown = command("classify" if kind == "classifier" else "detect", package, photo, "--json")
        found.append((model_info.detection, model_info.segmentation, json.loads(shown.stdout)))
    for each in found:
        each[2].pop("milliseconds", None)
    assert found[0] == found[1]
    assert kind != "yolo" or found[0][0].relative


def test_a_network_of_no_kind_has_its_pixels(command, photo, tmp_path):
    model = write_tflite(
        tmp_path / "n.tflite", {"y": np.ones((1, 7), np.float32)}, pixels=([0.0], [255.0])
    )
    result = command("compile", model, "-o", tmp_path / "n.tar", "--target", "llvm")
    assert "kind: network, images stretched, rgb" in result.output
    assert command("run", tmp_path / "n.tar", "--image", photo).exit_code == 0


def test_what_is_damaged_says_nothing(tmp_path):
    """Whatever is cut off, or stands in place of the metadata."""
    path = write_tflite(
        tmp_path / "d.tflite", {"y": np.ones((1, 7), np.float32)},
        {"metadata.json": json.dumps(WORDS)}, pixels=([0.0], [255.0]),
    )  # fmt: skip
    whole = path.read_bytes()
    assert read_metadata(path).entries["names"] == "{0: 'ball', 1: 'robot'}"
    assert read_metadata(path).std == (255.0,)
    rng = np.random.default_rng(6)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 20):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(8, len(whole))])
        read_metadata(path)
    for text in ("[1, 2]", "not said", "{" * 10000, "{'a': 1}" * 2):
        model = write_tflite(tmp_path / "t.tflite", {"y": np.ones((1, 7), np.float32)}, {"m": text})
        assert not read_metadata(model).entries
