"""Images with what is on them: folders of classes or masks, CSV, COCO and YOLO sets."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ..errors import InputError
from ..file_kinds import FOLDER, JSON, TEXT, need
from ..models.yaml_file import read_yaml
from ..plain_files import read_plain, read_text
from ..runtime.sources import IMAGES
from .detection import Truth
from .yolo_labels import SPLITS, named, no_yolo_set, yolo_images, yolo_label_file, yolo_truth

CLASSES, BOXES, MASKS = "classes", "boxes", "masks"
NOT_COUNTED = 255  # in a mask: pixels that do not count
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Sample:
    """One image. label: its class, of a set of CLASSES; truth: its boxes, of a set of BOXES: in
    pixels, or, where ``relative``, in parts of its width and height; mask: the file of a set of
    MASKS with its classes."""

    path: Path
    label: int = -1
    mask: Path | None = None
    truth: Truth | None = None
    relative: bool = False

    def boxes(self, width: int, height: int) -> Truth:
        """What is on it, in pixels of an image of this size."""
        assert self.truth is not None
        scale = np.array([width, height] * 2, float) if self.relative else 1.0
        boxes, doubtful = self.truth.boxes * scale, self.truth.doubtful * scale
        return replace(self.truth, boxes=boxes, doubtful=doubtful)

    def classes(self) -> np.ndarray:
        """The class of each pixel, uint8 [height, width], NOT_COUNTED where it does not count.

        Raises InputError where the mask is no image of one channel of bytes.
        """
        assert self.mask is not None
        found = cv2.imdecode(
            np.frombuffer(read_plain(self.mask, MOST_BYTES), np.uint8), cv2.IMREAD_UNCHANGED
        )
        if found is None or found.ndim != 2 or found.dtype != np.uint8:
            raise InputError(
                f"a mask is needed, a grey PNG whose values are numbers of classes, and "
                f"'{self.mask}' is none"
            )
        return found


@dataclass(frozen=True)
class DataSet:
    """A labelled set. kind: CLASSES, BOXES or MASKS; names: of its classes, those of the network
    for MASKS."""

    kind: str
    names: tuple[str, ...]
    samples: tuple[Sample, ...]

    def used(self) -> set[int]:
        """The classes that an image has; of a set of MASKS none is known."""
        if self.kind == CLASSES:
            return {sample.label for sample in self.samples}
        truths = [sample.truth for sample in self.samples if sample.truth is not None]
        return {int(i) for truth in truths for i in truth.class_ids}

    def first(self, count: int | None) -> DataSet:
        """The same with so many images, evenly spread over all of them."""
        if count is None or count >= len(self.samples):
            return self
        chosen = [i * len(self.samples) // count for i in range(count)]
        return DataSet(self.kind, self.names, tuple(self.samples[i] for i in chosen))


def read_data_set(path: Path) -> DataSet:
    """A folder with a sub-folder of images for each class, or with the two sub-folders images and
    masks, whose grey PNGs of the same names have numbers of the network's classes; a .csv with the
    columns image and label; a .json as COCO has it, with images beside it; a .yaml as of YOLO sets.

    Raises InputError where it is none of these, or names images that are not there.
    """
    need(path, "a folder with a sub-folder for each class, a .csv, COCO's .json or YOLO's .yaml",
         FOLDER, TEXT, JSON)  # fmt: skip
    try:
        if path.is_dir():
            return _folder(path)
        reader = READERS.get(path.suffix)
        if reader is None:
            raise InputError(
                f"a set's text is needed, image,label in a .csv, COCO's JSON in a .json or YOLO's "
                f".yaml, and '{path}' has none of these endings: rename it"
            )
        return reader(path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGES and p.name[0] != ".")


def _folder(folder: Path) -> DataSet:
    if (folder / "images").is_dir() and (folder / "masks").is_dir():
        images = _images(folder / "images")
        pairs = [Sample(p, mask=folder / "masks" / f"{p.stem}.png") for p in images]
        return _checked(DataSet(MASKS, (), tuple(pairs)), folder)
    found = {sub.name: _images(sub) for sub in sorted(folder.iterdir()) if sub.is_dir()}
    names = tuple(name for name, images in found.items() if images)
    if not names or (names == ("images",) and "labels" in found):
        raise _no_classes(folder, list(found))
    samples = [Sample(path, i) for i, name in enumerate(names) for path in found[name]]
    return DataSet(CLASSES, names, tuple(samples))


def _no_classes(folder: Path, subs: Sequence[str]) -> InputError:
    """Of a folder that is no set: what it is instead, and what to give."""
    needed = f"a sub-folder of images for each class is needed, and '{folder}'"
    texts = sorted(p for p in folder.iterdir() if p.suffix in READERS and p.name[0] != ".")
    if texts:
        return InputError(f"{needed} has the file '{texts[0].name}': give '{texts[0]}' itself")
    splits = [sub for sub in (*SPLITS, "valid") if sub in subs and _has_classes(folder / sub)]
    if splits:
        return InputError(f"{needed} has {' and '.join(splits)}: give '{folder / splits[0]}'")
    if "images" in subs and _images(folder / "images"):
        return InputError(
            f"{needed} has images without masks: of a set of boxes give its .yaml or .json, for "
            "masks put grey PNGs of the same names into 'masks' beside them"
        )
    if images := _images(folder):
        return InputError(
            f"{needed} has {len(images)} images and no word on them: put them into folders by "
            "class, or list them in a .csv of image,label"
        )
    return InputError(f"{needed} has no images: copy them there, or check the path")


def _has_classes(folder: Path) -> bool:
    return any(sub.is_dir() and _images(sub) for sub in folder.iterdir())


def _csv(path: Path) -> DataSet:
    text = read_text(path, MOST_BYTES)
    first = next((line for line in text.splitlines() if line.strip()), "")
    # Where a comma is the decimal point, spreadsheets write the others.
    between = next((mark for mark in ",;\t" if mark in first), ",")
    try:
        lines = csv.reader(io.StringIO(text, newline=None), delimiter=between)
        rows = [row for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(
            f"lines of image,label are needed, and '{path}' has another ({error}): check it"
        ) from None
    if rows and Path(rows[0][0].strip()).suffix == "":
        del rows[0]  # names of the columns
    if not rows or any(len(row) < 2 for row in rows):
        raise InputError(f"lines of image,label are needed, and '{path}' has another: check it")
    names = sorted({row[1].strip() for row in rows})
    number = {name: i for i, name in enumerate(names)}
    samples = [Sample(named(path.parent, row[0]), number[row[1].strip()]) for row in rows]
    return _checked(DataSet(CLASSES, tuple(names), tuple(samples)), path)


def _coco(path: Path) -> DataSet:
    try:
        document = json.loads(read_plain(path, MOST_BYTES))
        categories = sorted(document["categories"], key=lambda each: each["id"])
        number = {each["id"]: i for i, each in enumerate(categories)}
        found: dict[Any, list[Any]] = {each["id"]: [] for each in document["images"]}
        if len(found) < len(document["images"]):
            raise ValueError("two images have one id")
        for each in document["annotations"]:
            _check_annotation(each, found, number)
            found[each["image_id"]].append(each)
        samples = [
            Sample(_beside(path, each["file_name"]), truth=_coco_truth(found[each["id"]], number))
            for each in document["images"]
        ]
        names = tuple(str(each["name"]) for each in categories)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"COCO's images, annotations and categories are needed, and '{path}' has none such "
            f"({reason}): check that it is of object detection"
        ) from None
    return _checked(DataSet(BOXES, names, tuple(samples)), path)


def _check_annotation(each: Any, images: Collection[Any], categories: Collection[Any]) -> None:
    """Raises ValueError where an annotation is of nothing that the file has, or has no box."""
    of = f"the annotation {each.get('id', '')}".strip()
    for key, known in (("image_id", images), ("category_id", categories)):
        if each[key] not in known:
            raise ValueError(f"{of} has the {key} {each[key]!r}, which is none of its {len(known)}")
    box = each.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        raise ValueError(f"{of} has no bbox of four finite numbers")
    if min(box[2:]) < 0:
        raise ValueError(f"{of} has a bbox of negative size, which is x, y, width, height")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _beside(path: Path, name: str) -> Path:
    """An image of a COCO file: beside it, or in a folder images beside it or beside its own."""
    places = (path.parent, path.parent / "images", path.parent.parent / "images")
    tried = [named(place, name) for place in places]
    return next((each for each in tried if each.is_file()), tried[0])


def _coco_truth(annotations: Sequence[Any], number: dict[Any, int]) -> Truth:
    def boxes(crowd: bool) -> tuple[np.ndarray, np.ndarray]:
        kept = [a for a in annotations if bool(a.get("iscrowd")) is crowd]
        x, y, width, height = np.array([a["bbox"] for a in kept], float).reshape(-1, 4).T
        classes = np.array([number[a["category_id"]] for a in kept], int)
        return np.stack([x, y, x + width, y + height], axis=1), classes

    return Truth(*boxes(False), *boxes(True))


def _yolo(path: Path) -> DataSet:
    document = read_yaml(path)
    names = document.get("names") if isinstance(document, dict) else None
    if isinstance(names, dict):
        names = [names[key] for key in sorted(names)]
    if not isinstance(names, list):
        raise no_yolo_set(path)
    keypoints = bool(document.get("kpt_shape"))
    samples = []
    for image in yolo_images(path, document):
        truth = yolo_truth(yolo_label_file(image), len(names), keypoints=keypoints)
        samples.append(Sample(image, truth=truth, relative=True))
    if samples and not any(yolo_label_file(sample.path).is_file() for sample in samples):
        raise InputError(
            f"files of labels are needed, and none of the {len(samples)} images of '{path}' has "
            f"one, the first as '{yolo_label_file(samples[0].path)}': put them there"
        )
    return _checked(DataSet(BOXES, tuple(map(str, names)), tuple(samples)), path)


READERS = {".csv": _csv, ".json": _coco, ".yaml": _yolo, ".yml": _yolo}


def _checked(found: DataSet, path: Path) -> DataSet:
    if not found.samples:
        raise InputError(f"images are needed, and '{path}' names none: add them")
    truths = [sample.truth for sample in found.samples if sample.truth is not None]
    if truths and not any(len(truth.boxes) for truth in truths):
        raise InputError(f"boxes of objects are needed, and '{path}' has none: check its labels")
    named_files = [file for s in found.samples for file in (s.path, s.mask) if file is not None]
    missing = [file for file in named_files if not file.is_file()]
    names = _few(list(map(str, missing)))
    if len(missing) == 1:
        raise InputError(
            f"'{path}' names the image {names}, which is not there: check that name, or copy the "
            "images there"
        )
    if missing:
        raise InputError(
            f"'{path}' names {names}, and {len(missing)} of its {len(named_files)} files are not "
            "there: check these names, or copy the images there"
        )
    return found


def class_numbers(data: DataSet, labels: Sequence[str]) -> list[int | None]:
    """For each class of a set the number of the network's; None for one that the network has not,
    and no image either, as the heading "objects" that some tools put above a set's classes.

    A name is a label, or its first word before a comma, whatever the case, or a number. Where the
    network has no labels the order is the same. Raises InputError for names without a class.
    """
    if not labels:
        return list(range(len(data.names)))
    found = _matched(data.names, labels)
    missing = [data.names[i] for i in sorted(data.used()) if found[i] is None]
    if missing:
        raise InputError(
            f"a class of the network is needed for each of the set, and {_few(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} none of its {len(labels)}, {_few(labels)}: "
            f"rename {'it' if len(missing) == 1 else 'them'} in the set"
        )
    return found


def _few(names: Sequence[str]) -> str:
    """The first names, in quotes."""
    return ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _matched(names: Sequence[str], labels: Sequence[str]) -> list[int | None]:
    plain = [label.casefold().strip() for label in labels]
    first = [label.partition(",")[0].strip() for label in plain]
    spaced = [label.replace("_", " ") for label in plain]
    found: list[int | None] = []
    for name in names:
        wanted = name.casefold().strip().replace("_", " ")
        known = next((each for each in (plain, first, spaced) if wanted in each), None)
        if known is not None:
            found.append(known.index(wanted))
        else:
            found.append(int(name) if name.isdecimal() and int(name) < len(labels) else None)
    return found
