"""Frames from images, folders and videos; what cannot be read is one clear error."""

import os
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.runtime import sources
from tvm_vision.runtime.sources import frames, read_image, silent_opencv


def write_image(path, value=0, size=(6, 8)):
    cv2.imwrite(str(path), np.full((*size, 3), value, np.uint8))
    return path


def video(path, count, size=(48, 64)):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, size[::-1])
    assert writer.isOpened()
    for index in range(count):
        writer.write(np.full((*size, 3), 20 * index, np.uint8))
    writer.release()
    return path


def names(*given):
    return [frame.name for frame in frames(given)]


def test_images_keep_their_order_and_values(tmp_path):
    paths = [write_image(tmp_path / "b.png", 7), write_image(tmp_path / "a.bmp", 9)]
    first, second = frames(paths)
    assert (first.name, second.name) == ("b.png", "a.bmp")
    assert first.image.shape == (6, 8, 3)
    assert first.image.dtype == np.uint8
    assert (first.image.max(), second.image.min()) == (7, 9)


def test_a_folder_by_name_without_what_is_no_image(tmp_path):
    for name in ("c.png", "a.jpg", "b.JPEG", ".hidden.png"):
        write_image(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    assert names(tmp_path) == ["a.jpg", "b.JPEG", "c.png"]


def test_a_video_frame_by_frame(tmp_path):
    path = video(tmp_path / "drive.avi", 3)
    images = list(frames([str(path)]))
    assert [frame.name for frame in images] == ["drive.avi#0", "drive.avi#1", "drive.avi#2"]
    means = [frame.image.mean() for frame in images]
    np.testing.assert_allclose(means, [0, 20, 40], atol=3)


def test_frames_are_read_when_they_are_asked_for(tmp_path):
    stream = frames([write_image(tmp_path / "a.png"), tmp_path / "none.png"])
    assert next(stream).name == "a.png"
    with pytest.raises(InputError, match=r"'.*none\.png' is none: check the path"):
        next(stream)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("broken.png", b"", "not an image that OpenCV can read: it is empty: copy it again"),
        ("broken.jpg", b"\xff\xd8\xff\xe0 broken", "can read: it begins as one, and is damaged"),
        ("broken.jpg", b"\0\1\2", "is not an image that OpenCV can read: use PNG or JPEG"),
        ("broken.mp4", b"no video", "is neither an image nor a video"),
        ("broken.xyz", b"\0\1\2", "is neither an image nor a video"),
        ("list.txt", b"a.png\nb.png\n", r"is text: give the names in it themselves, as \$\(cat "),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(frames([path]))


@pytest.mark.parametrize("pattern", ["", "/*"])
def test_of_a_folder_the_files_that_can_be_read(tmp_path, pattern):
    """A robot whose power goes leaves half an image; the thousand others are whole."""
    write_image(tmp_path / "a.png")
    write_image(tmp_path / "c.png")
    (tmp_path / "b.png").write_bytes(b"")
    (tmp_path / "d.jpg").write_bytes(b"\xff\xd8\xff\xe0 broken")
    lines: list[str] = []
    seen = [frame.name for frame in frames([f"{tmp_path}{pattern}"], lines.append)]
    assert seen == ["a.png", "c.png"]
    assert [line.split("'")[1] for line in lines] == [f"{tmp_path}/b.png", f"{tmp_path}/d.jpg"]
    with pytest.raises(InputError, match=r"b\.png"):
        names(f"{tmp_path}{pattern}")
    with pytest.raises(InputError, match=r"b\.png"):  # named by itself
        list(frames([tmp_path / "b.png"], lines.append))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.tiff", "a.bmp"])
def test_opencv_writes_no_lines_of_its_own_about_half_an_image(tmp_path, capfd, name):
    cv2.imwrite(
        str(tmp_path / name), np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    )
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is not an image that OpenCV can read"):
        read_image(tmp_path / name)
    assert capfd.readouterr() == ("", "")


def test_an_image_that_claims_to_be_huge(tmp_path):
    import struct
    import zlib

    head = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk
    path = tmp_path / "huge.png"
    path.write_bytes(data + struct.pack(">I", zlib.crc32(chunk)))
    with pytest.raises(InputError, match="is not an image that OpenCV can read"):
        read_image(path)


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("a.heic", b"\0\0\0\x18ftypheic"),
        ("a.avif", b"\0\0\0\x1cftypavif"),
        ("a.jxl", b"\xff\n"),
        ("a.gif", b"GIF89a"),
        ("a.jp2", b"\0\0\0\x0cjP  "),
    ],
)
def test_an_image_of_a_rare_form_in_a_folder_is_named(name, begin, tmp_path):
    (tmp_path / name).write_bytes(begin + bytes(50))
    cv2.imwrite(str(tmp_path / "b.pgm"), np.zeros((4, 6), np.uint8))
    lines: list[str] = []
    assert [frame.name for frame in frames([tmp_path], lines.append)] == ["b.pgm"]
    assert len(lines) == 1 and name in lines[0] and "PNG" in lines[0]


