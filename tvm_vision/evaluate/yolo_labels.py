"""The files of YOLO's sets: which images a .yaml names, and what a text file of labels says.

The formats are those that ultralytics and Roboflow write ("Dataset format").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..plain_files import read_text
from ..runtime.sources import IMAGES
from .detection import Truth

# Objects may reach beyond the image; what is above this was written in pixels.
MOST_PART = 2.0
SPLITS = ("val", "test", "train")  # the first one that is there is taken


def named(folder: Path, name: str) -> Path:
    """A file by its name in a text, which may have Windows' backslashes."""
    path = folder / name.strip()
    return path if path.exists() or "\\" not in name else folder / name.strip().replace("\\", "/")


def no_yolo_set(path: Path) -> InputError:
    """Of a .yaml that lacks what a set's has."""
    return InputError(
        f"'names', and a folder 'val' or 'train', are needed in '{path}', as YOLO's data.yaml has "
        "them: add what is missing"
    )


def yolo_images(path: Path, document: Mapping[str, Any]) -> list[Path]:
    """The images of a set's .yaml, in order: of the folder, the text file of images, or the list of
    both, under the first of SPLITS that it has. Folders are taken with all below them.

    Raises InputError where it names none of these, OSError where one cannot be read.
    """
    found = next((document[key] for key in SPLITS if document.get(key)), None)
    places: list[Any] = found if isinstance(found, list) else [found]
    if not places or not all(isinstance(each, str) for each in places):
        raise no_yolo_set(path)
    root = path.parent / str(document.get("path") or ".")
    return [image for each in places for image in _images(path, root, each)]


def _images(path: Path, root: Path, name: str) -> list[Path]:
    # Roboflow writes "../valid/images" for the folder "valid/images" beside the .yaml.
    places = [root / name, *([root / name[3:]] if name.startswith("../") else [])]
    place = next((each for each in places if each.exists()), root / name)
    if place.is_dir():
        return sorted(
            each
            for each in place.rglob("*")
            if each.suffix.lower() in IMAGES and not each.name.startswith(".")
        )
    if place.is_file() and place.suffix == ".txt":
        lines = read_text(place).splitlines()
        return [named(place.parent, line) for line in lines if line.strip()]
    raise InputError(
        f"a folder of images, or a .txt of their paths, is needed, and '{place}' of '{path}' is "
        "none: check its 'path'"
    )


def yolo_label_file(image: Path) -> Path:
    """Where an image's labels lie: the last folder "images" of its path stands for "labels"."""
    parts = list(image.parent.parts)
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
    return Path(*parts) / f"{image.stem}.txt"


def yolo_truth(path: Path, classes: int, *, keypoints: bool = False) -> Truth:
    """The boxes of a file of labels in parts of the image; of a missing file none.

    A line is "class x y width height", which a score may follow; or "class x1 y1 x2 y2 ...", an
    outline or the corners of an oriented box, of which the box around them counts. keypoints: the
    set has them, and they follow each box.

    Raises InputError, with the line, for another one and for a class that is not of ``classes``.
    """
    lines = read_text(path).splitlines() if path.is_file() else []
    boxes, ids = [], []
    for number, line in enumerate(lines, 1):
        if not (words := line.split()):
            continue
        try:
            values = np.array(words, float)
            ids.append(_class_id(values, classes))
            boxes.append(_box(values[1:], keypoints))
        except ValueError as error:
            raise InputError(
                f"class x y width height, or a class and its outline's corners, is needed in line "
                f"{number} of '{path}': {error}"
            ) from None
    return Truth(np.array(boxes, float).reshape(-1, 4), np.array(ids, int), np.empty((0, 4)))


def _class_id(values: np.ndarray, classes: int) -> int:
    if not np.isfinite(values).all():
        raise ValueError("a value is no finite number")
    if values[0] != int(values[0]) or not 0 <= values[0] < classes:
        raise ValueError(f"class {values[0]:g} of {classes}")
    return int(values[0])


def _box(values: Sequence[float] | np.ndarray, keypoints: bool) -> list[float]:
    """x1, y1, x2, y2. Raises ValueError for a count of numbers that is none of a label's."""
    count = len(values)
    if count < 4:
        raise ValueError(f"found {count} numbers after the class")
    # Keypoints have a third number each, which is no place.
    if (most := float(np.abs(values[: 4 if keypoints else count]).max())) > MOST_PART:
        raise ValueError(f"{most:g} is no part of the image's width or height")
    if count <= 5 or keypoints:
        x, y, width, height = values[:4]
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    # An odd count ends with a score.
    corners = np.asarray(values[: count // 2 * 2]).reshape(-1, 2)
    return [*corners.min(axis=0), *corners.max(axis=0)]
