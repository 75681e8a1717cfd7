"""Detections with masks, keypoints and oriented boxes as yolo_msgs/DetectionArray, which the nodes
of yolo_ros publish: vision_msgs has no message for keypoints. Without ROS.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from tvm_vision.models.results import Detections

from .messages import Message, MessageBuilder

TOPIC = "yolo_detections"
KIND = "yolo_msgs/DetectionArray"


def yolo_message(builder: MessageBuilder, header: Message, found: Detections) -> Message:
    """All that is known of the objects of an image; parts that the network has not are empty.

    Boxes are centre, sides and angle in pixels, masks the outline of their largest piece, keypoints
    count from 1, all of them, with their score. Nothing is said in space: bbox3d and keypoints3d
    are empty.
    """
    listed = [_detection(builder, found, index) for index in range(len(found))]
    return builder.make(KIND, header=header, detections=listed)


def _detection(builder: MessageBuilder, found: Detections, index: int) -> Message:
    make = builder.make
    class_id = int(found.class_ids[index])
    return make(
        "yolo_msgs/Detection",
        class_id=class_id,
        class_name=found.class_names[class_id],
        score=float(found.scores[index]),
        id=found.track_names()[index],
        bbox=_box(builder, found, index),
        bbox3d=make("yolo_msgs/BoundingBox3D"),
        mask=_mask(builder, found, index),
        keypoints=_keypoints(builder, found, index),
        keypoints3d=make("yolo_msgs/KeyPoint3DArray"),
    )


def _point(builder: MessageBuilder, x: float, y: float) -> Message:
    return builder.make("yolo_msgs/Point2D", x=float(x), y=float(y))


def _box(builder: MessageBuilder, found: Detections, index: int) -> Message:
    if found.oriented_boxes is not None:
        x, y, width, height, angle = found.oriented_boxes[index].tolist()
    else:
        x1, y1, x2, y2 = found.boxes[index].tolist()
        x, y, width, height, angle = (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, 0.0
    center = builder.make("yolo_msgs/Pose2D", position=_point(builder, x, y), theta=angle)
    size = builder.make("yolo_msgs/Vector2", x=width, y=height)
    return builder.make("yolo_msgs/BoundingBox2D", center=center, size=size)


def _mask(builder: MessageBuilder, found: Detections, index: int) -> Message:
    if found.masks is None:
        return builder.make("yolo_msgs/Mask", height=0, width=0, data=[])
    height, width = found.masks.shape
    crop = found.masks.crops[index].astype(np.uint8)
    top, left = found.masks.corners[index].tolist()
    outlines: Any = ()
    if crop.size:
        outlines, _ = cv2.findContours(crop, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    largest = max(outlines, key=cv2.contourArea, default=np.empty((0, 1, 2)))
    points = [_point(builder, x + left, y + top) for x, y in largest.reshape(-1, 2).tolist()]
    return builder.make("yolo_msgs/Mask", height=height, width=width, data=points)


def _keypoints(builder: MessageBuilder, found: Detections, index: int) -> Message:
    rows = [] if found.keypoints is None else found.keypoints[index].tolist()
    listed = [
        builder.make("yolo_msgs/KeyPoint2D", id=number, point=_point(builder, x, y), score=score)
        for number, (x, y, score) in enumerate(rows, 1)
    ]
    return builder.make("yolo_msgs/KeyPoint2DArray", data=listed)
