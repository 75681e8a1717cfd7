"""A camera that the node opens itself: what it is, and its images as they come. Without ROS."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tvm_vision.errors import InputError
from tvm_vision.runtime.sources import SCHEMES, open_capture, silent_opencv, without_password

from .images import Image

# Between two attempts to open a camera that is not there.
RETRY_SECONDS = 1.0
# A camera that was unplugged gives nothing so often, each time at once or after its time limit.
EMPTY_READS = 20
# Of a video that does not say.
DEFAULT_RATE = 30.0


@dataclass(frozen=True)
class Source:
    """What OpenCV opens. shown: for people, without a password. file: it is no camera, has an end,
    and images come as fast as they are read."""

    opens: str | int
    shown: str
    file: bool = False


def source_of(text: str) -> Source:
    """The number or device file of a camera, a video file, or the address of a stream.

    Raises InputError for anything else.
    """
    path = Path(text)
    if text.isdecimal():
        return Source(int(text), f"camera {text}")
    if "://" in text:
        shown = without_password(text)
        if text.partition("://")[0] not in SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise InputError(f"camera must be an address with {known}, found '{shown}'")
        return Source(text, shown)
    if path.is_file():
        return Source(text, path.name, file=True)
    # One that is not there may be plugged in later.
    if text.startswith("/dev/"):
        return Source(text, text)
    raise InputError(
        f"camera must be a number, a device as /dev/video0, a video or an address, found '{text}', "
        "which is none that is there: check the path"
    )


@dataclass(frozen=True)
class Format:
    """What the camera is asked for, in pixels and Hz; 0: as it is."""

    width: int = 0
    height: int = 0
    rate: float = 0.0


class CameraThread:
    """Opens a source again and again until it is told to stop, and hands on each of its images."""

    def __init__(
        self,
        source: Source,
        wanted: Format,
        grabbed: Callable[[], Any],
        deliver: Callable[[Image, Any], object],
        open_source: Callable[[str | int], Any] = open_capture,
    ) -> None:
        """grabbed: called when an image was taken, before it is decoded; deliver gets what it
        returned. Both are called in the thread, and not after ``stop``. open_source: as OpenCV's.
        """
        self._source, self._wanted = source, wanted
        self._grabbed, self._deliver = grabbed, deliver
        self._open = open_source
        self._stop = threading.Event()
        # Why no image comes, with what to do; "" while they come.
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 0.5) -> None:
        """Hand on no more images. Waits for so many seconds: a stream may need longer to end."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._play()
            except Exception as error:
                self.problem = f"{self._source.shown} failed ({error}): check the camera"
            if not (self._source.file and not self.problem):
                self._stop.wait(RETRY_SECONDS)

    def _play(self) -> None:
        """Until there is no more, or it is to stop."""
        with silent_opencv():
            capture = self._open(self._source.opens)
        try:
            if not capture.isOpened():
                self.problem = (
                    f"{self._source.shown} cannot be opened: check that it is there and not in "
                    "use, and with tvm-vision doctor that this user may open it"
                )
                return
            rate = _ask(capture, self._wanted, self._source.file)
            if not self._read(capture, rate):
                self.problem = f"{self._source.shown} gives no image: check the camera"
        finally:
            capture.release()

    def _read(self, capture: Any, rate: float) -> int:
        """Hand on images; returns how many there were. rate: of a video, 0.0 of a camera."""
        count, empty, start = 0, 0, monotonic()
        while empty < (1 if self._source.file else EMPTY_READS):
            if rate and self._stop.wait(max(0.0, start + count / rate - monotonic())):
                return count
            taken = capture.grab()
            stamp = self._grabbed() if taken else None
            read, image = capture.retrieve() if taken else (False, None)
            if self._stop.is_set():
                return max(count, 1)
            if image is None or not read:
                empty += 1
                continue
            self.problem = ""
            self._deliver(image, stamp)
            count, empty = count + 1, 0
        return count


def _ask(capture: Any, wanted: Format, file: bool) -> float:
    """Tell the camera what is wanted; returns the rate at which a video is to be shown."""
    import cv2

    if file:
        rate = wanted.rate or float(capture.get(cv2.CAP_PROP_FPS))
        return rate if 0.1 <= rate <= 1000.0 else DEFAULT_RATE
    for name, value in (
        (cv2.CAP_PROP_FRAME_WIDTH, wanted.width),
        (cv2.CAP_PROP_FRAME_HEIGHT, wanted.height),
        (cv2.CAP_PROP_FPS, wanted.rate),
        # The newest image, not one that waited: where the driver can.
        (cv2.CAP_PROP_BUFFERSIZE, 1),
    ):
        if value:
            capture.set(name, value)
    return 0.0
