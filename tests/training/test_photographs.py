"""Photographs: the labels by hand, the pixels they stand for, the scores, and the demo's network on
those that are here."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))

import photo_scores  # noqa: E402
import photographs  # noqa: E402
import thresholds  # noqa: E402
from photographs import BOXES, FIELD, LINE, UNKNOWN  # noqa: E402

from tvm_vision.errors import InputError  # noqa: E402
from tvm_vision.evaluate.detection import Found, Truth  # noqa: E402
from tvm_vision.exporters.yoeo.export import METADATA_KEY  # noqa: E402

HERE = ROOT / "build" / "photographs"
DEMO = ROOT / "tvm_vision" / "demo" / "yoeo_demo.onnx"
LABELS = photographs.read_labels()


@pytest.mark.parametrize("key", LABELS, ids=[label["name"] for label in LABELS.values()])
def test_labels_are_of_what_is_in_the_image(key: str) -> None:
    label = LABELS[key]
    assert len(key) == 64 and set(key) <= set("0123456789abcdef")
    wide, high = label["size"]
    for name, *_ in label["boxes"]:
        assert name in BOXES
    for x1, y1, x2, y2 in [box[1:] for box in label["boxes"]] + label["doubtful"]:
        assert 0 <= x1 < x2 <= wide and 0 <= y1 < y2 <= high
    polygons = [p for name in ("field", "line_polygons", "unknown") for p in label.get(name, ())]
    for points in [*polygons, *label.get("lines", ())]:
        places = np.array(points)[:, :2]
        assert (places >= 0).all() and (places <= [wide, high]).all() and len(places) >= 2
    (source,) = {"repository", "package", "debian"} & set(label)
    assert label["commit" if source == "repository" else "version"]
    assert label["file"] and label["licence"] and (source == "package") == ("module" in label)
    if "pixels" in label:
        assert "field" not in label and len(label["pixels"]["sha256"]) == 64
        assert label["pixels"]["file"] != label["file"] and label["pixels"]["commit"]
    if "field" in label:
        mask = photographs.mask_of(label)
        assert mask is not None and mask.shape == (high, wide)
        counts = [np.mean(mask == value) for value in (LINE, FIELD, UNKNOWN)]
        assert 0.004 < counts[0] < 0.1 and counts[1] > 0.25 and counts[2] < 0.42


def test_every_photograph_has_a_name_of_its_own() -> None:
    """They lie in one folder."""
    assert len({label["name"] for label in LABELS.values()}) == len(LABELS)


def test_pixels_of_a_label_are_those_of_its_shapes() -> None:
    label = {
        "size": [200, 160], "boxes": [["ball", 10, 140, 20, 150]], "doubtful": [],
        "field": [[[0, 40], [200, 40], [200, 160], [0, 160]]],
        "lines": [[[0, 60, 4], [200, 60, 4]]],
        "line_polygons": [[[150, 80], [160, 80], [160, 90], [150, 90]]],
        "rings": [[[100, 110, 60, 30, 10], [100, 110, 54, 26, 10]]],
        "unknown": [[[0, 0], [50, 0], [50, 50], [0, 50]]],
    }  # fmt: skip
    mask = photographs.mask_of(label)
    assert mask is not None
    assert (mask[:50, :50] == UNKNOWN).all() and (mask[140:150, 10:20] == UNKNOWN).all()
    assert (mask[:39, 51:] == 0).all() and (mask[70, 100:] == FIELD).any()
    assert 4 <= (mask[50:70, 100] == LINE).sum() <= 5
    assert (mask[81:90, 151:160] == LINE).all()
    ring = (mask[72:, :] == LINE).sum() - (mask[72:, 148:163] == LINE)[:22].sum()
    assert ring == pytest.approx(np.pi * (60 * 30 - 54 * 26), rel=0.2)
    assert mask[110, 100] == FIELD
    assert photographs.mask_of({"size": [4, 4], "boxes": [], "doubtful": []}) is None


def test_photographs_are_found_by_what_is_in_them(tmp_path, monkeypatch) -> None:
    """Whatever their names are; others are left alone, and labels without a file left out."""
    image = np.full((20, 30, 3), 7, np.uint8)
    cv2.imwrite(str(tmp_path / "other_name.png"), image)
    cv2.imwrite(str(tmp_path / "not_labelled.png"), image + 1)
    key = hashlib.sha256((tmp_path / "other_name.png").read_bytes()).hexdigest()
    blank = {"name": "a.png", "size": [30, 20], "boxes": [["robot", 1, 2, 3, 4]], "doubtful": []}
    blank["debian"] = "photographs"
    monkeypatch.setattr(photographs, "read_labels", lambda: {"0" * 64: blank, key: blank})
    (found,) = photographs.photographs([tmp_path])
    assert found.path == tmp_path / "other_name.png" and (found.image() == 7).all()
    assert found.truth.class_ids.tolist() == [2] and found.mask is None
    assert found.source == "photographs" and found.of_a_game


def test_pixels_may_be_an_image_beside_the_photograph(tmp_path, monkeypatch) -> None:
    """By its colours; others, as of robots and what is uncertain, do not count. Without it there
    are no pixels, and one that cannot be read is one line."""
    cv2.imwrite(str(tmp_path / "photo.png"), np.full((2, 3, 3), 7, np.uint8))
    colours = [*photographs.COLOURS, (0, 0, 0), (0x0A, 0xC1, 0xC7), (0xF5, 0x29, 0x06)]
    classes = np.array(colours, np.uint8).reshape(2, 3, 3)[..., ::-1]
    cv2.imwrite(str(tmp_path / "classes.png"), classes)
    keys = {
        name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("photo.png", "classes.png")
    }
    label = {"name": "photo.png", "size": [3, 2], "boxes": [], "doubtful": [], "debian": "p"}
    label["pixels"] = {"sha256": keys["classes.png"], "file": "classes.png"}
    monkeypatch.setattr(photographs, "read_labels", lambda: {keys["photo.png"]: label})
    (found,) = photographs.photographs([tmp_path])
    expected = [*photographs.COLOURS.values(), UNKNOWN, UNKNOWN, UNKNOWN]
    assert found.mask is not None and found.mask.reshape(-1).tolist() == expected
    (tmp_path / "classes.png").rename(tmp_path.parent / "elsewhere.png")
    assert photographs.photographs([tmp_path])[0].mask is None
    (tmp_path.parent / "broken.png").write_bytes(b"no image")
    with pytest.raises(InputError, match="an image of classes that OpenCV reads is needed, found"):
        photographs.mask_in(tmp_path.parent / "broken.png")


def seen(boxes, values, truth, mask=None, shape=(480, 640)) -> photo_scores.Seen:
    found = Found(np.array(boxes, float).reshape(-1, 4), np.array(values), np.full(len(boxes), 1))
    photo = photographs.Photograph("", Path(), truth, mask)
    return photo_scores.Seen(photo, found, np.zeros(shape, np.uint8))


def test_feet_count_within_their_reach() -> None:
    """Of a frame 640 wide 25 pixels; the height of the post does not matter, a second foot there is
    false, and one in a doubtful region does not count."""
    truth = Truth(
        np.array([[100.0, 0, 110, 200]]), np.array([1]), np.array([[300.0, 300, 400, 400]])
    )
    boxes = [[100, 150, 120, 215], [100, 0, 110, 200], [320, 200, 330, 380], [100, 0, 110, 230]]
    one = seen(boxes, [0.9, 0.8, 0.7, 0.6], truth)
    hits, scores, positives = photo_scores.judged_feet([one])
    assert hits.tolist() == [True, False, False] and scores.tolist() == [0.9, 0.8, 0.6]
    assert positives == 1
    hits, _, _ = photo_scores.judged_feet([seen(boxes[3:], [0.9], truth)])
    assert hits.tolist() == [False]
    hits, _, _ = photo_scores.judged_feet([seen(boxes[3:], [0.9], truth, shape=(960, 1280))])
    assert hits.tolist() == [True]


def test_false_boxes_count_above_their_confidence_on_other_photographs() -> None:
    """But not in a doubtful region; a photograph with an object or a field is none of those."""
    nothing = Truth(np.zeros((0, 4)), np.zeros(0, int), np.array([[100.0, 100, 200, 200]]))
    robot = Truth(np.array([[0.0, 0, 9, 9]]), np.array([2]), np.zeros((0, 4)))
    game = seen([], [], nothing, np.zeros((480, 640), np.uint8))
    table = seen([[0, 0, 9, 9]], [0.9], robot)
    boxes = [[0, 0, 9, 9], [20, 0, 29, 9], [110, 110, 150, 150]]
    other = seen(boxes, [0.6, 0.4, 0.8], nothing)
    least = {"ball": 0.1, "goalpost": 0.5, "robot": 0.1}
    report = photo_scores.scores([game, table, other], least)
    assert report["photographs"] == 2 and report["photographs of other things"] == 1
    assert report["with labelled pixels"] == 1 and report["classes"]["robot"]["objects"] == 1
    assert report["false there"] == {"ball": 0, "goalpost": 1, "robot": 0}


def test_thresholds_are_kept_in_the_file(tmp_path) -> None:
    """Beside what else the file says, and again; a file of another network is refused."""
    import onnx

    model = onnx.load(DEMO)
    before = {entry.key: entry.value for entry in model.metadata_props}
    path = tmp_path / "model.onnx"
    path.write_bytes(DEMO.read_bytes())
    for values in ({"ball": 0.25}, {"ball": 0.5, "robot": 0.3}):
        thresholds.write_thresholds(path, values)
        assert thresholds.read_thresholds(path) == values
    after = onnx.load(path)
    assert after.graph == model.graph
    assert {entry.key for entry in after.metadata_props} == set(before)
    for entry in after.metadata_props:
        if entry.key == METADATA_KEY:
            entry.key = "something else"
    onnx.save(after, path)
    assert thresholds.read_thresholds(path) == {}
    with pytest.raises(InputError, match="the metadata 'tvm_vision.yoeo' is needed, found none"):
        thresholds.write_thresholds(path, {"ball": 0.5})


# Of a source, or of all: AP50 of ball, goalpost and robot, recall of each, AP50 of feet, and IoU of
# field and lines. The nine are of the kind that the scenes are made after; the issue of a better
# network aims at these values. The others are what was measured, less what another library moves.
LEAST: dict[str, tuple[list[float], list[float], float, float, float]] = {
    "bit-bots/YOEO": ([0.94, 0.9, 0.7], [0.9, 0.9, 0.9], 0.9, 0.95, 0.6),
    "HULKs": ([0.9, 0.87, 0.92], [0.9, 0.8, 0.85], 0.86, 0.96, 0.68),
    "": ([0.86, 0.79, 0.83], [0.8, 0.75, 0.73], 0.8, 0.945, 0.69),
}
# The same of the large network, which was trained on later recipes than the light one.
OF_LARGE = {
    "bit-bots/YOEO": ([0.98, 0.98, 0.98], [0.95, 0.95, 0.95], 0.95, 0.97, 0.66),
    "HULKs": ([0.9, 0.89, 0.94], [0.9, 0.83, 0.88], 0.9, 0.965, 0.71),
    "": ([0.88, 0.81, 0.87], [0.84, 0.75, 0.79], 0.84, 0.96, 0.73),
}


@pytest.mark.parametrize("name", ["yoeo_demo", "yoeo_demo_light"])
@pytest.mark.parametrize("source", LEAST, ids=["nine", "small-robots", "all"])
def test_the_demo_networks_on_photographs_that_are_here(source: str, name: str) -> None:
    """They lie in build/photographs, where training/fetch_photographs.py brought them."""
    pytest.importorskip("onnxruntime")
    games = [
        label for label in LABELS.values() if label["boxes"] or {"field", "pixels"} & set(label)
    ]
    wanted = {label["name"] for label in games if source in photographs.source_of(label)}
    photos = [photo for photo in photographs.photographs([HERE]) if source in photo.source]
    away = wanted - {photo.name for photo in photos}
    if away:
        pytest.skip(f"{len(away)} photographs are not here: see training/fetch_photographs.py")
    model = DEMO.with_stem(name)
    confidences = {**dict.fromkeys(BOXES, thresholds.USUAL), **thresholds.read_thresholds(model)}
    report = photo_scores.scores(photo_scores.look(model, photos), confidences)
    least_of = OF_LARGE if name == "yoeo_demo" else LEAST
    ap50, recall, feet, field, lines = least_of[source]
    for name, least, found in zip(BOXES, ap50, recall, strict=True):
        assert report["classes"][name]["ap50"] >= least, name
        assert report["classes"][name]["recall"] >= found, name
    assert report["post feet"]["ap50"] >= feet
    assert report["iou"]["field"] >= field and report["iou"]["lines"] >= lines
    assert report["false there"]["ball"] <= 2 and report["false there"]["robot"] <= 2
