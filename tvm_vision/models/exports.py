"""Results of many frames as files of others' formats: COCO's JSON, YOLO's text, cut-out objects,
masks. Each file is whole or not there at all.

YOLO's text is that of the labels its trainers read: a line for each object, the class's number,
then places as parts of the image's width and height (ultralytics, "Dataset format").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..runtime.sinks import OutputFolder, write_png
from ..runtime.sources import Frame
from ..whole_files import ScratchFolder, put, write_whole, writing
from .converters import to_coco
from .results import Detections, VisionResult

if TYPE_CHECKING:
    from typing_extensions import Self

# Corners of an outline that are nearer to a line than this many pixels are left out.
FLATNESS = 0.7
# Keypoints of which the network is surer than this are written as seen.
LIKELY = 0.5


class Export(Protocol):
    """What is given each frame with its result, in a ``with``; ``written`` has what is complete."""

    #: What of a network's ``produces`` it writes: one of these is needed.
    needs: tuple[str, ...]
    written: list[Path]

    def write(self, frame: Frame, result: VisionResult) -> None:
        """Keep one frame. Raises InputError where it cannot be written."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...


class _Folder:
    """A folder with files for each frame."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder. Raises InputError where that cannot be."""
        self.folder = OutputFolder(folder)
        self.written: list[Path] = []

    def stem(self, frame: Frame) -> Path:
        """Of the frame's files: that of an image, of a video with the frame's number."""
        if not frame.stream:
            return self.folder.new(Path(frame.name).stem)
        name, _, number = frame.name.rpartition("#")
        return self.folder.new(f"{Path(name).stem}_{number}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Nothing is left open."""


class YoloText(_Folder):
    """A text file for each frame, empty where nothing was found.

    A line is "class x y width height", the box's centre and sides; of a network with masks the
    corners of each object's outline, of oriented boxes their four corners, x and y in turn; with
    keypoints the box and then x, y and 2 for each that is likely, 0 0 0 for the others. With
    ``scores`` the score comes last.
    """

    needs = ("detections",)

    def __init__(self, folder: Path, *, scores: bool = False) -> None:
        super().__init__(folder)
        self._scores = scores

    def write(self, frame: Frame, result: VisionResult) -> None:
        found = result.detections
        lines = [] if found is None else list(yolo_lines(found, frame.image.shape, self._scores))
        stem = self.stem(frame)
        path = stem.with_name(f"{stem.name}.txt")
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())
        self.written.append(path)


def yolo_lines(found: Detections, shape: tuple[int, ...], scores: bool = False) -> Iterator[str]:
    """Lines of YOLO's labels, see YoloText. shape: height and width of the frame, in pixels."""
    size = np.array([shape[1], shape[0]], np.float32)
    corners = found.corners()
    for index, class_id in enumerate(found.class_ids.tolist()):
        x1, y1, x2, y2 = found.boxes[index].tolist()
        middle = np.array([[(x1 + x2) / 2, (y1 + y2) / 2], [x2 - x1, y2 - y1]], np.float32)
        if found.masks is not None:
            middle = outline(found.masks.crops[index]) + found.masks.corners[index][::-1]
        elif corners is not None:
            middle = corners[index]
        numbers = [f"{value:.6f}" for value in (middle / size).clip(0, 1).reshape(-1).tolist()]
        if not numbers:
            # A mask without a pixel has no outline.
            continue
        if found.keypoints is not None:
            for x, y, sure in found.keypoints[index].tolist():
                seen = sure > LIKELY and 0 <= x <= shape[1] and 0 <= y <= shape[0]
                place = [f"{x / shape[1]:.6f}", f"{y / shape[0]:.6f}", "2"]
                numbers += place if seen else ["0"] * 3
        score = [f"{found.scores[index]:.6f}"] if scores else []
        yield " ".join([str(class_id), *numbers, *score])


