"""``tvm-vision detect`` and ``check`` on packages of YOEO networks."""

import json
from collections import Counter
from typing import Any, cast

import cv2
import numpy as np
import pytest

from support import yoeo_networks
from tvm_vision.api import compile as compile_network
from tvm_vision.errors import InputError
from tvm_vision.exporters.yoeo.describe import yoeo_model_info
from tvm_vision.runtime.sources import frames, read_image


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("detect")


@pytest.fixture(scope="module")
def network(folder):
    path = yoeo_networks.write_tiny(folder / "yoeo.onnx")
    info = yoeo_model_info(path)
    return compile_network(path, folder / "yoeo.tar", target="llvm", model_info=info)


@pytest.fixture(scope="module")
def photo(folder):
    path = folder / "photo.png"
    cv2.imwrite(str(path), yoeo_networks.random_image())
    return path


@pytest.fixture(scope="module")
def video(folder):
    path = folder / "game.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 12, (160, 120))
    for seed in range(4):
        writer.write(yoeo_networks.random_image(seed=seed))
    writer.release()
    return path


def test_a_line_for_each_frame(command, network, photo, video):
    result = command("detect", network, photo, video, "--confidence", 0.45, "--limit", 3)
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["photo.png", "game.avi#0", "game.avi#1"]
    assert " ms  " in lines[0] and "lines " in lines[0] and "%" in lines[0]
    assert "background" not in result.stdout
    assert "device: cpu(0)" in result.stderr


def test_json_says_the_same_as_the_detector(command, network, photo):
    from tvm_vision.models.yoeo import YoeoDetector

    result = command("detect", network, photo, "--confidence", 0.4, "--iou", 0.3, "--json")
    (record,) = map(json.loads, result.stdout.splitlines())
    expected = YoeoDetector.load(network, confidence=0.4, iou=0.3)(read_image(photo))
    assert record["name"] == "photo.png"
    assert [item["name"] for item in record["detections"]] == [n for n, *_ in expected.detections]
    boxes = np.array([item["box"] for item in record["detections"]])
    assert boxes == pytest.approx(expected.detections.boxes, abs=0.06)
    parts = {name: expected.segmentation.share(name) for name in ("lines", "field")}
    assert record["segmentation"] == pytest.approx(parts, abs=1e-4)
    assert set(record["milliseconds"]) == {"preprocess", "inference", "postprocess"}


def test_annotated_files(command, network, photo, video, tmp_path):
    result = command("detect", network, photo, video, "--save", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "wrote" in result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["game.mp4", "photo.png"]
    annotated = read_image(tmp_path / "out" / "photo.png")
    assert annotated.shape == (120, 160, 3)
    assert not np.array_equal(annotated, read_image(photo))
    assert len(list(frames([tmp_path / "out" / "game.mp4"]))) == 4


def test_nothing_found(command, network, photo):
    result = command("detect", network, photo, "--confidence", 1)
    assert "ms  nothing; " in result.stdout


def test_what_cannot_be_read(refuses, network, photo, folder, tmp_path, tiny_package):
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:60])
    assert "is not an image that OpenCV can read" in refuses("detect", network, broken)
    assert "an image, folder, video, pattern" in refuses("detect", network, tmp_path / "none")
    assert "cannot be opened" in refuses("detect", tmp_path / "none.tar", photo)
    assert "'tiny' is none: compile it with --kind classifier" in refuses(
        "detect", tiny_package, photo
    )


def test_a_folder_with_half_an_image_is_done_but_for_that(command, network, photo, tmp_path):
    folder, saved = tmp_path / "photos", tmp_path / "new" / "deep" / "found.json"
    folder.mkdir()
    (folder / "a.png").write_bytes(photo.read_bytes()[:60])
    (folder / "b.png").write_bytes(photo.read_bytes())
    result = command("detect", network, folder, "--save-json", saved, "-q")
    assert result.exit_code == 1
    assert result.stdout.startswith("b.png  ") and saved.exists()
    first, last = result.stderr.splitlines()
    assert first.startswith("passed over: ") and "a.png" in first
    assert last == "Error: a file could not be read; all others are done"


def test_a_folder_is_no_file_for_all_results(command, network, photo, tmp_path):
    folder = tmp_path / "all.json"
    folder.mkdir()
    for path in (tmp_path, folder):
        result = command("detect", network, photo, "--save-json", path)
        assert result.exit_code != 0 and "a file" in result.stderr and "name" in result.stderr


