"""Files that are written: names, contents, and nothing half-written."""

from types import SimpleNamespace

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.runtime.sinks import FrameWriter
from tvm_vision.runtime.sources import Frame, frames, read_image
from tvm_vision.runtime.window import DisplayWindow


def shade(value, size=(48, 64)):
    return np.full((*size, 3), value, np.uint8)


def test_images_become_png_files_of_their_own(tmp_path):
    folder = tmp_path / "a" / "b"
    with FrameWriter(folder) as writer:
        for value, name in ((10, "cat.jpg"), (20, "dog.png"), (30, "cat.jpg")):
            writer.write(Frame(name, shade(0)), shade(value))
    assert [path.name for path in writer.written] == ["cat.png", "dog.png", "cat-2.png"]
    assert [int(read_image(path)[0, 0, 0]) for path in writer.written] == [10, 20, 30]
    assert sorted(path.name for path in folder.iterdir()) == ["cat-2.png", "cat.png", "dog.png"]


def test_videos_become_one_mp4_each(tmp_path):
    with FrameWriter(tmp_path) as writer:
        for index in range(5):
            writer.write(
                Frame(f"drive.avi#{index}", shade(0), "drive.avi", 10.0), shade(40 * index)
            )
        writer.write(Frame("cat.jpg", shade(0)), shade(1))
        for index in range(2):
            frame = Frame(f"camera 0#{index}", shade(0), "camera 0", 0.0)
            writer.write(frame, shade(9, size=(48 + index, 64)))
    assert [path.name for path in writer.written] == ["drive.mp4", "cat.png", "camera 0.mp4"]
    seen = list(frames([tmp_path / "drive.mp4"]))
    assert [frame.rate for frame in seen] == [10.0] * 5
    means = [frame.image.mean() for frame in seen]
    assert means == pytest.approx([0, 40, 80, 120, 160], abs=6)
    assert len(list(frames([tmp_path / "camera 0.mp4"]))) == 2


def test_an_error_leaves_no_half_video(tmp_path):
    with pytest.raises(RuntimeError), FrameWriter(tmp_path) as writer:
        writer.write(Frame("drive.avi#0", shade(0), "drive.avi", 10.0), shade(0))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [] and writer.written == []


def test_ctrl_c_keeps_what_a_camera_has_seen(tmp_path):
    with pytest.raises(KeyboardInterrupt), FrameWriter(tmp_path) as writer:
        for index in range(3):
            writer.write(Frame(f"camera 0#{index}", shade(0), "camera 0", 0.0), shade(0))
        raise KeyboardInterrupt
    assert len(list(frames(writer.written))) == 3


@pytest.mark.parametrize("frames_before", [0, 2])
def test_a_full_disk_leaves_no_half_video(tmp_path, monkeypatch, frames_before):
    # OpenCV writes on without a word, to a file that nothing can read.
    room = [1 << 40] * (1 + frames_before) if frames_before else []
    monkeypatch.setattr(
        "os.statvfs", lambda _: SimpleNamespace(f_frsize=1, f_bavail=room.pop() if room else 4096)
    )
    with (
        pytest.raises(InputError, match=r"drive\.mp4' cannot be written \(No space left"),
        FrameWriter(tmp_path) as writer,
    ):
        for index in range(1 + frames_before):
            writer.write(Frame(f"drive.avi#{index}", shade(0), "drive.avi", 10.0), shade(0))
    assert list(tmp_path.iterdir()) == [] and writer.written == []


def test_a_video_that_opencv_could_not_end_is_none(tmp_path, monkeypatch):
    with (
        pytest.raises(InputError, match=r"drive\.mp4' cannot be written \(OpenCV could not"),
        FrameWriter(tmp_path) as writer,
    ):
        writer.write(Frame("drive.avi#0", shade(0), "drive.avi", 10.0), shade(0))
        monkeypatch.setattr("tvm_vision.runtime.sinks._is_video", lambda path: False)
    assert list(tmp_path.iterdir()) == [] and writer.written == []


def test_folders_that_cannot_be(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(InputError, match="cannot be made"):
        FrameWriter(file / "folder")
    gone = tmp_path / "gone"
    writer = FrameWriter(gone)
    gone.rmdir()
    gone.touch()
    with pytest.raises(InputError, match=r"cat\.png' cannot be written"):
        writer.write(Frame("cat.png", shade(0)), shade(0))
    with pytest.raises(InputError, match=r"drive\.mp4' cannot be written"):
        writer.write(Frame("drive.mp4#0", shade(0), "drive.mp4", 10.0), shade(0))


def test_no_window_without_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(InputError, match="neither DISPLAY nor WAYLAND_DISPLAY is set: write them"):
        DisplayWindow("test")


def test_no_window_with_an_opencv_without_windows(monkeypatch):
    import cv2

    def refuse(*_):
        raise cv2.error("The function is not implemented")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "namedWindow", refuse)
    with pytest.raises(InputError, match="pip install opencv-python instead of"):
        DisplayWindow("test")
