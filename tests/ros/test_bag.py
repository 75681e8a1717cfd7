"""A network over recorded bags, without ROS: nothing lost, reordered, or done twice."""

from pathlib import Path

import numpy as np
import pytest

from support.ros import fakes
from tvm_vision.errors import DeviceError, InputError
from tvm_vision_ros.bag import process_bag
from tvm_vision_ros.journal import Journal

rosbags = pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")

from rosbags.highlevel import AnyReader  # noqa: E402
from rosbags.rosbag2 import StoragePlugin  # noqa: E402

from support.ros.bags import IMAGES, STORE, record  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return record(tmp_path_factory.mktemp("bags") / "in")


@pytest.fixture
def bag(folder):
    return folder / "in.mcap"


def contents(path):
    """(topic, time, message) of everything, in order."""
    with AnyReader([path], default_typestore=STORE) as reader:
        return [
            (item.topic, time, reader.deserialize(data, item.msgtype))
            for item, time, data in reader.messages()
        ]


def raw(path, topics):
    with AnyReader([path], default_typestore=STORE) as reader:
        return [
            (item.topic, time, bytes(data))
            for item, time, data in reader.messages()
            if item.topic in topics
        ]


def stamps(messages, topic):
    return [
        (m.header.stamp.sec, m.header.stamp.nanosec) for name, _, m in messages if name == topic
    ]


ALL = [(100 + index, 7 * index) for index in range(IMAGES)]


@pytest.mark.parametrize("target", ["out.mcap", "out"])
def test_every_image_has_its_results_and_nothing_else_changes(bag, tmp_path, target):
    summary = process_bag(bag, tmp_path / target, fakes.FakeModel())
    assert (summary.images, summary.resumed, summary.unreadable) == (IMAGES, 0, 0)
    written = contents(tmp_path / target)
    assert summary.messages == len(written) == IMAGES * 4 + 3
    assert stamps(written, "/detections") == stamps(written, "/segmentation") == ALL
    times = {topic: [t for name, t, _ in written if name == topic] for topic, _, _ in written}
    assert times["/detections"] == times["/image"]
    own = ("/image", "/words")
    assert raw(tmp_path / target, own) == raw(bag, own)
    for index, (_, _, message) in enumerate(m for m in written if m[0] == "/detections"):
        (ball,) = message.detections
        assert ball.results[0].hypothesis.class_id == "ball"
        assert ball.bbox.center.position.x == index + 2.0
        assert message.header.frame_id == "eye"
    (labels,) = (m for name, _, m in written if name == "/label_info")
    assert [item.class_name for item in labels.class_map] == list(fakes.PIXELS)
    assert [entry.name for entry in tmp_path.iterdir()] == [target]


def test_a_folder_a_file_and_sqlite_are_read(folder, tmp_path):
    sqlite = record(tmp_path / "sqlite", StoragePlugin.SQLITE3)
    outputs = []
    for index, source in enumerate([folder, folder / "in.mcap", sqlite]):
        process_bag(source, tmp_path / f"{index}.mcap", fakes.FakeModel())
        outputs.append(raw(tmp_path / f"{index}.mcap", ("/image", "/words", "/detections")))
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("namespace", ["a b", "1", "a//b", "a/ü", "{ns}", "a" * 240])
def test_a_namespace_that_ros_could_not_play_is_refused(bag, tmp_path, namespace):
    target = tmp_path / "out.mcap"
    with pytest.raises(InputError, match="--namespace must be one of ROS"):
        process_bag(bag, target, fakes.FakeModel(), namespace=namespace)
    assert not target.exists()


def test_results_only_and_a_namespace(bag, tmp_path):
    target = tmp_path / "out.mcap"
    process_bag(bag, target, fakes.FakeModel(), results_only=True, namespace="/robot/")
    assert {topic for topic, _, _ in contents(target)} == {
        "/robot/detections",
        "/robot/segmentation",
        "/robot/label_info",
        "/robot/detections/label_info",
        "/robot/detections/class_options",
    }


def ids_in(path):
    return [[d.id for d in m.detections] for name, _, m in contents(path) if name == "/detections"]