def outline(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Corners float32 [n, 2], x and y in pixels of the mask, around its largest part; none, [0, 2],
    where it has less than three, as a part of one pixel has."""
    found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not found:
        return np.empty((0, 2), np.float32)
    largest = max(found, key=cv2.contourArea)
    corners = cv2.approxPolyDP(largest, FLATNESS, True).reshape(-1, 2).astype(np.float32)
    return corners if len(corners) > 2 else np.empty((0, 2), np.float32)


class Crops(_Folder):
    """Each object as an image of its own, in a folder for each class: ball/photo-1.png."""

    needs = ("detections",)

    def write(self, frame: Frame, result: VisionResult) -> None:
        if result.detections is None:
            return
        stem, height, width = self.stem(frame), *frame.image.shape[:2]
        for number, (name, _, (x1, y1, x2, y2)) in enumerate(result.detections, 1):
            left, top = int(max(x1, 0)), int(max(y1, 0))
            right, bottom = min(int(np.ceil(x2)), width), min(int(np.ceil(y2)), height)
            if right <= left or bottom <= top:
                continue
            path = stem.parent / name.replace("/", "_") / f"{stem.name}-{number}.png"
            write_png(path, np.ascontiguousarray(frame.image[top:bottom, left:right]))
            self.written.append(path)


class Masks(_Folder):
    """Masks as PNG of numbers: the class of each pixel (8 bits), and as NAME-objects.png which
    object it belongs to, 1 for the best one (16 bits, 0: none)."""

    needs = ("segmentation", "masks")

    def write(self, frame: Frame, result: VisionResult) -> None:
        stem = self.stem(frame)
        if result.segmentation is not None:
            self._keep(stem, ".png", result.segmentation.mask)
        if result.detections is not None and result.detections.masks is not None:
            self._keep(stem, "-objects.png", result.detections.masks.ids())

    def _keep(self, stem: Path, suffix: str, numbers: npt.NDArray[Any]) -> None:
        path = stem.with_name(f"{stem.name}{suffix}")
        write_png(path, numbers)
        self.written.append(path)


class CocoJson:
    """One file with the entries of COCO's format of results, see ``converters.to_coco``.

    An image_id is the number in an image's name, as in COCO's "000000000139.jpg", else its name.
    Of a network that finds objects and tells pixels apart, the objects alone: pycocotools takes no
    mixture.
    """

    needs = ("detections", "segmentation")

    def __init__(self, path: Path) -> None:
        """Makes the folder that it is in. Raises InputError where it cannot be written."""
        self.written: list[Path] = []
        self._path = path
        OutputFolder(path.parent)
        if path.is_dir():
            # Said now, and not when an hour of video is done.
            raise InputError(f"a file is needed, and '{path}' is a folder: name one")
        with writing(path):
            self._scratch = ScratchFolder(path.parent)
        self._fresh = self._scratch.path / path.name
        self._stream = self._fresh.open("w", encoding="utf-8")
        self._count = 0

    def write(self, frame: Frame, result: VisionResult) -> None:
        stem = Path(frame.name).stem
        found = result if result.detections is None else result.detections
        for entry in to_coco(found, int(stem) if stem.isdecimal() else frame.name):
            self._stream.write(("[\n" if not self._count else ",\n") + json.dumps(entry))
            self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._scratch:
            self._stream.write("\n]\n" if self._count else "[]\n")
            self._stream.close()
            # A camera never ends by itself: what was seen until Ctrl-C is what was asked for.
            if kind is None or issubclass(kind, KeyboardInterrupt):
                with writing(self._path):
                    put(self._fresh, self._path)
                self.written.append(self._path)


def check_exports(
    exports: Mapping[str, type[Export]], produces: tuple[str, ...], name: str
) -> None:
    """Raise InputError for the first export, by what asked for it, that this network has nothing
    for."""
    for asked, export in exports.items():
        if not set(export.needs) & set(produces):
            raise InputError(
                f"{asked} writes {' or '.join(export.needs)}, and '{name}' gives "
                f"{', '.join(produces)}: leave it out"
            )
