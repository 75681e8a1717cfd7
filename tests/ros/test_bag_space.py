"""Places in space over recorded bags: scenes of known geometry, without ROS."""

from dataclasses import replace

import numpy as np
import pytest

from support.ros import fakes
from tvm_vision.errors import DeviceError, InputError
from tvm_vision_ros.bag import process_bag
from tvm_vision_ros.settings import Settings

rosbags = pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")

from rosbags.highlevel import AnyReader  # noqa: E402
from rosbags.rosbag2 import StoragePlugin  # noqa: E402

from support.ros.bags import STORE  # noqa: E402
from support.ros.space_bags import DIAMETER, IMAGES, SCENE, ball, record_space  # noqa: E402

ANY = Settings(
    ball_diameter=DIAMETER, camera_info_topic="", depth_topic="", locate_frame="odom"
)  # fmt: skip
TOPIC = "/camera/image"


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return record_space(tmp_path_factory.mktemp("bags") / "in")


def located(path):
    """The messages of detections_3d."""
    with AnyReader([path], default_typestore=STORE) as reader:
        return [
            reader.deserialize(data, item.msgtype)
            for item, _, data in reader.messages()
            if item.topic == "/detections_3d"
        ]


def run(bag, target, model=None, topic=TOPIC, **changes):
    settings, more = changes.pop("settings", ANY), changes.pop("tracking", 0.0)
    summary = process_bag(
        bag, target, model or fakes.FakeModel(), topic=topic, results_only=True, tracking=more,
        locate=replace(settings, **changes),
    )  # fmt: skip
    return summary, located(target)


def places_of(messages):
    points = [message.detections[0].bbox.center.position for message in messages]
    return np.array([(p.x, p.y, p.z) for p in points])


ODOM = np.array([ball(index) + np.array([0.1 * index, 0.0, 0.0]) for index in range(IMAGES)])
EYE = np.array([SCENE.in_camera(ball(index)) for index in range(IMAGES)])


@pytest.mark.parametrize(("frame", "expected"), [("odom", ODOM), ("", EYE)])
@pytest.mark.parametrize("by", ["depth", "ground", "diameter"])
def test_each_image_has_its_places(bag, tmp_path, by, frame, expected):
    """By depth that came later, a calibration and a fixed transform that came last."""
    summary, found = run(bag, tmp_path / "out.mcap", locate_by=by, locate_frame=frame)
    assert (summary.images, summary.unlocated, len(found)) == (IMAGES, 0, IMAGES)
    assert {message.header.frame_id for message in found} == {frame or "eye"}
    assert found[0].header.stamp.sec == 50
    far = {"depth": 0.02, "ground": 0.03, "diameter": 0.08}[by]
    assert np.abs(places_of(found) - expected).max() < far


def test_sqlite_and_a_run_that_was_cut_off_give_the_same(bag, tmp_path):
    class Failing(fakes.FakeModel):
        def __call__(self, image):
            if self.frames == 4:
                raise DeviceError("lost")
            return super().__call__(image)

    how = {"locate_by": "depth", "tracking": 30.0}
    _, whole = run(bag, tmp_path / "whole.mcap", **how)
    assert [[d.id for d in message.detections] for message in whole] == [["1"]] * IMAGES
    with pytest.raises(DeviceError):
        run(bag, tmp_path / "cut.mcap", Failing(), **how)
    with pytest.raises(InputError, match="of another bag, network or choice of options"):
        run(bag, tmp_path / "cut.mcap", locate_by="ground", tracking=30.0)
    summary, cut = run(bag, tmp_path / "cut.mcap", **how)
    assert summary.resumed == 4
    sqlite = record_space(tmp_path / "sqlite", plugin=StoragePlugin.SQLITE3)
    _, other = run(sqlite, tmp_path / "other.mcap", **how)
    assert str(whole) == str(cut) == str(other)
    _, none = run(bag, tmp_path / "none.mcap", locate_by="depth")
    assert [[d.id for d in message.detections] for message in none] == [[""]] * IMAGES
    assert np.array_equal(places_of(none), places_of(whole))


@pytest.mark.parametrize(
    ("without", "how", "words"),
    [
        ("/camera/camera_info", {}, "CameraInfo is needed, the bag has: none; use --camera-info"),
        ("", {"camera_info_topic": "/c"}, "the topic /c of .*: /camera/camera_info; use"),
        ("/camera/depth/image", {}, "one topic of .* the bag has: none; use --depth-topic"),
        ("", {"depth_topic": "/d"}, "the topic /d of .*: /camera/depth/image; use --depth-topic"),
    ],
)
def test_what_a_bag_lacks_as_a_whole_ends_it(tmp_path, without, how, words):
    source = record_space(tmp_path / "in", without=(without,))
    with pytest.raises(InputError, match=words):
        run(source, tmp_path / "out.mcap", locate_by="depth", **how)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_images_without_places_are_counted_and_keep_their_results(bag, tmp_path):
    source = record_space(tmp_path / "in", without=("/tf",))
    summary, found = run(source, tmp_path / "out.mcap", locate_by="depth")
    assert (summary.unreadable, summary.unlocated, found) == (0, IMAGES, [])
    assert "a transform from eye to odom is needed" in summary.first_unlocated
    summary, found = run(source, tmp_path / "own.mcap", locate_by="depth", locate_frame="")
    assert (summary.unlocated, len(found)) == (0, IMAGES)
    # A depth image that came much later than its image was of no use to the node either.
    late = record_space(tmp_path / "late", late=900_000_000)
    summary, _ = run(late, tmp_path / "x.mcap", locate_by="depth", locate_frame="")
    assert summary.unlocated > 0
    assert "a depth image within 0.05 s of the image is needed" in summary.first_unlocated


def test_a_network_without_boxes_has_no_places(bag, tmp_path):
    with pytest.raises(InputError, match="places need a network that finds boxes, not fake"):
        run(bag, tmp_path / "out.mcap", fakes.FakeClassifier(), locate_by="depth")
