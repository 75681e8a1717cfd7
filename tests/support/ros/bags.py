"""Recorded bags for tests."""

import tempfile
from pathlib import Path

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from tvm_vision_ros.bag import result_types

IMAGES = 12
STORE = result_types()
SECOND = 1_000_000_000


def make(name, **fields):
    return STORE.types[name](**fields)


def image_message(index, encoding="bgr8"):
    pixels = np.zeros((24, 32, 3), np.uint8)
    pixels[4:8, index : index + 4] = 255
    stamp = make("builtin_interfaces/msg/Time", sec=100 + index, nanosec=7 * index)
    return make(
        "sensor_msgs/msg/Image",
        header=make("std_msgs/msg/Header", stamp=stamp, frame_id="eye"),
        height=24,
        width=32,
        encoding=encoding,
        is_bigendian=0,
        step=96,
        data=pixels.reshape(-1),
    )


def record(path, plugin=StoragePlugin.MCAP, bad=(), images=("/image",)):
    """Images with words between them, two at the same moment, as /image and /words."""
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        words = writer.add_connection("/words", "std_msgs/msg/String", typestore=STORE)
        cameras = [
            writer.add_connection(topic, "sensor_msgs/msg/Image", typestore=STORE)
            for topic in images
        ]
        for index in range(IMAGES):
            # Images 4 and 5 were recorded at the same moment.
            moment = (50 + (4 if index == 5 else index)) * SECOND
            text = make("std_msgs/msg/String", data=f"word {index}")
            writer.write(words, moment - 1, bytes(STORE.serialize_cdr(text, words.msgtype)))
            message = image_message(index, "strange" if index in bad else "bgr8")
            for camera in cameras:
                writer.write(camera, moment, bytes(STORE.serialize_cdr(message, camera.msgtype)))
    return path


def small_bags(kind):
    """Whole files of a few hundred bytes and more: mcap with and without compression, or db3."""
    plugin = StoragePlugin.SQLITE3 if kind == "db3" else StoragePlugin.MCAP
    with tempfile.TemporaryDirectory() as folder:
        return [
            _small_bag(Path(folder) / str(compressed), kind, plugin, compressed)
            for compressed in ([False] if kind == "db3" else [False, True])
        ]


def _small_bag(folder, kind, plugin, compressed):
    writer = Writer(folder, version=9, storage_plugin=plugin)
    if compressed:
        writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        words = writer.add_connection("/words", "std_msgs/msg/String", typestore=STORE)
        for index in range(3):
            text = make("std_msgs/msg/String", data=f"word {index}")
            writer.write(words, index * SECOND, bytes(STORE.serialize_cdr(text, words.msgtype)))
    return next(folder.glob(f"*.{kind}")).read_bytes()
