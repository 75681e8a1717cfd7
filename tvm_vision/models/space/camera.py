"""A calibrated camera: which ray of light each pixel is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ...errors import InputError

Points = npt.NDArray[np.float64]
# Models of lenses as ROS calls them (sensor_msgs/CameraInfo, image_geometry).
FISHEYE = ("equidistant", "fisheye")
POLYNOMIAL = ("", "plumb_bob", "rational_polynomial")
# Numbers of coefficients that OpenCV takes for polynomials (calib3d, "Detailed Description").
COUNTS = (0, 4, 5, 8, 12, 14)


@dataclass(frozen=True)
class Camera:
    """A camera as calibration gives it, by OpenCV's model: x' = x / z, u = fx x' + cx.

    size: height and width of its images in pixels. fx, fy, cx, cy: in pixels, of their upper left
    pixel's middle as 0, 0. distortion: coefficients of the lens; none of a rectified image.
    model: of these, as ROS calls it.

    Raises InputError for a camera without calibration, or a lens that is not known.
    """

    size: tuple[int, int]
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    model: str = "plumb_bob"

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if not np.isfinite(numbers).all() or min(self.fx, self.fy) <= 0:
            raise InputError(
                f"a calibrated camera is needed, found focal lengths of {self.fx:g} and "
                f"{self.fy:g} pixels: calibrate it (camera_calibration), or name the topic of its "
                "camera_info"
            )
        if self.model not in (*FISHEYE, *POLYNOMIAL):
            known = ", ".join((*POLYNOMIAL[1:], *FISHEYE))
            raise InputError(f"a lens of {known} is needed, found '{self.model}'")
        wanted = (4,) if self.model in FISHEYE else COUNTS
        if len(self.distortion) not in (0, *wanted):
            counts = " or ".join(map(str, wanted))
            raise InputError(f"{counts} coefficients are needed, found {len(self.distortion)}")

    @classmethod
    def from_calibration(
        cls,
        size: tuple[int, int],
        k: Sequence[float],
        d: Sequence[float] = (),
        model: str = "plumb_bob",
        p: Sequence[float] = (),
    ) -> Camera:
        """Of a sensor_msgs/CameraInfo: k, 9 numbers by rows; d; for rectified images p, 12 numbers,
        instead of both."""
        if len(p):
            return cls(size, float(p[0]), float(p[5]), float(p[2]), float(p[6]))
        coefficients = tuple(float(value) for value in d) if any(d) else ()
        return cls(
            size, float(k[0]), float(k[4]), float(k[2]), float(k[5]), coefficients, model
        )  # fmt: skip

    def scaled(self, size: tuple[int, int]) -> Camera:
        """The same camera for images of another height and width, resized from its own.

        Pixels have their middles at whole numbers: u' = (u + 1/2) s - 1/2.
        """
        if size == self.size:
            return self
        sy, sx = size[0] / self.size[0], size[1] / self.size[1]
        return replace(
            self, size=size, fx=self.fx * sx, fy=self.fy * sy,
            cx=(self.cx + 0.5) * sx - 0.5, cy=(self.cy + 0.5) * sy - 0.5,
        )  # fmt: skip

    def rays(self, pixels: npt.NDArray[Any]) -> Points:
        """Directions float64 [n, 3] with z = 1, in the camera's optical frame, of pixels [n, 2], x
        and y with the middle of the first pixel at 0, 0."""
        points = np.asarray(pixels, np.float64).reshape(-1, 2)
        if not self.distortion:
            plane = (points - (self.cx, self.cy)) / (self.fx, self.fy)
        elif len(points):
            matrix = np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1.0]])
            undo: Any = (
                cv2.fisheye.undistortPoints if self.model in FISHEYE else cv2.undistortPoints
            )
            lens = np.array(self.distortion, np.float64)
            plane = undo(points[:, None], matrix, lens).reshape(-1, 2)
        else:
            plane = points
        return np.concatenate((plane, np.ones((len(plane), 1))), axis=1)