@pytest.mark.parametrize("ending", [".gif", ".avif", ".jp2"])
def test_images_of_rare_forms_are_read_where_opencv_reads_them(ending, tmp_path):
    try:
        cv2.imwrite(str(tmp_path / f"a{ending}"), np.full((64, 64, 3), 90, np.uint8))
    except cv2.error:
        pytest.skip(f"this OpenCV writes no {ending}")
    (read,) = frames([tmp_path])
    assert read.image.shape == (64, 64, 3) and abs(int(read.image.mean()) - 90) < 8


def test_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match=r"a folder with images \(\.avif, .*\) is needed"):
        list(frames([tmp_path]))


class Camera:
    """Stands for cv2.VideoCapture: ``images`` in turn, None where it is not ready."""

    images: tuple = ()

    def __init__(self, source):
        assert source == 3
        self.left = list(self.images)
        self.released = False

    def get(self, what):
        return float("nan")

    def isOpened(self):
        return True

    def read(self):
        image = self.left.pop(0) if self.left else None
        return image is not None, image

    def release(self):
        self.released = True


def test_a_camera_may_miss_an_image_but_not_stay_silent(monkeypatch):
    image = np.zeros((2, 2, 3), np.uint8)
    monkeypatch.setattr(Camera, "images", (image, None, image))
    monkeypatch.setattr(sources.cv2, "VideoCapture", Camera)
    stream = frames(["3"])
    assert [next(stream).name, next(stream).name] == ["camera 3#0", "camera 3#1"]
    with pytest.raises(InputError, match="camera 3 is /dev/video3, which is not there"):
        next(stream)


def test_a_camera_that_is_not_there():
    with pytest.raises(InputError, match="camera 97 is /dev/video97, which is not there"):
        list(frames(["97"]))


@pytest.mark.parametrize("pattern", ["*.png", "**/*.png", "?.png", "[ab].png"])
def test_a_pattern_that_the_shell_has_left(tmp_path, pattern):
    for name in ("b.png", "a.png"):
        write_image(tmp_path / name)
    (tmp_path / "folder.png").mkdir()
    assert names(f"{tmp_path}/{pattern}") == ["a.png", "b.png"]


def test_a_name_with_signs_of_a_pattern_is_a_file(tmp_path):
    write_image(tmp_path / "a[1].png")
    assert names(str(tmp_path / "a[1].png")) == ["a[1].png"]


