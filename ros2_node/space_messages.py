"""Places in space as vision_msgs/Detection3DArray and sensor_msgs/PointCloud2. Without ROS."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.models.results import Detections
from tvm_vision.models.space.objects import Place

from .messages import Message, MessageBuilder

DETECTIONS = "vision_msgs/Detection3DArray"
POINTS = "sensor_msgs/PointCloud2"
# sensor_msgs/PointField.FLOAT32.
FLOAT32 = 7


def in_frame(builder: MessageBuilder, header: Message, frame: str) -> Message:
    """The header of an image, for what lies in another frame."""
    return builder.make("std_msgs/Header", stamp=header.stamp, frame_id=frame)


def detections_3d(
    builder: MessageBuilder, header: Message, found: Detections, places: Sequence[Place | None]
) -> Message:
    """Detection3DArray of the detections of which the place is known, with their classes, scores
    and ids; position and size in metres, in the header's frame. Covariances are 0: not known."""
    listed = [
        builder.make(
            "vision_msgs/Detection3D",
            header=header,
            results=[_hypothesis(builder, name, score, place)],
            bbox=builder.make(
                "vision_msgs/BoundingBox3D",
                center=_pose(builder, place),
                size=_vector(builder, "Vector3", place.size),
            ),
            id=number,
        )
        for (name, score, _), number, place in zip(
            found, found.track_names(), places, strict=True
        )
        if place is not None
    ]  # fmt: skip
    return builder.make(DETECTIONS, header=header, detections=listed)


def point_cloud(
    builder: MessageBuilder, header: Message, points: npt.NDArray[np.float32]
) -> Message:
    """PointCloud2 of float32 [n, 3], x, y and z in metres in the header's frame."""
    fields = [
        builder.make("sensor_msgs/PointField", name=name, offset=4 * i, datatype=FLOAT32, count=1)
        for i, name in enumerate("xyz")
    ]
    flat = np.ascontiguousarray(points, np.float32).reshape(-1)
    return builder.make(
        POINTS,
        header=header,
        height=1,
        width=len(points),
        fields=fields,
        is_bigendian=sys.byteorder == "big",
        point_step=12,
        row_step=12 * len(points),
        data=builder.octets(flat.view(np.uint8)),
        is_dense=True,
    )


def _hypothesis(builder: MessageBuilder, name: str, score: float, place: Place) -> Message:
    return builder.make(
        "vision_msgs/ObjectHypothesisWithPose",
        hypothesis=builder.make("vision_msgs/ObjectHypothesis", class_id=name, score=score),
        pose=builder.make(
            "geometry_msgs/PoseWithCovariance",
            pose=_pose(builder, place),
            covariance=np.zeros(36),
        ),
    )


def _pose(builder: MessageBuilder, place: Place) -> Message:
    return builder.make(
        "geometry_msgs/Pose",
        position=_vector(builder, "Point", place.position),
        orientation=builder.make("geometry_msgs/Quaternion", x=0.0, y=0.0, z=0.0, w=1.0),
    )


def _vector(builder: MessageBuilder, kind: str, values: Any) -> Message:
    x, y, z = (float(value) for value in values)
    return builder.make(f"geometry_msgs/{kind}", x=x, y=y, z=z)
