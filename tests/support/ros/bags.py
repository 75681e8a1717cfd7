"""Recorded bags for tests."""

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer

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
