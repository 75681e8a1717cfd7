"""Bags of a camera with depth, calibration and transforms over a scene of known geometry."""

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer

from support.ros.bags import STORE, make
from support.space_scenes import CENTRE, FOCAL, SIZE, Scene, quaternion

SCENE, DIAMETER, IMAGES = Scene(), 0.14, 6
BEGIN = 50_000_000_000
PERIOD = 100_000_000
CALIBRATION, IMAGE = "sensor_msgs/msg/CameraInfo", "sensor_msgs/msg/Image"
TRANSFORMS = "tf2_msgs/msg/TFMessage"


def ball(index):
    """Where it is above the ground, in metres."""
    return np.array([1.5 + 0.1 * index, 0.2 - 0.1 * index, DIAMETER / 2])


def header(moment, frame="eye"):
    sec, nanosec = divmod(moment, 1_000_000_000)
    stamp = make("builtin_interfaces/msg/Time", sec=sec, nanosec=nanosec)
    return make("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def image(moment, pixels, encoding):
    return make(
        IMAGE, header=header(moment), height=SIZE[0], width=SIZE[1], encoding=encoding,
        is_bigendian=0, step=pixels.strides[0], data=pixels.reshape(-1).view(np.uint8),
    )  # fmt: skip


def calibration(moment):
    k = np.array([FOCAL, 0, CENTRE[0], 0, FOCAL, CENTRE[1], 0, 0, 1], float)
    p = np.array([FOCAL, 0, CENTRE[0], 0, 0, FOCAL, CENTRE[1], 0, 0, 0, 1, 0], float)
    region = make("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0,
                  do_rectify=False)  # fmt: skip
    return make(
        CALIBRATION, header=header(moment), height=SIZE[0], width=SIZE[1], d=np.zeros(5), k=k,
        distortion_model="plumb_bob", r=np.eye(3).reshape(-1), p=p, binning_x=0, binning_y=0,
        roi=region,
    )  # fmt: skip


def transform(moment, parent, child, place, turn=(0.0, 0.0, 0.0, 1.0)):
    vector = make("geometry_msgs/msg/Vector3", **dict(zip("xyz", map(float, place), strict=True)))
    names = zip("xyzw", map(float, turn), strict=True)
    moved = make("geometry_msgs/msg/Transform", translation=vector,
                 rotation=make("geometry_msgs/msg/Quaternion", **dict(names)))  # fmt: skip
    stamped = make("geometry_msgs/msg/TransformStamped", header=header(moment, parent),
                   child_frame_id=child, transform=moved)  # fmt: skip
    return make(TRANSFORMS, transforms=[stamped])


def record_space(path, without=(), plugin=StoragePlugin.MCAP, late=60_000_000):
    """/camera/image with what belongs to it, the robot going along x of odom at 1 m/s.

    Depth is recorded ``late`` ns behind its image, the calibration and the camera's fixed place
    behind all of them. without: topics that are left out.
    """
    entries = []
    for index in range(IMAGES):
        moment = BEGIN + index * PERIOD
        depth, seen = SCENE.render(ball(index), DIAMETER / 2)
        pixels = np.repeat(np.where(seen, 255, 0).astype(np.uint8)[..., None], 3, axis=-1)
        entries.append((moment, "/camera/image", image(moment, pixels, "bgr8")))
        entries.append((moment + late, "/camera/depth/image", image(moment, depth, "32FC1")))
    for at in range(-1, 2 * IMAGES, 2):
        moment = BEGIN + at * PERIOD // 2
        going = (moment - BEGIN) * 1e-9
        entries.append((moment, "/tf", transform(moment, "odom", "base_footprint", (going, 0, 0))))
    end = BEGIN + 2 * IMAGES * PERIOD
    turn = quaternion(SCENE.rotation)
    entries.append((end, "/camera/camera_info", calibration(end)))
    fixed = transform(end, "base_footprint", "eye", SCENE.translation, turn)
    entries.append((end, "/tf_static", fixed))
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        made = {}
        for moment, topic, message in sorted(entries, key=lambda entry: entry[0]):
            if topic in without:
                continue
            kind = message.__msgtype__
            if topic not in made:
                made[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(made[topic], moment, bytes(STORE.serialize_cdr(message, kind)))
    return path
