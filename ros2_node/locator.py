"""Detections and masks of an image in space, of what else the camera publishes. Without ROS.

tvm_vision.models.space has the geometry; here are the messages that it needs.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_vision.errors import InputError
from tvm_vision.models.results import Detections
from tvm_vision.models.space.camera import Camera
from tvm_vision.models.space.ground import mask_on_ground
from tvm_vision.models.space.objects import Place, by_depth, by_diameter, by_ground
from tvm_vision.models.space.poses import Pose

from .compressed_depth import depth_from_compressed
from .settings import Settings
from .transforms import Transforms

# Seconds by which an image and its depth may differ.
DEPTH_SLACK = 0.05
# Depth images that wait for their image: the network takes a while.
DEPTHS = 10
# Encoding -> type and metres of one (REP 118).
DEPTH_ENCODINGS = {"16UC1": ("u2", 1e-3), "mono16": ("u2", 1e-3), "32FC1": ("f4", 1.0)}


class Locator:
    """Keeps what was published last; messages may come in another thread than ``places``."""

    def __init__(self, depths: int = DEPTHS) -> None:
        """depths: so many depth images are kept."""
        self.transforms = Transforms()
        self._calibration: Any = None
        self._depths: deque[Any] = deque(maxlen=depths)

    def take_calibration(self, message: Any) -> None:
        """A sensor_msgs/CameraInfo of the images."""
        self._calibration = message

    def take_depth(self, message: Any) -> None:
        """A depth image that is aligned to the images, sensor_msgs/Image or CompressedImage."""
        self._depths.append(message)

    def forget(self) -> None:
        """Another camera may come."""
        self._calibration = None
        self._depths.clear()
        self.transforms = Transforms()

    def places(
        self, settings: Settings, header: Any, size: tuple[int, int], found: Detections
    ) -> tuple[str, list[Place | None]]:
        """The frame, and for each detection its place there, None where it is not known.

        size: height and width of the image. Raises InputError, with what is missing.
        """
        camera, frame = self._camera(settings, size), settings.locate_frame or header.frame_id
        if settings.locate_by == "ground":
            ground = self._pose(settings.ground_frame, header)
            to_frame = self._between(frame, settings.ground_frame, header)
        else:
            to_frame = self._between(frame, header.frame_id, header)
        depth = self._depth(header) if settings.locate_by == "depth" else None
        result: list[Place | None] = []
        for index, (name, _, _) in enumerate(found):
            box, diameter = found.boxes[index], _diameter(name, settings)
            place: Place | None = None
            if settings.locate_by == "ground":
                place = by_ground(camera, ground, box, diameter=diameter)
            elif depth is not None:
                mask = None if found.masks is None else found.masks[index]
                place = by_depth(camera, box, depth, diameter=diameter, mask=mask)
            elif diameter:
                place = by_diameter(camera, box, diameter)
            result.append(None if place is None else _moved(place, to_frame))
        return frame, result

    def points(
        self, settings: Settings, header: Any, mask: npt.NDArray[np.bool_]
    ) -> tuple[str, npt.NDArray[np.float32]]:
        """The frame, and the pixels of a mask there as points on the ground, float32 [n, 3].

        Raises InputError, with what is missing.
        """
        camera = self._camera(settings, (mask.shape[0], mask.shape[1]))
        frame = settings.locate_frame or header.frame_id
        found = mask_on_ground(
            camera, self._pose(settings.ground_frame, header), mask, step=settings.points_step,
            farthest=settings.points_range,
        )  # fmt: skip
        to_frame = self._between(frame, settings.ground_frame, header)
        return frame, to_frame(found).astype(np.float32)

    def _camera(self, settings: Settings, size: tuple[int, int]) -> Camera:
        info = self._calibration
        if info is None:
            raise InputError(
                f"the camera's calibration is needed, and nothing came on "
                f"{settings.camera_info_topic}: publish it, or set camera_info_topic"
            )
        if settings.image_rectified:
            camera = Camera.from_calibration((info.height, info.width), info.k, p=info.p)
        else:
            camera = Camera.from_calibration(
                (info.height, info.width), info.k, info.d, info.distortion_model
            )
        return camera.scaled(size)

    def _depth(self, header: Any) -> npt.NDArray[np.float32]:
        wanted = _seconds(header)
        near = min(self._depths, key=lambda m: abs(_seconds(m.header) - wanted), default=None)
        if near is None or abs(_seconds(near.header) - wanted) > DEPTH_SLACK:
            found = "none came" if near is None else (
                f"the nearest is {abs(_seconds(near.header) - wanted):.3f} s away"
            )  # fmt: skip
            raise InputError(
                f"a depth image within {DEPTH_SLACK:g} s of the image is needed, and {found}: set "
                "depth_topic to the one that is aligned to the images"
            )
        return depth_from_compressed(near) if hasattr(near, "format") else depth_from(near)

    def _pose(self, target: str, header: Any) -> Pose:
        """The camera in a frame."""
        return self._between(target, header.frame_id, header)

    def _between(self, target: str, source: str, header: Any) -> Pose:
        if target == source:
            return Pose.none()
        return self.transforms.pose(target, source, _seconds(header))


def depth_from(message: Any) -> npt.NDArray[np.float32]:
    """A depth image, float32 [height, width], in metres; 0 or no number where it is not known.

    Raises InputError for another encoding, or for data that is too short.
    """
    kind = DEPTH_ENCODINGS.get(message.encoding)
    if kind is None:
        raise InputError(
            f"a depth image in one of {', '.join(DEPTH_ENCODINGS)} is needed, found "
            f"'{message.encoding}': set depth_topic"
        )
    dtype = np.dtype(f"{'>' if message.is_bigendian else '<'}{kind[0]}")
    height, width = int(message.height), int(message.width)
    step = int(message.step) or width * dtype.itemsize
    data = np.frombuffer(message.data, np.uint8)
    needed = step * (height - 1) + width * dtype.itemsize
    if min(height, width) < 1 or step < width * dtype.itemsize or data.size < needed:
        raise InputError(
            f"{needed} bytes are needed for {width} x {height} {message.encoding} with a step of "
            f"{step}, found {data.size}: check the camera driver"
        )
    values: npt.NDArray[Any] = np.ndarray(
        (height, width), dtype, buffer=data, strides=(step, dtype.itemsize)
    )
    return values.astype(np.float32) * np.float32(kind[1])


def _diameter(name: str, settings: Settings) -> float:
    """Of an object that is a ball by its class's name, else 0."""
    return settings.ball_diameter if name == "ball" or name.endswith(" ball") else 0.0


def _moved(place: Place, pose: Pose) -> Place:
    """In another frame; the size is that of a box along its axes around the turned one."""
    size = np.abs(pose.rotation) @ place.size
    ball = place.size[0] == place.size[1] == place.size[2]
    return Place(pose(place.position[None])[0], place.size if ball else size)


def _seconds(header: Any) -> float:
    return float(header.stamp.sec + 1e-9 * header.stamp.nanosec)
