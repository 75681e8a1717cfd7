"""A camera of the node's own: opened again when it is back, a video over and over."""

import threading
import time
from typing import Any

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision_ros import camera_source
from tvm_vision_ros.camera_source import CameraThread, Format, Source, source_of
from tvm_vision_ros.images import any_image

IMAGE = np.full((4, 6, 3), 7, np.uint8)


class Capture:
    """As OpenCV's, of ``images`` images; writes down what it is asked for, in order."""

    def __init__(self, events, images=0, rate=0.0, opened=True):
        self.events, self.left, self.rate, self.opened = events, images, rate, opened

    def isOpened(self):
        return self.opened

    def get(self, name):
        return self.rate

    def set(self, name, value):
        self.events.append((name, value))

    def grab(self):
        self.left -= 1
        self.events.append("grab")
        return self.left >= 0

    def retrieve(self):
        self.events.append("retrieve")
        return True, IMAGE

    def release(self):
        self.events.append("release")


class Run:
    """A thread over captures, one after the other; the last one stays."""

    def __init__(self, captures, source, wanted):
        self.events: list[Any] = []
        self.enough = threading.Event()
        self.captures = [capture(self.events) for capture in captures]
        self.images = []
        self.thread = CameraThread(source, wanted, self.grabbed, self.deliver, self.open)

    def open(self, what):
        self.events.append(("open", what))
        return self.captures.pop(0) if len(self.captures) > 1 else self.captures[0]

    def grabbed(self):
        self.events.append("stamp")
        return len(self.images)

    def deliver(self, image, stamp):
        self.images.append((image, stamp))
        if len(self.images) == 5:
            self.enough.set()

    def wait_for(self, words):
        end = time.monotonic() + 10
        while words not in self.thread.problem:
            assert time.monotonic() < end, self.thread.problem
            time.sleep(0.001)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(camera_source, "RETRY_SECONDS", 0.01)
    made = []

    def start(*captures, source=None, wanted=None):
        made.append(Run(captures, source or Source(0, "camera 0"), wanted or Format()))
        return made[-1]

    yield start
    for item in made:
        item.thread.stop()


def capture(images=0, rate=0.0, opened=True):
    return lambda events: Capture(events, images, rate, opened)


def test_the_stamp_is_of_the_moment_before_decoding(run):
    camera = run(capture(100000), wanted=Format(640, 480, 30.0))
    assert camera.enough.wait(10)
    assert camera.events[1:5] == [
        (cv2.CAP_PROP_FRAME_WIDTH, 640),
        (cv2.CAP_PROP_FRAME_HEIGHT, 480),
        (cv2.CAP_PROP_FPS, 30.0),
        (cv2.CAP_PROP_BUFFERSIZE, 1),
    ]
    assert camera.events[5:8] == ["grab", "stamp", "retrieve"]
    assert [stamp for _, stamp in camera.images[:5]] == [0, 1, 2, 3, 4]
    camera.thread.stop()
    done = len(camera.images)
    time.sleep(0.01)
    assert len(camera.images) == done
    assert camera.events[-1] == "release"


def test_a_camera_that_is_not_there_and_one_that_is_unplugged(run):
    camera = run(capture(opened=False), capture(2), capture(opened=False))
    camera.wait_for("camera 0 cannot be opened: check that it is there and not in use")
    end = time.monotonic() + 10
    while len(camera.images) < 2:
        assert time.monotonic() < end
        time.sleep(0.001)
    camera.wait_for("cannot be opened")
    camera.captures[:] = [Capture(camera.events, 100000)]
    assert camera.enough.wait(10)
    assert camera.thread.problem == ""


def test_what_gives_nothing_and_what_raises_is_told_and_tried_again(run):
    camera = run(capture(0))
    camera.wait_for("camera 0 gives no image: check the camera")
    broken = run(capture(0))
    broken.captures[0].isOpened = lambda: 1 / 0
    broken.wait_for("camera 0 failed (division by zero)")


def test_a_video_is_shown_at_its_rate_over_and_over(run):
    source = Source("drive.avi", "drive.avi", file=True)
    start = time.monotonic()
    camera = run(capture(3, 100.0), capture(3, 100.0), source=source)
    assert camera.enough.wait(10)
    assert time.monotonic() - start >= 0.03
    assert camera.events.count("release") == 1
    assert camera.thread.problem == ""


def test_a_video_of_opencv_is_read(tmp_path):
    path = tmp_path / "a.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 200.0, (32, 24))
    for value in range(0, 200, 50):
        writer.write(np.full((24, 32, 3), value, np.uint8))
    writer.release()
    images, enough = [], threading.Event()

    def deliver(image, stamp):
        images.append(int(image.mean().round()))
        enough.set() if len(images) == 6 else None

    thread = CameraThread(source_of(str(path)), Format(), time.monotonic, deliver)
    assert enough.wait(10)
    thread.stop()
    assert np.abs(np.array(images[:6]) - [0, 50, 100, 150, 0, 50]).max() <= 3


@pytest.mark.parametrize(
    ("text", "opens", "shown"),
    [
        ("0", 0, "camera 0"),
        ("/dev/video7", "/dev/video7", "/dev/video7"),
        ("rtsp://me:secret@eye/1", "rtsp://me:secret@eye/1", "rtsp://me@eye/1"),
    ],
)
def test_what_a_camera_may_be(text, opens, shown):
    assert source_of(text) == Source(opens, shown)


@pytest.mark.parametrize("text", ["webcam", "/nowhere/a.mp4", "ftp://me:secret@eye/1", "-1"])
def test_what_is_no_camera(text):
    with pytest.raises(InputError, match="camera must be") as refused:
        source_of(text)
    assert "secret" not in str(refused.value)


def test_the_limit_of_pixels_holds_for_it_too():
    class Own:
        pixels = IMAGE

    assert any_image(Own) is IMAGE
    with pytest.raises(InputError, match="at most 23 pixels"):
        any_image(Own, 23)
