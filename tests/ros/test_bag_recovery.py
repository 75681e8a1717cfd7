"""Bags that a power cut ended: what is whole is read, in its order, and the rest is told."""

import contextlib
import shutil
import sqlite3

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: pip install rosbags")

from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from support.ros import fakes
from support.ros.bags import IMAGES, STORE, image_message, make, record
from tvm_vision.errors import InputError
from tvm_vision_ros.bag import process_bag
from tvm_vision_ros.bag_reading import reading
from tvm_vision_ros.replay import is_bag, shots

MESSAGES = 24
# The last one in a chunk that 5000 zeros fill.
CUTS = [*np.linspace(0.02, 0.99, 9), 0.998]


def recorded(path, plugin=StoragePlugin.MCAP, compressed=False):
    """Messages of 150 kB, so that there are several chunks, with small ones between them."""
    random = np.random.default_rng(0)
    writer = Writer(path, version=9, storage_plugin=plugin)
    if compressed:
        writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        camera = writer.add_connection("/image", "sensor_msgs/msg/CompressedImage", typestore=STORE)
        words = writer.add_connection("/words", "std_msgs/msg/String", typestore=STORE)
        for index in range(MESSAGES // 2):
            stamp = make("builtin_interfaces/msg/Time", sec=index, nanosec=0)
            message = make(
                "sensor_msgs/msg/CompressedImage",
                header=make("std_msgs/msg/Header", stamp=stamp, frame_id=""),
                format="jpeg",
                data=random.integers(0, 256, 150_000, np.uint8),
            )
            text = make("std_msgs/msg/String", data=f"word {index}")
            writer.write(camera, 10 * index, bytes(STORE.serialize_cdr(message, camera.msgtype)))
            writer.write(words, 10 * index + 1, bytes(STORE.serialize_cdr(text, words.msgtype)))
    return next(path.glob(f"*{'.mcap' if plugin == StoragePlugin.MCAP else '.db3'}"))


def contents(source):
    """Topic, time and bytes of all that is read, and the lines on what is lost."""
    try:
        with reading(source) as bag:
            found = [(c.topic, t, bytes(data)) for c, t, data in bag.messages(bag.connections)]
            counted = sum(item.msgcount for item in bag.connections)
            lost = bag.lost
    except InputError as error:
        assert "is not a bag that can be read" in str(error)
        return [], ["all"]
    assert counted == len(found)
    return found, lost


@pytest.fixture(scope="module", params=["mcap", "zstd", "db3"])
def whole(request, tmp_path_factory):
    plugin = StoragePlugin.SQLITE3 if request.param == "db3" else StoragePlugin.MCAP
    folder = tmp_path_factory.mktemp("bags") / "in"
    return recorded(folder, plugin, request.param == "zstd")


@pytest.mark.parametrize("rubbish", ["", "zeros", "noise"])
def test_cut_anywhere_the_front_is_read_and_the_loss_is_told(whole, tmp_path, rubbish):
    data, (all_of_it, none_lost) = whole.read_bytes(), contents(whole)
    assert (len(all_of_it), none_lost) == (MESSAGES, [])
    source, counts = tmp_path / whole.name, []
    for part in CUTS:
        end = int(part * len(data))
        # Space that was given to the file, and never written.
        behind = {"": b"", "zeros": bytes(5000), "noise": np.random.default_rng(1).bytes(5000)}
        source.write_bytes(data[:end] + behind[rubbish])
        found, lost = contents(source)
        # There are no checksums: the last message may be made of what stands behind the cut.
        sure = len(found) - bool(rubbish)
        assert found[:sure] == all_of_it[: max(sure, 0)]
        # Of a file without its index only, nothing is lost.
        assert lost or len(found) == MESSAGES
        counts.append(len(found))
    assert counts == sorted(counts)
    # A compressed chunk has fourteen messages; the first page of SQLite's table is moved once.
    missing = {"zstd": 15, ".mcap": 3, ".db3": 4}["zstd" if b"zstd" in data else whole.suffix]
    assert all(n >= part * MESSAGES - missing for n, part in zip(counts, CUTS, strict=True))


def test_a_large_table_is_read_in_full_though_its_root_is_lost(tmp_path):
    with Writer(tmp_path / "in", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        words = writer.add_connection("/words", "std_msgs/msg/String", typestore=STORE)
        text = bytes(
            STORE.serialize_cdr(make("std_msgs/msg/String", data="x" * 1000), words.msgtype)
        )
        for time in range(3000):
            writer.write(words, time, text)
    path = tmp_path / "in" / "in.db3"
    data = path.read_bytes()
    for part in (0.1, 0.5, 0.97):
        path.write_bytes(data[: int(part * len(data))])
        found, lost = contents(path)
        assert [time for _, time, _ in found] == list(range(len(found)))
        assert len(found) == pytest.approx(part * 3000, abs=40)
        assert lost == [f"'in.db3' is damaged, as by a power cut: {len(found)} messages are read, "
                        "the others are lost"]  # fmt: skip


def test_a_recorder_that_was_killed_left_a_folder_without_metadata(tmp_path):
    folder = record(tmp_path / "in")
    (folder / "metadata.yaml").unlink()
    path = folder / "in.mcap"
    cut = path.read_bytes()[: path.stat().st_size // 2]
    # Of several files by number, the last one was being written.
    path.rename(folder / "in_9.mcap")
    (folder / "in_10.mcap").write_bytes(cut)
    (folder / "in_11.mcap").write_bytes(b"")
    assert is_bag(folder)
    lines: list[str] = []
    summary = process_bag(folder, tmp_path / "out.mcap", fakes.FakeModel())
    assert IMAGES < summary.images < 2 * IMAGES
    assert len(list(shots(folder, tell=lines.append))) == summary.images
    assert lines == list(summary.lost)
    assert "'in_10.mcap' was cut off, as by a power cut:" in lines[0]
    assert "'in_11.mcap'" in lines[1]


def test_a_log_that_was_never_taken_in_is_read_and_left_alone(tmp_path):
    """SQLite's write-ahead log, as a recorder leaves it that is killed."""
    path = recorded(tmp_path / "in", StoragePlugin.SQLITE3)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO messages VALUES (1000, 2, 9000, x'00010000020000006100')")
    writer.commit()
    killed = tmp_path / "killed"
    shutil.copytree(path.parent, killed)
    writer.close()
    before = {item.name: item.read_bytes() for item in killed.iterdir()}
    found, lost = contents(killed)
    assert (len(found), lost) == (MESSAGES + 1, [])
    assert found[-1][:2] == ("/words", 9000)
    assert {item.name: item.read_bytes() for item in killed.iterdir()} == before


def test_damage_in_the_middle_is_one_line(tmp_path):
    path = recorded(tmp_path / "in", compressed=True)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200_000] = bytes(200_000)
    path.write_bytes(data)
    with (
        reading(path) as bag,
        pytest.raises(InputError, match="is damaged behind its message .*: 'mcap recover'"),
    ):
        list(bag.messages(bag.connections))


def test_a_message_that_is_none_has_no_results(tmp_path):
    with Writer(tmp_path / "in", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        camera = writer.add_connection("/image", "sensor_msgs/msg/Image", typestore=STORE)
        good = bytes(STORE.serialize_cdr(image_message(0), camera.msgtype))
        for time, data in enumerate([good, good[:20], good]):
            writer.write(camera, time, data)
    summary = process_bag(tmp_path / "in", tmp_path / "out.mcap", fakes.FakeModel())
    assert (summary.images, summary.unreadable) == (3, 1)
    assert "image 1: a sensor_msgs/msg/Image is needed, found 20 bytes" in summary.first_problem


@pytest.mark.parametrize("definition", [5, None, "ATTACH DATABASE 'elsewhere' AS other"])
def test_tables_that_are_none_are_refused(tmp_path, monkeypatch, definition):
    monkeypatch.chdir(tmp_path)
    path = recorded(tmp_path / "in", StoragePlugin.SQLITE3)
    with contextlib.closing(sqlite3.connect(path)) as bag:
        bag.execute("PRAGMA writable_schema = ON")
        bag.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'schema'", [definition])
        bag.commit()
    path.write_bytes(path.read_bytes()[:-4096])
    assert contents(path) == ([], ["all"])
    assert not (tmp_path / "elsewhere").exists()