@pytest.fixture
def server(tmp_path):
    """The folder of the test, at http://127.0.0.1:PORT."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=tmp_path)) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def test_a_stream_by_its_address(tmp_path, server):
    video(tmp_path / "drive.avi", 3)
    found = list(frames([f"{server}/drive.avi"]))
    assert [frame.name for frame in found] == [f"{server}/drive.avi#{i}" for i in range(3)]
    assert found[0].stream == f"{server}/drive.avi"


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((), r"camera 0 is \S+/video0, which is not there; no camera is: check that it is plugged"),
        (("video2", "video3"), r"is not there; \S+/video2, \S+/video3 is: check"),
        (("video0",), r"camera 0 gives no image: check .*, as 'fuser \S+/video0' tells"),
    ],
)
def test_a_camera_that_is_not_there_is_told_from_one_that_is_silent(
    monkeypatch, tmp_path, nodes, words
):
    from tvm_vision.runtime import sources

    for node in nodes:
        (tmp_path / node).touch()
    monkeypatch.setattr(sources, "DEVICES", tmp_path)
    with pytest.raises(InputError, match=words):
        list(frames(["0"]))
    if nodes == ("video0",):
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(InputError, match="this user may not open: sudo usermod -aG video"):
            list(frames(["0"]))


class NetworkCamera(BaseHTTPRequestHandler):
    """A network camera, as mjpg-streamer and ESP32-CAM are: JPEGs one after the other in one
    answer. /ends ends after five, /stands sends no more then."""

    over = threading.Event()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        for shade in range(5):
            image = cv2.imencode(".jpg", np.full((48, 64, 3), 40 * shade, np.uint8))[1].tobytes()
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(image)}\r\n\r\n"
            self.wfile.write(head.encode() + image + b"\r\n")
        self.wfile.flush()
        if self.path == "/stands":
            self.over.wait(30)

    def log_message(self, *_):
        pass


def test_a_camera_of_the_network(monkeypatch):
    from tvm_vision.runtime import sources

    with ThreadingHTTPServer(("127.0.0.1", 0), NetworkCamera) as camera:
        thread = threading.Thread(target=camera.serve_forever, args=(0.02,))
        thread.start()
        address = f"http://127.0.0.1:{camera.server_port}"
        try:
            shades = [int(frame.image.mean()) for frame in frames([f"{address}/ends"])]
            assert shades == pytest.approx([0, 40, 80, 120, 160], abs=3)
            monkeypatch.setattr(sources, "PATIENCE_MS", 1000)
            seen: list[object] = []
            with pytest.raises(InputError, match=r"gave \d images and then none within 1 s: check"):
                seen.extend(frames([f"{address}/stands"]))
        finally:
            NetworkCamera.over.set()
            camera.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "rtsp://user:secret@127.0.0.1:9/x",
            "the stream 'rtsp://user@127.0.0.1:9/x' cannot be opened",
        ),
        ("http://127.0.0.1:9/x.mp4", "cannot be opened, or gives no image within 10 s: check the"),
        ("ftp://robot/x", "with rtsp://, .* srt:// is needed, found 'ftp://robot/x'"),
        ("https://www.youtube.com/watch?v=1", "is a page and no stream: save its video first"),
        ("screen", "'screen' is none: a screen is recorded by others, as 'ffmpeg"),
        ("webcam", "'webcam' is none: the first camera is 0"),
        ("", "needed, and '' is none: check the path"),
        ("/nonexistent/*.jpg", "no file fits '/nonexistent/.*': check the pattern"),
        ("/dev/null", "null gives no image: check that it is a camera, and that nothing else uses"),
    ],
)
def test_what_is_no_source_says_what_does_it(source, words, capfd):
    with pytest.raises(InputError, match=words) as caught:
        list(frames([source]))
    assert "secret" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_opencv_4_has_its_log_levels_elsewhere(monkeypatch):
    """The last that there is for numpy 1, which Jazzy's messages need."""
    levels = [3]
    monkeypatch.delattr(cv2.utils, "logging", raising=False)
    monkeypatch.setattr(cv2, "getLogLevel", lambda: levels[-1], raising=False)
    monkeypatch.setattr(cv2, "setLogLevel", levels.append, raising=False)
    with silent_opencv():
        assert levels == [3, 0]
    assert levels == [3, 0, 3]
