"""Where frames come from: images, folders, videos, cameras, addresses of streams, one iterator for
all of them.

A frame is uint8 [height, width, 3] in BGR, as OpenCV gives it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..file_kinds import EMPTY, IMAGE, TEXT, VIDEO, kind_of, need
from ..plain_files import read_plain

Image = npt.NDArray[np.uint8]

# FFmpeg's lines say less than ours. OpenCV reads this when it first uses FFmpeg.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

# What OpenCV reads, in one build or another, and what cameras and telephones write: a file that
# this build cannot read is named, not passed over in silence.
IMAGES = frozenset(
    (".avif", ".bmp", ".dib", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg",
     ".jxl", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)  # fmt: skip
# A camera may need a moment, and gives up after this many empty reads in a row.
EMPTY_READS = 20
# Frames a second; what says more does not know.
MAX_RATE = 1000.0
MOST_IMAGE_BYTES = 1 << 30
# The level at which OpenCV says nothing.
OPENCV_IS_SILENT = 0


@dataclass(frozen=True)
class Frame:
    """One image: ``name`` for people ("cat.jpg", "drive.mp4#12", "camera 0#12").

    stream: name of the video, camera or stream that it is of, "" for an image; without the password
    that an address may have. rate: frames a second of that; 0 where it does not say.
    """

    name: str
    image: Image
    stream: str = ""
    rate: float = 0.0


def frames(
    sources: Iterable[str | Path], passed_over: Callable[[str], object] | None = None
) -> Iterator[Frame]:
    """All frames of each source, one after the other, read as they are asked for.

    A source is an image, a folder of images (by name), a pattern of these ("photos/**/*.jpg"), a
    video file, the address of a stream (rtsp://, http://, ...), or the number or device file of a
    camera, which never ends.

    passed_over: called with a line for each file of a folder or pattern that cannot be read, as one
    that a robot was writing when its power went; the others come. None: it is raised. Raises
    InputError, when it comes to it, for a source that cannot be read.
    """
    for source in sources:
        yield from _frames(source, passed_over)


def _each(
    opened: Iterable[Iterator[Frame]], passed_over: Callable[[str], object] | None
) -> Iterator[Frame]:
    """The frames of the files of a folder or pattern, of those that can be read."""
    for frames_of_one in opened:
        try:
            yield from frames_of_one
        except InputError as error:
            if passed_over is None:
                raise
            passed_over(str(error))


def read_image(path: Path) -> Image:
    """One image. Raises InputError where it is none that OpenCV can read."""
    need(path, "an image", IMAGE, TEXT, EMPTY)
    image = _decode(path)
    if image is None:
        raise _unreadable(path)
    return image


def _frames(
    source: str | Path, passed_over: Callable[[str], object] | None = None
) -> Iterator[Frame]:
    path, text = Path(source), str(source)
    if text.isdecimal() and not path.exists():
        return _video(int(text), f"camera {text}", None)
    if "://" in text:
        return _stream(text)
    # An empty name, of a variable that is not set, would be the folder that one is in.
    if path.is_dir() and text:
        return _each((_image(each) for each in _images_in(path)), passed_over)
    if path.is_char_device():
        return _video(text, path.name, None)
    if not path.is_file():
        if glob.has_magic(text):
            return _each((_file(each) for each in _fitting(text)), passed_over)
        remedy = OTHER_SOURCES.get(text.lower(), "check the path")
        raise InputError(
            "an image, folder, video, pattern ('*.jpg'), camera number or stream's address is "
            f"needed, and '{source}' is none: {remedy}"
        )
    image = _decode(path) if path.suffix.lower() not in VIDEOS else None
    if image is not None:
        return iter([Frame(path.name, image)])
    need(path, "an image or video", IMAGE, VIDEO, TEXT, EMPTY)
    if path.suffix.lower() in IMAGES:
        raise _unreadable(path)
    if kind_of(path) is TEXT and path.suffix.lower() not in VIDEOS:
        raise InputError(
            f"an image or video is needed, and '{path}' is text: give the names in it themselves, "
            f"as $(cat {path}) does"
        )
    none = (
        f"'{path}' is neither an image nor a video that OpenCV can read: copy it again, or convert "
        "it by ffmpeg"
    )
    return _video(str(path), path.name, none)


def _image(path: Path) -> Iterator[Frame]:
    yield Frame(path.name, read_image(path))


def _file(path: str) -> Iterator[Frame]:
    """Of an image or video, which is opened when it is asked for."""
    yield from _frames(path)


def _fitting(pattern: str) -> list[str]:
    """All that a pattern names which the shell left to us, by name."""
    paths = sorted(path for path in glob.glob(pattern, recursive=True) if not Path(path).is_dir())
    if not paths:
        raise InputError(f"files are needed, and no file fits '{pattern}': check the pattern")
    return paths


def _stream(address: str) -> Iterator[Frame]:
    parts = urlsplit(address)
    shown = without_password(address)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InputError(f"an address with {known} is needed, found '{shown}': use one of these")
    if (parts.hostname or "").removeprefix("www.") in PAGES:
        raise InputError(f"'{shown}' is a page and no stream: save its video first, as by yt-dlp")
    return _video(
        address, shown,
        f"the stream '{shown}' cannot be opened, or gives no image within {PATIENCE_MS // 1000} s: "
        "check the address and the network, and try it with ffplay",
    )  # fmt: skip


def without_password(address: str) -> str:
    """An address as it may be shown: a user's password is left out."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()


# Addresses that OpenCV's FFmpeg opens.
SCHEMES = ("rtsp", "rtsps", "rtmp", "http", "https", "udp", "tcp", "rtp", "srt")
PAGES = {"youtube.com", "youtu.be", "vimeo.com", "twitch.tv"}
# What others' commands take, and what does it here.
OTHER_SOURCES = {
    "screen": "a screen is recorded by others, as 'ffmpeg -f x11grab -i :0 screen.mp4'",
    "webcam": "the first camera is 0",
    "camera": "the first camera is 0",
}
# Where Linux has its cameras: video0 is number 0.
DEVICES = Path("/dev")
# Milliseconds for a stream to be opened, and to give the next image.
PATIENCE_MS = 10_000
VIDEOS = frozenset({".avi", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpg", ".webm"})


def _decode(path: Path) -> Image | None:
    # Decoded from memory: cv2.imread answers a broken file with a warning and None.
    try:
        data = np.frombuffer(read_plain(path, MOST_IMAGE_BYTES), np.uint8)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the file") from None
    try:
        with silent_opencv():
            image = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error:
        # An image that claims more pixels than OpenCV accepts.
        return None
    return None if image is None else image.astype(np.uint8, copy=False)


def _unreadable(path: Path) -> InputError:
    """Of a file with an image's name: whether it begins as one of the common kinds decides what
    helps."""
    if kind_of(path) is IMAGE:
        remedy = (
            "it begins as one, and is damaged, cut off, larger than OpenCV takes or of a rare "
            "form: copy it, or save as PNG"
        )
    elif kind_of(path) is EMPTY:
        remedy = "it is empty: copy it again"
    else:
        remedy = "use PNG or JPEG"
    return InputError(f"'{path}' is not an image that OpenCV can read: {remedy}")


def _images_in(folder: Path) -> list[Path]:
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in IMAGES and not path.name.startswith(".")
    )
    if not paths:
        known = ", ".join(sorted(IMAGES))
        raise InputError(f"a folder with images ({known}) is needed, and '{folder}' has none")
    return paths


def _no_camera(source: str | int, name: str) -> InputError:
    """Why a camera gives no image, as far as its device file says."""
    node = DEVICES / f"video{source}" if isinstance(source, int) else Path(source)
    if not node.exists():
        others = ", ".join(sorted(str(path) for path in DEVICES.glob("video*"))) or "no camera"
        return InputError(
            f"{name} is {node}, which is not there; {others} is: check that it is plugged in"
        )
    if not os.access(node, os.R_OK | os.W_OK):
        return InputError(
            f"{name} is {node}, which this user may not open: sudo usermod -aG video $USER, then "
            "log in again"
        )
    return InputError(
        f"{name} gives no image: check that it is a camera, and that nothing else uses it, as "
        f"'fuser {node}' tells"
    )


def _video(source: str | int, name: str, none: str | None) -> Iterator[Frame]:
    """Frames of what OpenCV opens. ``none``: what to say where it has not one; None for a camera,
    which never ends."""
    is_stream = "://" in str(source)
    with silent_opencv():
        capture = open_capture(source)
    try:
        rate = capture.get(cv2.CAP_PROP_FPS) if capture.isOpened() else 0.0
        rate = rate if 0 < rate <= MAX_RATE else 0.0
        count = 0
        empty = 0
        limit = EMPTY_READS if none is None else 1
        while capture.isOpened() and empty < limit:
            asked = time.monotonic()
            read, image = capture.read()
            if not read:
                empty += 1
                waited = 1000 * (time.monotonic() - asked)
                # OpenCV says the same of a stream that ends and of one that stands still.
                if count and is_stream and waited >= PATIENCE_MS:
                    raise InputError(
                        f"the stream '{name}' gave {count} images and then none within "
                        f"{PATIENCE_MS // 1000} s: check the camera and the network, and begin "
                        "again"
                    )
                continue
            yield Frame(f"{name}#{count}", image.astype(np.uint8, copy=False), name, rate)
            count, empty = count + 1, 0
        if none is None:
            raise _no_camera(source, name)
        if count == 0:
            raise InputError(none)
    finally:
        capture.release()


def open_capture(source: str | int) -> cv2.VideoCapture:
    """What OpenCV makes of a file, a camera or an address, which may give no image for PATIENCE_MS;
    whether it is open the result says."""
    if isinstance(source, int) or "://" not in source:
        return cv2.VideoCapture(source)
    open_within = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, PATIENCE_MS]
    read_within = [cv2.CAP_PROP_READ_TIMEOUT_MSEC, PATIENCE_MS]
    return cv2.VideoCapture(source, cv2.CAP_FFMPEG, [*open_within, *read_within])


@contextlib.contextmanager
def silent_opencv() -> Iterator[None]:
    """Without the lines that OpenCV writes itself: what goes wrong is raised."""
    # OpenCV 4, the last that numpy 1 has, keeps them at its top.
    logging: Any = getattr(cv2.utils, "logging", cv2)
    level = logging.getLogLevel()
    logging.setLogLevel(OPENCV_IS_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(level)
