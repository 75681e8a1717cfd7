"""Labelled sets of images: folders, CSV, COCO and YOLO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.evaluate.datasets import (
    BOXES,
    CLASSES,
    MASKS,
    DataSet,
    Sample,
    class_numbers,
    read_data_set,
)


def image(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.zeros((4, 6, 3), np.uint8))
    return path


def coco(folder: Path, **change: Any) -> Path:
    image(folder / "images" / "a.png")
    image(folder / "images" / "b.png")
    document = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 9, "file_name": "b.png"}],
        "categories": [{"id": 5, "name": "dog"}, {"id": 3, "name": "cat"}],
        "annotations": [
            {"image_id": 7, "category_id": 5, "bbox": [1, 2, 3, 4]},
            {"image_id": 7, "category_id": 3, "bbox": [0, 0, 2, 2], "iscrowd": 1},
        ],
        **change,
    }
    path = folder / "val.json"
    path.write_text(json.dumps(document))
    return path


def test_a_folder_of_classes(tmp_path: Path) -> None:
    for name in ("dog/1.png", "dog/2.jpg", "cat/x.png", "dog/.hidden.png", "dog/notes.txt"):
        image(tmp_path / name) if name.endswith(("png", "jpg")) else (tmp_path / name).write_text(
            ""
        )
    (tmp_path / "empty").mkdir()
    found = read_data_set(tmp_path)
    assert (found.kind, found.names) == (CLASSES, ("cat", "dog"))
    assert [(s.path.name, s.label) for s in found.samples] == [
        ("x.png", 0), ("1.png", 1), ("2.jpg", 1)
    ]  # fmt: skip
    assert [s.path.name for s in found.first(2).samples] == ["x.png", "1.png"]
    assert found.first(99) == found == found.first(None)


@pytest.mark.parametrize("head", ["", "image,label\n", "\ufeffImage, Label\n"])
def test_a_csv(tmp_path: Path, head: str) -> None:
    image(tmp_path / "in" / "a.png")
    path = tmp_path / "set.csv"
    path.write_text(f'{head}in/a.png,"tench, Tinca"\nin/a.png, eel\n')
    found = read_data_set(path)
    assert found.names == ("eel", "tench, Tinca")
    assert [s.label for s in found.samples] == [1, 0]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("image,label\r\nin/ä b.png,eel\r\n\r\n", "utf-8-sig"),
        ("filename;class\rin/ä b.png;eel\r", "cp1252"),  # a spreadsheet where 0,5 is a half
        ("in\\ä b.png\teel\r\n \t \r\n", "utf-16"),
        ('"in\\ä b.png","eel","val"\n', "utf-8"),
    ],
)
def test_a_csv_as_other_systems_write_it(tmp_path: Path, text: str, encoding: str) -> None:
    image(tmp_path / "in" / "ä b.png")
    (tmp_path / "set.csv").write_bytes(text.encode(encoding))
    found = read_data_set(tmp_path / "set.csv")
    assert found.names == ("eel",)
    assert [(s.path.name, s.label) for s in found.samples] == [("ä b.png", 0)]


def test_coco(tmp_path: Path) -> None:
    found = read_data_set(coco(tmp_path))
    assert (found.kind, found.names) == (BOXES, ("cat", "dog"))
    first, second = (sample.boxes(6, 4) for sample in found.samples)
    assert first.boxes.tolist() == [[1, 2, 4, 6]] and first.class_ids.tolist() == [1]
    assert first.doubtful.tolist() == [[0, 0, 2, 2]] and first.doubtful_ids.tolist() == [0]
    assert second.boxes.shape == (0, 4) and second.class_ids.shape == (0,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image_id": 8}, "the annotation 4 has the image_id 8, which is none of its 2"),
        ({"category_id": 4}, "the annotation 4 has the category_id 4, which is none of its 2"),
        ({"bbox": []}, "the annotation 4 has no bbox of four finite numbers"),
        ({"bbox": [1, 2, -3, 4]}, "a bbox of negative size"),
    ],
)
def test_annotations_that_coco_has_not(tmp_path: Path, change: dict, words: str) -> None:
    wrong = {"id": 4, "image_id": 7, "category_id": 5, "bbox": [1, 2, 3, 4], **change}
    with pytest.raises(InputError, match=words) as raised:
        read_data_set(coco(tmp_path, annotations=[wrong]))
    assert "\n" not in str(raised.value)


def test_images_that_are_not_there_are_all_named_at_once(tmp_path: Path) -> None:
    path = coco(tmp_path)
    for name in ("a.png", "b.png"):
        (tmp_path / "images" / name).unlink()
    with pytest.raises(
        InputError, match=r"a\.png', '.*b\.png', and 2 of its 2 files are not there"
    ):
        read_data_set(path)


def test_a_set_without_any_box(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="boxes of objects are needed, and '.*json' has none"):
        read_data_set(coco(tmp_path, annotations=[]))
    path = yolo(tmp_path, "0 .5 .5 .5 .5")
    (tmp_path / "labels").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"none of the 1 images of .* the first as '.*/a\.txt'"):
        read_data_set(path)


def test_boxes_of_coco_are_finite(tmp_path: Path) -> None:
    annotations = [{"image_id": 7, "category_id": 5, "bbox": [1, float("nan"), 3, 4]}]
    with pytest.raises(InputError, match="no bbox of four finite numbers"):
        read_data_set(coco(tmp_path, annotations=annotations))


def test_yolo(tmp_path: Path) -> None:
    image(tmp_path / "set" / "images" / "val" / "a.png")
    image(tmp_path / "set" / "images" / "val" / "b.png")
    labels = tmp_path / "set" / "labels" / "val"
    labels.mkdir(parents=True)
    (labels / "a.txt").write_text("1 0.5 0.5 0.5 1.0\n\n")
    path = tmp_path / "data.yaml"
    path.write_text("path: set\nval: images/val\nnames:\n  0: cat\n  1: dog\n")
    found = read_data_set(path)
    assert (found.kind, found.names) == (BOXES, ("cat", "dog"))
    first, second = (sample.boxes(100, 50) for sample in found.samples)
    assert first.boxes.tolist() == [[25, 0, 75, 50]] and first.class_ids.tolist() == [1]
    assert len(second.boxes) == 0
    (labels / "a.txt").write_text("2 0.5 0.5 0.5 1.0")
    with pytest.raises(InputError, match=r"a\.txt.*class 2 of 2"):
        read_data_set(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("set.csv", "a.png\n", "lines of image,label are needed"),
        ("set.csv", "image,label\n", "lines of image,label are needed"),
        ("set.csv", "none.png,cat\n", "names the image '.*none.png', which is not there"),
        ("set.json", '{"images": []}', "COCO's images, annotations and categories"),
        ("set.json", "[1]", "COCO's images, annotations and categories"),
        ("set.yaml", "names: [a]\nval: none\n", "a folder of images, or a .txt"),
        ("set.yaml", "val: 3\n", "'names', and a folder"),
        ("set.yaml", "names: [a]\nval: [3]\n", "'names', and a folder"),
        ("set.yaml", "- a\n", "'names', and a folder"),
        ("set.csv", "a.png," + "x" * 200_000, "lines of image,label are needed"),
        ("set.json", "[" * 100_000, "COCO's images, annotations and categories"),
        ("set.txt", "a", r"has none of these endings"),
    ],
)
def test_what_is_no_set(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read_data_set(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_masks(tmp_path: Path) -> None:
    image(tmp_path / "images" / "a.jpg")
    mask = tmp_path / "masks" / "a.png"
    with pytest.raises(InputError, match="a sub-folder of images|which is not there"):
        mask.parent.mkdir()
        read_data_set(tmp_path)
    cv2.imwrite(str(mask), np.full((4, 6), 255, np.uint8))
    found = read_data_set(tmp_path)
    assert (found.kind, found.names) == (MASKS, ())
    assert found.samples[0].classes().tolist() == [[255] * 6] * 4
    image(mask)
    with pytest.raises(InputError, match="a grey PNG whose values are numbers of classes"):
        found.samples[0].classes()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "has no images: copy them there"),
        (["a/", "b/"], "has no images: copy them there"),
        (["a.png", "b.jpg"], "has 2 images and no word on them: put them into folders by class"),
        (["train/cat/a.png", "val/cat/b.png"], "has val and train: give '{0}/val'"),
        (["valid/cat/b.png"], "has valid: give '{0}/valid'"),
        (["images/a.png", "labels/a.txt", "data.yaml"], "has the file 'data.yaml': give '{0}/"),
        (["images/a.png", "labels/a.txt"], "has images without masks: of a set of boxes give"),
        (["data.yaml", "train/images/a.png"], "has the file 'data.yaml': give '{0}/data.yaml'"),
    ],
)
def test_a_folder_without_classes_is_told_what_to_give(
    tmp_path: Path, files: list[str], words: str
) -> None:
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif path.suffix in (".png", ".jpg"):
            image(path)
        else:
            path.write_text("names: [a]\n")
    with pytest.raises(InputError, match="a sub-folder of images for each class") as raised:
        read_data_set(tmp_path)
    assert words.format(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    ("names", "labels", "numbers"),
    [
        (["Cat", "dog"], ["dog", "cat"], [1, 0]),
        (["tench"], ["goldfish", "tench, Tinca tinca"], [1]),
        (["traffic_light"], ["car", "traffic light"], [1]),
        (["1", "0"], ["a", "b"], [1, 0]),
        (["x", "y"], [], [0, 1]),
    ],
)
def test_classes_go_by_their_names(names: list, labels: list, numbers: list) -> None:
    assert class_numbers(classes(names), labels) == numbers


def classes(names: list[str]) -> DataSet:
    """A set with an image of each class."""
    samples = tuple(Sample(Path("a.png"), label) for label in range(len(names)))
    return DataSet(CLASSES, tuple(names), samples)


def test_classes_that_the_network_has_not() -> None:
    with pytest.raises(InputError, match="'eel' is none of its 2, 'a', 'b': rename it in the set"):
        class_numbers(classes(["a", "eel"]), ["a", "b"])
    with pytest.raises(InputError, match="'eel', 'cod' are none of its 6, 'a', .*, 'e', ...: ren"):
        class_numbers(classes(["a", "eel", "cod"]), list("abcdef"))


def test_a_class_without_an_image_needs_none_of_the_network(tmp_path: Path) -> None:
    """Roboflow's COCO files have the project's name as their first category."""
    categories = [{"id": 0, "name": "pets"}, {"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}]
    found = read_data_set(coco(tmp_path, categories=categories))
    assert found.names == ("pets", "cat", "dog") and found.used() == {2}
    assert class_numbers(found, ["dog", "cat"]) == [None, 1, 0]
    assert class_numbers(found, []) == [0, 1, 2]


def yolo(folder: Path, line: str, document: str = "val: images/val") -> Path:
    image(folder / "images" / "val" / "deep" / "a.png")
    labels = folder / "labels" / "val" / "deep"
    labels.mkdir(parents=True, exist_ok=True)
    (labels / "a.txt").write_text(line)
    (folder / "data.yaml").write_text(f"names: [cat, dog]\n{document}\n")
    return folder / "data.yaml"


@pytest.mark.parametrize(
    ("line", "document"),
    [
        ("1 0.5 0.5 0.5 1.0", "val: images/val"),
        ("1 0.5 0.5 0.5 1.0 0.93", "val: images/val"),  # a score
        ("1 0.25 0 0.75 0 0.75 1 0.25 1", "val: images/val"),  # an oriented box
        ("1 .25 .5 .5 0 .75 .5 .5 1 .4 .9", "val: images/val"),  # an outline
        ("1 .25 .5 .5 0 .75 .5 .5 1 .4 .9 0.87", "val: images/val"),  # an outline and its score
        ("1 .5 .5 .5 1 .1 .1 2 0 0 0", "val: images/val\nkpt_shape: [2, 3]"),
        ("1 0.5 0.5 0.5 1.0", "val: ../images/val"),  # Roboflow's
        ("1 0.5 0.5 0.5 1.0", "val: [images/val]"),
        ("1 0.5 0.5 0.5 1.0", "val: val.txt"),
        ("1 0.5 0.5 0.5 1.0", "val:\ntest: images/val"),
    ],
)
def test_each_form_of_yolo(tmp_path: Path, line: str, document: str) -> None:
    (tmp_path / "val.txt").write_text("./images/val/deep/a.png\n")
    [sample] = read_data_set(yolo(tmp_path, line, document)).samples
    truth = sample.boxes(100, 50)
    np.testing.assert_allclose(truth.boxes, [[25, 0, 75, 50]])
    assert truth.class_ids.tolist() == [1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 .5 .5 .5", "line 2 of '.*a.txt': found 3 numbers"),
        ("dog .5 .5 .5 .5", "line 2 of '.*a.txt': could not convert"),
        ("1 nan .5 .5 .5", "line 2 of '.*a.txt': a value is no finite number"),
        ("1.5 .5 .5 .5 .5", "class 1.5 of 2"),
        ("1 320 240 64 48", "line 2 of '.*a.txt': 320 is no part of the image's width or height"),
        ("-1 .5 .5 .5 .5", "class -1 of 2"),
    ],
)
def test_labels_that_yolo_has_not(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_data_set(yolo(tmp_path, f"0 .5 .5 .5 .5\n{line}\n"))
    assert "\n" not in str(raised.value)
