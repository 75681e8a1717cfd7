"""Recorded images as a camera: when each is due, and that it arrives."""

import itertools

import cv2
import numpy as np
import pytest

from support import SUPPORT
from tvm_vision.errors import InputError
from tvm_vision_ros.replay import ReplayCamera, Shot, endless, paced, publish, shots


class Time:
    """A clock that only sleeping and working move."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def images(tmp_path):
    for index in range(3):
        cv2.imwrite(str(tmp_path / f"{index}.png"), np.full((8, 12, 3), 40 * index, np.uint8))
    return tmp_path


def test_images_come_when_they_are_due():
    time = Time()
    moments = (0.0, 0.1, 0.5, 0.6)
    stream = paced((Shot(None, m) for m in moments), clock=time.clock, sleep=time.sleep)
    assert [round(time.now - 100.0, 6) for _ in stream] == list(moments)


def test_a_late_image_comes_at_once_and_the_next_on_time():
    time, seen = Time(), []
    for _ in paced([Shot(None, m / 10) for m in range(5)], clock=time.clock, sleep=time.sleep):
        seen.append(round(time.now - 100.0, 6))
        if len(seen) == 2:
            time.now += 0.15
    assert seen == [0.0, 0.1, 0.25, 0.3, 0.4]


def test_rounds_follow_each_other_at_the_same_pace():
    stream = endless(lambda: iter([Shot(None, 0.0), Shot(None, 0.2)]))
    moments = [round(shot.moment, 6) for shot in itertools.islice(stream, 5)]
    assert moments == [0.0, 0.2, 0.4, 0.6, 0.8]


@pytest.mark.parametrize(("rate", "step"), [(0.0, 0.1), (20.0, 0.05)])
def test_images_of_a_folder(images, rate, step):
    found = list(shots(images, rate=rate))
    assert [shot.moment for shot in found] == pytest.approx([0.0, step, 2 * step])
    assert [int(shot.image[0, 0, 0]) for shot in found] == [0, 40, 80]


def test_a_video_has_its_own_rate(tmp_path):
    path = tmp_path / "film.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25.0, (32, 24))
    for _ in range(4):
        writer.write(np.zeros((24, 32, 3), np.uint8))
    writer.release()
    assert [shot.moment for shot in shots(path)] == pytest.approx([0.0, 0.04, 0.08, 0.12])


def test_a_bag_has_its_own_times(tmp_path):
    pytest.importorskip("rosbags")
    from support.ros.bags import IMAGES, record

    found = list(shots(record(tmp_path / "in")))
    assert len(found) == IMAGES
    assert [shot.moment for shot in found[:3]] == [0.0, 1.0, 2.0]
    assert [shot.moment for shot in shots(tmp_path / "in", rate=10.0)][:2] == [0.0, 0.1]


@pytest.mark.parametrize("name", ["nothing", "text.mcap", "text.png", "empty"])
def test_what_cannot_be_replayed(tmp_path, name):
    if name.startswith("text"):
        (tmp_path / name).write_text("text")
    elif name == "empty":
        (tmp_path / name).mkdir()
    with pytest.raises(InputError):
        list(shots(tmp_path / name))


def test_without_ros_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rclpy", None)
    with pytest.raises(InputError, match="publishing needs ROS 2.*make ros"):
        publish([], ReplayCamera())


def test_every_image_arrives(graph, images, start):

    from sensor_msgs.msg import Image

    arguments = ("replay", str(images), "--rate", "50", "--loop", "--limit", "7", "--wait")
    process = start(
        program=SUPPORT / "ros" / "command_program.py",
        command=(*arguments, "--topic", "/eye", "--frame-id", "left"),
    )
    with graph.listen(Image, "/eye") as inbox:
        found = [inbox.next() for _ in range(7)]
    assert [message.data[0] for message in found] == [0, 40, 80, 0, 40, 80, 0]
    assert {(m.encoding, m.header.frame_id, m.width) for m in found} == {("bgr8", "left", 12)}
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in found]
    assert stamps == sorted(stamps)
    process.wait_for("published 7 images on /eye")
    assert process.popen.wait(20) == 0


def test_it_ends_cleanly_when_it_is_told_to(graph, images, start):

    from sensor_msgs.msg import Image

    process = start(
        program=SUPPORT / "ros" / "command_program.py",
        command=("replay", str(images), "--loop", "--topic", "/eye"),
    )
    with graph.listen(Image, "/eye") as inbox:
        inbox.next()
        assert process.end() == 0, process.log
    process.wait_for("images on /eye")
    assert "Aborted" not in process.log