def test_ids_are_the_same_where_a_run_was_cut_off(bag, tmp_path):
    process_bag(bag, tmp_path / "whole.mcap", fakes.FakeModel(), tracking=30.0)
    ids = ids_in(tmp_path / "whole.mcap")
    assert len(ids) == IMAGES and {name for found in ids for name in found} == {"1"}
    with pytest.raises(DeviceError):
        process_bag(bag, tmp_path / "cut.mcap", Failing(5), tracking=30.0)
    assert process_bag(bag, tmp_path / "cut.mcap", fakes.FakeModel(), tracking=30.0).resumed == 5
    assert ids_in(tmp_path / "cut.mcap") == ids
    process_bag(bag, tmp_path / "none.mcap", fakes.FakeModel())
    assert {name for found in ids_in(tmp_path / "none.mcap") for name in found} == {""}
    with pytest.raises(InputError, match="tracking needs a network that finds boxes, not fake"):
        process_bag(bag, tmp_path / "x.mcap", fakes.FakeClassifier(), tracking=30.0)


def test_a_classifier(bag, tmp_path):
    process_bag(bag, tmp_path / "out.mcap", fakes.FakeClassifier(), results_only=True)
    written = contents(tmp_path / "out.mcap")
    assert stamps(written, "/classification") == ALL
    first = next(m for name, _, m in written if name == "/classification")
    assert [(r.class_id, r.score) for r in first.results] == [("dog", 0.75), ("cat", 0.25)]


def test_masks_of_objects_and_depth(bag, tmp_path):
    process_bag(bag, tmp_path / "out.mcap", fakes.FakeSeer(), results_only=True)
    written = contents(tmp_path / "out.mcap")
    assert stamps(written, "/instances") == stamps(written, "/depth") == ALL
    assert {topic for topic, _, _ in written} == {
        "/detections", "/detections/label_info", "/detections/class_options", "/instances",
        "/depth",
    }  # fmt: skip
    image = next(m for name, _, m in written if name == "/depth")
    assert image.encoding == "32FC1" and image.step == 4 * image.width
    values = image.data.view(np.float32).reshape(image.height, image.width)
    assert np.array_equal(values[0], np.arange(image.width))


