"""Where images with results go: PNG files for images, one MP4 for each video or camera."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..whole_files import ScratchFolder, need_room, put, why_not, write_whole, writing
from .sources import Frame

Image = npt.NDArray[np.uint8]
# Of videos that do not say, and of cameras.
USUAL_RATE = 30.0
# More than the list of frames at a video's end takes, sixteen bytes for each, for hours of it.
LIST_BYTES = 4 << 20


class OutputFolder:
    """A folder with files for each frame, whose names it gives: each once."""

    def __init__(self, path: Path) -> None:
        """Makes the folder. Raises InputError where that cannot be."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder '{path}' cannot be made {why_not(error)}") from None
        self.path = path
        self._names: set[str] = set()

    def new(self, stem: str, suffix: str = "") -> Path:
        """A path that no other frame has: two folders may have an image of the same name. Signs
        that no file's name has, as those of a stream's address, are left out."""
        plain = re.sub(r"[^\w.@+ -]+", "_", stem)
        name, number = f"{plain}{suffix}", 1
        while name in self._names:
            number += 1
            name = f"{plain}-{number}{suffix}"
        self._names.add(name)
        return self.path / name


class FrameWriter:
    """Writes the frames of any sources into one folder, each file whole or not at all.

    Used in a ``with``: at its end the last video is finished, and after an exception it is left
    out. ``written`` has the paths of all that is complete.
    """

    def __init__(self, folder: Path) -> None:
        """Makes the folder. Raises InputError where that cannot be."""
        self._folder = OutputFolder(folder)
        self._video: _Video | None = None
        self.written: list[Path] = []

    def write(self, frame: Frame, image: Image) -> None:
        """Keep an image that was made of a frame. Raises InputError where it cannot be written."""
        if self._video is not None and self._video.stream != frame.stream:
            self._finish()
        if not frame.stream:
            path = self._folder.new(Path(frame.name).stem, ".png")
            write_png(path, image)
            self.written.append(path)
            return
        if self._video is None:
            path = self._folder.new(Path(frame.stream).stem, ".mp4")
            self._video = _Video(frame.stream, path, image, frame.rate or USUAL_RATE)
        self._video.write(image)

    def _finish(self) -> None:
        if self._video is not None:
            video, self._video = self._video, None
            self.written.append(video.finish())

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A camera never ends by itself: what was seen until Ctrl-C is what was asked for.
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self._finish()
        elif self._video is not None:
            self._video.discard()


class _Video:
    """An MP4 file in the making, in a scratch folder until it is complete."""

    def __init__(self, stream: str, path: Path, image: Image, rate: float) -> None:
        self.stream = stream
        self._path = path
        self._size = (image.shape[1], image.shape[0])
        with writing(path):
            need_room(path.parent, image.nbytes + LIST_BYTES)
            self._scratch = ScratchFolder(path.parent)
        self._fresh = self._scratch.path / path.name
        fourcc = cv2.VideoWriter.fourcc(*"mp4v")
        self._writer: Any = cv2.VideoWriter(str(self._fresh), fourcc, rate, self._size)
        if not self._writer.isOpened():
            self.discard()
            raise InputError(
                f"'{path}' cannot be written: OpenCV with FFmpeg is needed, which its wheels have: "
                "pip install opencv-python-headless"
            )

    def write(self, image: Image) -> None:
        if (image.shape[1], image.shape[0]) != self._size:
            # Some cameras change their mode; a file has one size.
            image = cv2.resize(image, self._size).astype(np.uint8, copy=False)
        # OpenCV does not say what it could not write; an encoded frame is smaller than its pixels.
        with writing(self._path):
            need_room(self._scratch.path, image.nbytes + LIST_BYTES)
        self._writer.write(image)

    def finish(self) -> Path:
        self._writer.release()
        with writing(self._path), self._scratch:
            # It has no list at its end where a disk refused it otherwise than by being full.
            if not _is_video(self._fresh):
                raise OSError("OpenCV could not write all of the video")
            put(self._fresh, self._path)
        return self._path

    def discard(self) -> None:
        self._writer.release()
        self._scratch.close()


def _is_video(path: Path) -> bool:
    capture = cv2.VideoCapture(str(path))
    try:
        return capture.isOpened()
    finally:
        capture.release()


def write_png(path: Path, image: npt.NDArray[Any]) -> None:
    """An image or numbers of pixels, uint8 or uint16, as PNG, whole or not at all.

    Raises InputError where it cannot be written.
    """
    done, data = cv2.imencode(".png", image)
    if not done:
        raise InputError(
            f"'{path}' cannot be written (OpenCV cannot encode it): "
            "pip install opencv-python-headless"
        )
    write_whole(path, data.tobytes())
