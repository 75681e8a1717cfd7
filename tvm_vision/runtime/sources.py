"""Where frames come from: images, folders, video files, cameras, one iterator for all of them.

A frame is uint8 [height, width, 3] in BGR, as OpenCV gives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..file_kinds import EMPTY, IMAGE, TEXT, VIDEO, need
from ..plain_files import read_plain

Image = npt.NDArray[np.uint8]

IMAGES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
# A camera may need a moment, and gives up after this many empty reads in a row.
EMPTY_READS = 20
# Frames a second; what says more does not know.
MAX_RATE = 1000.0
MOST_IMAGE_BYTES = 1 << 30


@dataclass(frozen=True)
class Frame:
    """One image: ``name`` for people ("cat.jpg", "drive.mp4#12", "camera 0#12").

    stream: name of the video or camera that it is of, "" for an image. rate: frames a second of
    that; 0 where it does not say.
    """

    name: str
    image: Image
    stream: str = ""
    rate: float = 0.0


def frames(sources: Iterable[str | Path]) -> Iterator[Frame]:
    """All frames of each source, one after the other, read as they are asked for.

    A source is an image, a folder of images (by name), a video file, or the number of a camera,
    which never ends. Raises InputError, when it comes to it, for a source that cannot be read.
    """
    for source in sources:
        yield from _frames(source)


def read_image(path: Path) -> Image:
    """One image. Raises InputError where it is none that OpenCV can read."""
    need(path, "an image", IMAGE, TEXT, EMPTY)
    image = _decode(path)
    if image is None:
        raise InputError(f"'{path}' is not an image that OpenCV can read: use PNG or JPEG")
    return image


def _frames(source: str | Path) -> Iterator[Frame]:
    path = Path(source)
    if isinstance(source, str) and source.isdecimal() and not path.exists():
        return _video(int(source), f"camera {source}")
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InputError(
            f"an image, folder, video or camera number is needed, and '{source}' is none: check "
            "the path"
        )
    image = _decode(path) if path.suffix.lower() not in VIDEOS else None
    if image is not None:
        return iter([Frame(path.name, image)])
    need(path, "an image or video", IMAGE, VIDEO, TEXT, EMPTY)
    if path.suffix.lower() in IMAGES:
        raise InputError(f"'{path}' is not an image that OpenCV can read: use PNG or JPEG")
    return _video(str(path), path.name)


VIDEOS = frozenset({".avi", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpg", ".webm"})


def _decode(path: Path) -> Image | None:
    # Decoded from memory: cv2.imread answers a broken file with a warning and None.
    try:
        data = np.frombuffer(read_plain(path, MOST_IMAGE_BYTES), np.uint8)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the file") from None
    try:
        image = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error:
        # An image that claims more pixels than OpenCV accepts.
        return None
    return None if image is None else image.astype(np.uint8, copy=False)


def _folder(folder: Path) -> Iterator[Frame]:
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in IMAGES and not path.name.startswith(".")
    )
    if not paths:
        known = ", ".join(sorted(IMAGES))
        raise InputError(f"a folder with images ({known}) is needed, and '{folder}' has none")
    return (Frame(path.name, read_image(path)) for path in paths)


def _video(source: str | int, name: str) -> Iterator[Frame]:
    with _silent_opencv():
        capture = cv2.VideoCapture(source)
    try:
        rate = capture.get(cv2.CAP_PROP_FPS) if capture.isOpened() else 0.0
        rate = rate if 0 < rate <= MAX_RATE else 0.0
        count = 0
        empty = 0
        limit = EMPTY_READS if isinstance(source, int) else 1
        while capture.isOpened() and empty < limit:
            read, image = capture.read()
            if not read:
                empty += 1
                continue
            yield Frame(f"{name}#{count}", image.astype(np.uint8, copy=False), name, rate)
            count, empty = count + 1, 0
        if isinstance(source, int):
            raise InputError(f"{name} gives no image: check that it is there and not in use")
        if count == 0:
            raise InputError(f"'{source}' is neither an image nor a video that OpenCV can read")
    finally:
        capture.release()


@contextlib.contextmanager
def _silent_opencv() -> Iterator[None]:
    """Without the lines that OpenCV writes itself: what goes wrong is raised."""
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
