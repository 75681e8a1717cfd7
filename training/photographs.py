"""Photographs that the training has not seen, and what is to be seen on them, labelled by hand.

The labels are in photographs.json, by the SHA-256 of the file. The photographs are elsewhere: in
Python packages ("module"), in public repositories or in Debian's packages, of which
fetch_photographs.py fills a folder that the caller names. The labels say which, at which version,
and under which licence. Where one is missing, it is left out.

Of each: boxes (class, x1, y1, x2, y2), of what is seen of an object; doubtful regions, where a
detection counts neither way (the robot's own body, what cannot be told). Robots are of any kind,
also on tables and in hands; posts those at a goal's front. Of some also the pixels: "field",
polygons; "lines", polylines of (x, y, width), "line_polygons", and "rings", pairs of ellipses
(centre, half axes, degrees), the outer one and the inner one; "unknown", polygons that do not
count, as the boxes do not: whose outlines would be guesses. All in pixels. Of others the pixels are
in an image beside the photograph ("pixels", by its SHA-256), by COLOURS.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tvm_vision.errors import InputError
from tvm_vision.evaluate.detection import Truth

Array = np.ndarray
LABELS = Path(__file__).with_name("photographs.json")
BOXES, PIXELS = ("ball", "goalpost", "robot"), ("background", "lines", "field")
BACKGROUND, LINE, FIELD, UNKNOWN = 0, 1, 2, 255
SUBPIXEL = 4  # bits that OpenCV reads as parts of a pixel
# Of HULKs/nao-image-segmentation-dataset (sass/site.scss), RGB. Balls, goals and robots do not
# count, as boxes do not; what is uncertain there is black.
COLOURS = {(0xF5, 0x29, 0x05): FIELD, (0x46, 0xC7, 0x0A): LINE, (0x2D, 0x0A, 0xC7): BACKGROUND}


@dataclass(frozen=True)
class Photograph:
    """A labelled photograph that is here. truth: its boxes; mask uint8 [h,w] of PIXELS and UNKNOWN,
    None for one whose pixels are not labelled; source: the repository or package it comes from."""

    name: str
    path: Path
    truth: Truth
    mask: Array | None
    source: str = ""

    @property
    def of_a_game(self) -> bool:
        """Whether there is anything to be found: on others every box is a false one."""
        return self.mask is not None or len(self.truth.boxes) > 0

    def image(self) -> Array:
        """uint8 [h,w,3], BGR. Raises InputError for a file that OpenCV does not read."""
        image = cv2.imread(str(self.path), cv2.IMREAD_COLOR)
        if image is None:
            raise InputError(f"a photograph that OpenCV reads is needed, found '{self.path}'")
        return image


def read_labels() -> dict[str, dict[str, Any]]:
    """What photographs.json says, by SHA-256 in hexadecimal."""
    return json.loads(LABELS.read_text("utf-8"))


def truth_of(label: dict[str, Any]) -> Truth:
    """The boxes of one photograph."""
    corners = np.array([box[1:] for box in label["boxes"]], np.float64).reshape(-1, 4)
    kinds = np.array([BOXES.index(box[0]) for box in label["boxes"]], np.int64)
    return Truth(corners, kinds, np.array(label["doubtful"], np.float64).reshape(-1, 4))


def mask_of(label: dict[str, Any]) -> Array | None:
    """Classes of the pixels of one photograph, uint8 [h,w]; None where they are not labelled."""
    if "field" not in label:
        return None
    wide, high = label["size"]
    mask = np.full((high, wide), BACKGROUND, np.uint8)
    for polygon in label["field"]:
        fill(mask, polygon, FIELD)
    paint = np.zeros_like(mask)
    for polygon in [*label["line_polygons"], *map(strip, label["lines"])]:
        fill(paint, polygon, 1)
    for outer, inner in label["rings"]:
        ring = np.zeros_like(mask)
        ellipse(ring, outer, 1)
        ellipse(ring, inner, 0)
        paint |= ring
    mask[paint > 0] = LINE
    for polygon in label["unknown"]:
        fill(mask, polygon, UNKNOWN)
    for _, x1, y1, x2, y2 in label["boxes"]:
        rows, columns = slice(int(y1), int(np.ceil(y2)) + 1), slice(int(x1), int(np.ceil(x2)) + 1)
        mask[rows, columns] = UNKNOWN
    return mask


def mask_in(path: Path) -> Array:
    """The same of an image whose pixels have COLOURS; others do not count. Raises InputError for a
    file that OpenCV does not read."""
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"an image of classes that OpenCV reads is needed, found '{path}'")
    mask = np.full(image.shape[:2], UNKNOWN, np.uint8)
    for colour, value in COLOURS.items():
        mask[(image[..., ::-1] == colour).all(-1)] = value
    return mask


def strip(line: Iterable[tuple[float, float, float]]) -> Array:
    """The outline [2n,2] of a polyline of n points (x, y, width)."""
    points = np.asarray(line, np.float64)
    along = np.gradient(points[:, :2], axis=0)
    across = np.stack([-along[:, 1], along[:, 0]], 1) / np.linalg.norm(along, axis=1)[:, None]
    half = across * points[:, 2:] / 2
    return np.concatenate([points[:, :2] + half, (points[:, :2] - half)[::-1]])


def fill(mask: Array, polygon: Any, value: int) -> None:
    """Sets the pixels whose middles lie in a polygon [n,2], to a part of a pixel."""
    corners = (np.asarray(polygon, np.float64) - 0.5) * (1 << SUBPIXEL)
    cv2.fillPoly(mask, [corners.round().astype(np.int32)], value, shift=SUBPIXEL)


def ellipse(mask: Array, form: tuple[float, float, float, float, float], value: int) -> None:
    """Sets the pixels within an ellipse: its centre, half axes, and turn in degrees."""
    x, y, across, down, turn = form
    around = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    local = np.stack([across * np.cos(around), down * np.sin(around)], 1)
    c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    fill(mask, local @ np.array([[c, s], [-s, c]]) + [x, y], value)


def source_of(label: dict[str, Any]) -> str:
    """The repository or package that has a photograph."""
    return label.get("repository") or label.get("debian") or label["package"]


def packaged(labels: dict[str, dict[str, Any]]) -> Iterator[Path]:
    """Where the packages that are installed have their photographs. None of their code is run."""
    for label in labels.values():
        spec = importlib.util.find_spec(label["module"]) if "module" in label else None
        for folder in (spec.submodule_search_locations if spec else None) or ():
            yield Path(folder) / label["file"]


def photographs(folders: Iterable[Path]) -> list[Photograph]:
    """Those that are in the folders or in installed packages, in the order of the labels."""
    labels = read_labels()
    places = [path for folder in folders for path in sorted(folder.glob("*"))]
    here = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path
        for path in [*packaged(labels), *places]
        if path.is_file()
    }
    result = []
    for key, label in labels.items():
        if key in here:
            beside = here.get(label["pixels"]["sha256"]) if "pixels" in label else None
            mask = mask_in(beside) if beside else mask_of(label)
            result.append(
                Photograph(label["name"], here[key], truth_of(label), mask, source_of(label))
            )
    return result
