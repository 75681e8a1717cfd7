"""Results as messages, for any implementation of their classes: rclpy's, or rosbags'. Without ROS.

Every field of every message is given by name: the classes of rosbags have no defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.models.results import Classification, Detections

from .diagnostics import Status

Message = Any
Box = tuple[float, float, float, float]


class MessageBuilder:
    """Makes messages of vision_msgs, sensor_msgs and diagnostic_msgs."""

    def __init__(
        self,
        find: Callable[[str], type],
        octets: Callable[[npt.NDArray[np.uint8]], Any],
    ) -> None:
        """find: the class of a name like "sensor_msgs/msg/Image", or KeyError.

        octets: bytes in the form that the field ``data`` of an image wants.
        """
        self._find = find
        self._octets = octets
        self._classes: dict[str, type] = {}
        self._pose: Message = None

    def make(self, name: str, /, **fields: Any) -> Message:
        """A message; ``name`` as in "sensor_msgs/Image"."""
        found = self._classes.get(name)
        if found is None:
            package, _, kind = name.partition("/")
            found = self._classes[name] = self._find(f"{package}/msg/{kind}")
        return found(**fields)

    def octets(self, data: npt.NDArray[np.uint8]) -> Any:
        """Bytes for a field uint8[]."""
        return self._octets(data)

    def image(self, header: Message, pixels: npt.NDArray[Any], encoding: str) -> Message:
        """An image; pixels: [height, width] or [height, width, channels], of the type that the
        encoding says (mono8: uint8, 16UC1: uint16, 32FC1: float32)."""
        height, width = pixels.shape[:2]
        channels = pixels.shape[2] if pixels.ndim == 3 else 1
        flat = np.ascontiguousarray(pixels).reshape(-1)
        return self.make(
            "sensor_msgs/Image",
            header=header,
            height=height,
            width=width,
            encoding=encoding,
            is_bigendian=int(sys.byteorder == "big" and flat.itemsize > 1),
            step=width * channels * flat.itemsize,
            data=self._octets(flat.view(np.uint8)),
        )

    def detections(self, header: Message, detections: Detections) -> Message:
        """Detection2DArray: the class's name as class_id, centre and size in pixels; of oriented
        boxes the angle, too; of tracked objects the id, else ""."""
        if detections.oriented_boxes is None:
            boxes = [self.box(box) for _, _, box in detections]
        else:
            boxes = [self.oriented_box(*values) for values in detections.oriented_boxes.tolist()]
        found = [
            self.make(
                "vision_msgs/Detection2D",
                header=header,
                results=[self._hypothesis_with_pose(name, score)],
                bbox=bbox,
                id=number,
            )
            for (name, score, _), bbox, number in zip(
                detections, boxes, detections.track_names(), strict=True
            )
        ]
        return self.make("vision_msgs/Detection2DArray", header=header, detections=found)

    def classification(self, header: Message, result: Classification) -> Message:
        """Classification: the likeliest classes by name, the best first."""
        found = [
            self.make("vision_msgs/ObjectHypothesis", class_id=label, score=probability)
            for label, probability in result
        ]
        return self.make("vision_msgs/Classification", header=header, results=found)

    def label_info(self, header: Message, names: Sequence[str], threshold: float) -> Message:
        """LabelInfo: the name of each id. threshold: least confidence that is published."""
        classes = [
            self.make("vision_msgs/VisionClass", class_id=index, class_name=name)
            for index, name in enumerate(names)
        ]
        return self.make(
            "vision_msgs/LabelInfo", header=header, class_map=classes, threshold=threshold
        )

    def box(self, box: Box) -> Message:
        """BoundingBox2D from the edges x1, y1, x2, y2."""
        x1, y1, x2, y2 = box
        return self.oriented_box((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, 0.0)

    def oriented_box(
        self, x: float, y: float, width: float, height: float, angle: float
    ) -> Message:
        """BoundingBox2D of a centre, sides in pixels, and an angle in radians from the image's x
        axis, to the right, towards its y axis, downwards."""
        position = self.make("vision_msgs/Point2D", x=x, y=y)
        center = self.make("vision_msgs/Pose2D", position=position, theta=angle)
        return self.make("vision_msgs/BoundingBox2D", center=center, size_x=width, size_y=height)

    def center(self, box: Box) -> Message:
        """Point2D in the middle of the edges x1, y1, x2, y2."""
        x1, y1, x2, y2 = box
        return self.make("vision_msgs/Point2D", x=(x1 + x2) / 2, y=(y1 + y2) / 2)

    def diagnostics(self, header: Message, statuses: Iterable[Status]) -> Message:
        """DiagnosticArray."""
        found = [
            self.make(
                "diagnostic_msgs/DiagnosticStatus",
                level=bytes([status.level]),
                name=status.name,
                message=status.message,
                hardware_id=status.hardware_id,
                values=[
                    self.make("diagnostic_msgs/KeyValue", key=key, value=str(value))
                    for key, value in status.values.items()
                ],
            )
            for status in statuses
        ]
        return self.make("diagnostic_msgs/DiagnosticArray", header=header, status=found)

    def latency(self, values: dict[str, float]) -> Message:
        """Float32MultiArray; the label of its one axis names the values, all in milliseconds."""
        axis = self.make(
            "std_msgs/MultiArrayDimension",
            label=", ".join(values),
            size=len(values),
            stride=len(values),
        )
        layout = self.make("std_msgs/MultiArrayLayout", dim=[axis], data_offset=0)
        return self.make("std_msgs/Float32MultiArray", layout=layout, data=list(values.values()))

    def _hypothesis_with_pose(self, name: str, score: float) -> Message:
        hypothesis = self.make("vision_msgs/ObjectHypothesis", class_id=name, score=score)
        if self._pose is None:
            self._pose = self._no_pose()
        return self.make(
            "vision_msgs/ObjectHypothesisWithPose", hypothesis=hypothesis, pose=self._pose
        )

    def _no_pose(self) -> Message:
        """The pose that stands where none is known; shared by all detections."""
        pose = self.make(
            "geometry_msgs/Pose",
            position=self.make("geometry_msgs/Point", x=0.0, y=0.0, z=0.0),
            orientation=self.make("geometry_msgs/Quaternion", x=0.0, y=0.0, z=0.0, w=1.0),
        )
        return self.make("geometry_msgs/PoseWithCovariance", pose=pose, covariance=np.zeros(36))