class Failing(fakes.FakeModel):
    """Its device is lost at an image."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def __call__(self, image):
        if self.frames == self.at:
            raise DeviceError("lost")
        return super().__call__(image)


def test_a_run_that_was_cut_off_goes_on(bag, tmp_path):
    target = tmp_path / "out.mcap"
    with pytest.raises(DeviceError):
        process_bag(bag, target, Failing(5))
    assert not target.exists()
    second = Failing(4)
    with pytest.raises(DeviceError):
        process_bag(bag, target, second)
    model, seen = fakes.FakeModel(), []
    summary = process_bag(
        bag, target, model, progress=lambda done, total: seen.append((done, total))
    )
    assert summary.resumed == 9
    assert model.frames == IMAGES - 9
    assert seen == [(done, IMAGES) for done in range(9, IMAGES + 1)]
    process_bag(bag, tmp_path / "whole.mcap", fakes.FakeModel())
    topics = ("/image", "/words", "/detections", "/segmentation", "/label_info")
    assert raw(target, topics) == raw(tmp_path / "whole.mcap", topics)


def test_a_journal_that_ends_anywhere_is_gone_on_with(tmp_path):
    path = tmp_path / "journal"
    with Journal(path, {"of": "x"}) as journal:
        for index in range(3):
            journal.append(index, [(0, bytes(10 * index)), (1, b"mask")])
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        try:
            with Journal(path, {"of": "x"}) as journal:
                done = journal.images
                for index in range(done, 3):
                    journal.append(index, [(0, bytes(10 * index)), (1, b"mask")])
        except InputError:
            # Not even its first line was written.
            assert b"\n" not in whole[:length]
            continue
        assert path.read_bytes() == whole
        assert [len(group) for group in journal.groups()] == [2, 2, 2]


def test_what_an_earlier_run_left_of_something_else_is_not_mixed_in(bag, tmp_path):
    target = tmp_path / "out.mcap"
    with pytest.raises(DeviceError):
        process_bag(bag, target, Failing(5))
    other = fakes.FakeModel("other")
    with pytest.raises(InputError, match="of another bag, network or choice of options"):
        process_bag(bag, target, other)
    assert process_bag(bag, target, other, restart=True).resumed == 0


def test_two_runs_to_one_bag_do_not_share_their_results(bag, tmp_path):
    target = tmp_path / "out.mcap"
    path = tmp_path / "out.mcap.progress"
    with Journal(path, {"of": "x"}) as journal:
        journal.append(1, [(0, b"mine")])
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"another process writes '.*\.progress'"):
            process_bag(bag, target, fakes.FakeModel())
        assert path.read_bytes() == before and not target.exists()


def test_images_that_cannot_be_read_are_counted_and_kept(tmp_path):
    source = record(tmp_path / "in", bad=(0, 5))
    summary = process_bag(source, tmp_path / "out.mcap", fakes.FakeModel())
    assert (summary.images, summary.unreadable) == (IMAGES, 2)
    assert summary.first_problem.startswith("image 0: an image in one of")
    written = contents(tmp_path / "out.mcap")
    assert stamps(written, "/image") == ALL
    assert stamps(written, "/detections") == [s for i, s in enumerate(ALL) if i not in (0, 5)]


def test_several_cameras(tmp_path):
    source = record(tmp_path / "in", images=("/left", "/right"))
    with pytest.raises(InputError, match="the bag has: /left, /right; use --topic"):
        process_bag(source, tmp_path / "out.mcap", fakes.FakeModel())
    with pytest.raises(InputError, match="images on the topic /up are needed, the bag has: /left"):
        process_bag(source, tmp_path / "out.mcap", fakes.FakeModel(), topic="/up")
    process_bag(source, tmp_path / "out.mcap", fakes.FakeModel(), topic="/right")
    assert stamps(contents(tmp_path / "out.mcap"), "/detections") == ALL


def test_results_on_top_of_results_need_a_namespace(bag, tmp_path):
    process_bag(bag, tmp_path / "one.mcap", fakes.FakeModel())
    again = (tmp_path / "one.mcap", tmp_path / "two.mcap", fakes.FakeModel())
    with pytest.raises(InputError, match="the bag has /detections, .*--namespace"):
        process_bag(*again, topic="/image")
    process_bag(*again, topic="/image", namespace="second")
    assert stamps(contents(tmp_path / "two.mcap"), "/second/detections") == ALL
    assert stamps(contents(tmp_path / "two.mcap"), "/detections") == ALL


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "is not there"), (b"", "is empty"), (b"\x89MCAP0\r\nrubbish", "is not a bag")],
)
def test_what_is_no_bag(tmp_path, content, words):
    source = tmp_path / "in.mcap"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(InputError, match=words):
        process_bag(source, tmp_path / "out.mcap", fakes.FakeModel())


def test_a_folder_without_a_bag(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match=r"the folder '.*photos' has no \.db3 or \.mcap file"):
        process_bag(tmp_path / "photos", tmp_path / "out.mcap", fakes.FakeModel())


def test_a_bag_of_which_nothing_is_left(bag, tmp_path):
    source = tmp_path / "in.mcap"
    source.write_bytes(bag.read_bytes()[:100])
    with pytest.raises(InputError, match="is not a bag"):
        process_bag(source, tmp_path / "out.mcap", fakes.FakeModel())


def test_an_output_that_exists_is_not_overwritten(bag, tmp_path):
    target = tmp_path / "out.mcap"
    target.write_bytes(b"precious")
    with pytest.raises(InputError, match="exists: remove it"):
        process_bag(bag, target, fakes.FakeModel())
    assert target.read_bytes() == b"precious"


def test_killed_after_the_bag_was_written_it_ends_with_the_next_run(bag, tmp_path, monkeypatch):
    """Between its bag and the end of its journal: the same command, not a complaint."""
    target, model = tmp_path / "out.mcap", fakes.FakeModel()
    unlink = Path.unlink

    def killed(path, *more, **named):
        if path.name.endswith(".progress"):
            raise KeyboardInterrupt
        unlink(path, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            process_bag(bag, target, model)
    first = target.read_bytes()
    assert process_bag(bag, target, model).resumed == IMAGES
    assert target.read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mcap"]
    with pytest.raises(InputError, match="exists: remove it"):
        process_bag(bag, target, model)
    # A journal of work that is not done says nothing of a bag that is there.
    with Journal(tmp_path / "out.mcap.progress", {}):
        pass
    with pytest.raises(InputError):
        process_bag(bag, target, model)
    assert target.read_bytes() == first