def test_a_window_is_refused_without_a_screen(refuses, network, photo, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "needs a screen" in refuses("detect", network, photo, "--show")


def test_check_compares_boxes_and_masks(command, network, photo):
    result = command("check", network, network.with_suffix(".onnx"), "--image", photo)
    assert result.exit_code == 0, result.output
    line = result.stdout.splitlines()[-1]
    assert line.startswith("photo.png: ") and "all the same within 1.67 px (by 0" in line
    assert "mask 100.00 % the same" in line
    result = command("check", network, network.with_suffix(".onnx"), "--image", photo, "--json")
    document = json.loads(result.stdout)
    assert document["images"][0]["missing"] == 0 and document["images"][0]["boxes"] > 3
    assert {entry["name"] for entry in document["outputs"]} == {"Detections", "Segmentations"}


def test_check_sees_another_network(refuses, network, photo, tmp_path):
    other = yoeo_networks.write_tiny(tmp_path / "other.onnx", seed=9)
    message = refuses("check", network, other, "--image", photo)
    assert "boxes and mask must be the same as onnxruntime's, and are not on photo.png" in message


def test_inspect_says_what_is_found(command, network):
    text = command("inspect", network).stdout
    assert "boxes        ball, goalpost, robot (decoded)" in text
    assert "  group      thing: goalpost, robot" in text
    assert "mask         background, lines, field" in text


def test_files_of_results(command, network, photo, video, tmp_path):
    """By --source, and a pattern among them."""
    result = command(
        "detect", network, photo, "--source", f"{video.parent}/*.avi", "--limit", 2,
        "--save-json", tmp_path / "found.json", "--save-txt", tmp_path / "labels", "--save-conf",
        "--save-crop", tmp_path / "crops", "--save-masks", tmp_path / "masks",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["photo.png", "game.avi#0"]
    entries = json.loads((tmp_path / "found.json").read_text())
    labels = (tmp_path / "labels" / "photo.txt").read_text().splitlines()
    boxes = [e for e in entries if e["image_id"] == "photo.png" and "bbox" in e]
    assert len(labels) == len(boxes) > 3 and len(labels[0].split()) == 6
    assert sorted(path.name for path in (tmp_path / "masks").iterdir()) == [
        "game_0.png",
        "photo.png",
    ]
    assert len(list((tmp_path / "crops").rglob("photo-*.png"))) == len(boxes)
    assert f"wrote {tmp_path / 'found.json'}" in result.stderr
    assert "wrote 2 files, the last one" in result.stderr


def test_nothing_is_said_of_files_where_there_are_no_sources(command, network, tmp_path):
    exports = ("--save-json", tmp_path / "found.json", "--save-txt", tmp_path / "labels")
    result = command("detect", network, "--source", tmp_path / "*.none", *exports)
    assert result.exit_code == 1 and "no file fits" in result.stderr
    assert "wrote" not in result.stderr and not (tmp_path / "found.json").exists()


def test_a_source_is_needed(network):
    from click.testing import CliRunner

    from tvm_vision.tools.cli import main

    for name in ("detect", "classify"):
        result = CliRunner().invoke(main, [name, str(network)])
        assert result.exit_code == 2 and "a source is needed: an image, folder" in result.output
    result = CliRunner().invoke(main, ["detect", str(network), "x.png", "--save-conf"])
    assert result.exit_code == 2 and "--save-conf adds scores to --save-txt" in result.output


def test_quiet_and_verbose(command, network, photo):
    usual = command("detect", network, photo)
    quiet, verbose = (command("detect", word, network, photo) for word in ("-q", "--verbose"))
    assert "device: " in usual.stderr and quiet.stderr == ""
    assert len(quiet.stdout.splitlines()) == 1
    assert verbose.stderr.startswith(f"loading {network.name}\ndevice: ")


def test_frames_in_python(network, photo, video):
    from tvm_vision.models import load_model

    model = load_model(network, confidence=0.4)
    seen = list(model.stream(photo, str(video)))
    assert [frame.name for frame, _ in seen] == ["photo.png", *(f"game.avi#{i}" for i in range(4))]
    frame, result = seen[0]
    assert list(result) == list(model(frame.image))
    assert [frame.name for frame, _ in model.stream([photo, str(photo)])] == ["photo.png"] * 2
    with pytest.raises(InputError, match=r"found ndarray: an image that is read .* network\(im"):
        next(model.stream(cast(Any, frame.image)))
    with pytest.raises(InputError, match="found the name 'photo.png': read it with OpenCV, or"):
        model(cast(Any, "photo.png"))


def test_options_of_classes_count(command, network, photo):
    def counts(*options):
        how = ("--confidence", 0.4, "--max-detections", 10_000, "--json", *options)
        result = command("detect", network, photo, *how)
        return Counter(item["name"] for item in json.loads(result.stdout)["detections"])

    every = counts()
    ((name, most),) = every.most_common(1)
    assert most > 1
    assert counts("--class-option", f"{name}.max_count=1") == {**every, name: 1}
    # Others that it suppressed, of its group, come forth.
    rest = counts("--class-option", f"{name}.enabled=false")
    assert name not in rest and all(rest[other] >= every[other] for other in every if other != name)


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        ("robot.max_count=x", 2, "robot.max_count must be a whole number from 0 to 10000"),
        ("rabot.max_count=1", 1, "found 'rabot': did you mean 'robot'?"),
    ],
)
def test_other_options_of_classes_are_refused(command, network, photo, option, code, words):
    result = command("detect", network, photo, "--class-option", option)
    assert result.exit_code == code
    assert words in " ".join(result.stderr.split())


def test_objects_of_a_video_have_ids(command, network, video):
    result = command("detect", network, video, "--confidence", 0.3, "--track", "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    numbers = [[item["id"] for item in record["detections"]] for record in records]
    assert all(len(set(found)) == len(found) > 0 and min(found) >= 1 for found in numbers)
