"""From an image to the tensor that an ImageNet classifier was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import Preprocessing, TensorInfo
from ...runtime.inputs import numpy_dtype
from ..frames import check_image, in_layout, in_order
from .presets import preset

COLOR_ORDERS = ("rgb", "bgr")
LAYOUTS = ("NCHW", "NHWC", "NHW")
INTERPOLATIONS = {
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "nearest": cv2.INTER_NEAREST,
}


@dataclass(frozen=True)
class ClassifierInput:
    """How a classifier wants its image: all that is needed to make its input, as numbers.

    size: height and width of the tensor, in pixels.
    crop: side of the centre crop, as a share of the largest crop of that aspect that fits.
    mean, std: for each channel of the tensor; value = (pixel - mean) / std, pixel in 0..255.
    color_order: order of the tensor's channels, "rgb" or "bgr"; "gray" for its only one.
    interpolation: "area" (averages what it shrinks), "cubic", "linear" or "nearest".
    letterbox: pad to the tensor's aspect with zeros, centred, instead of cropping.
    stretch: resize whatever the image's aspect is, instead of both.
    pad_value, pad_corner: of a letterbox, see Preprocessing.
    layout: order of the tensor's axes, "NCHW" or "NHWC"; of one channel also "NHW".

    Raises ValueError for a number out of its range.
    """

    size: tuple[int, int]
    crop: float = 1.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    color_order: str = "rgb"
    interpolation: str = "area"
    letterbox: bool = False
    stretch: bool = False
    pad_value: float = 0.0
    pad_corner: bool = False
    layout: str = "NCHW"

    @classmethod
    def from_package(cls, preprocessing: Preprocessing, layout: str = "NCHW") -> ClassifierInput:
        """The numbers that a package carries. layout: of the network's input."""
        return cls(
            size=preprocessing.size,
            crop=preprocessing.crop,
            mean=preprocessing.mean,
            std=preprocessing.std,
            color_order=preprocessing.color_order,
            interpolation=preprocessing.interpolation,
            letterbox=preprocessing.letterbox,
            stretch=preprocessing.stretch,
            pad_value=preprocessing.pad_value,
            pad_corner=preprocessing.pad_corner,
            layout=layout,
        )

    def __post_init__(self) -> None:
        if len(self.size) != 2 or min(self.size) < 1:
            raise ValueError(f"expected a size of (height, width) of at least 1, got {self.size}")
        if not 0.0 < self.crop <= 1.0:
            raise ValueError(f"expected a crop above 0 and up to 1, got {self.crop}")
        if self.color_order not in (*COLOR_ORDERS, "gray"):
            raise ValueError(
                f"expected a color_order of rgb, bgr or gray, got '{self.color_order}'"
            )
        count = 1 if self.color_order == "gray" else 3
        if len(self.mean) != count or len(self.std) != count or min(self.std) <= 0.0:
            raise ValueError(
                f"expected {count} means and {count} positive stds, got {self.mean} and {self.std}"
            )
        if self.interpolation not in INTERPOLATIONS:
            known = ", ".join(INTERPOLATIONS)
            raise ValueError(f"expected an interpolation of {known}, got '{self.interpolation}'")
        if self.layout not in LAYOUTS:
            raise ValueError(f"expected a layout of NCHW, NHWC or NHW, got '{self.layout}'")
        if self.layout == "NHW" and count != 1:
            raise ValueError("expected a color_order of gray for a layout of NHW")


EFFICIENTNET_LITE0 = ClassifierInput.from_package(preset("efficientnet-lite", (224, 224)))


def prepare(
    image: npt.NDArray[np.uint8], config: ClassifierInput, *, color_order: str = "rgb"
) -> npt.NDArray[np.float32]:
    """Crop or pad, resize and normalise one image.

    image: uint8 [height, width, 3], channels in ``color_order`` ("rgb", or OpenCV's "bgr"); grey,
    [height, width] or of one channel, and with alpha, which is ignored, of four.

    Returns float32 [1, 3, height, width], or [1, height, width, 3] of layout NHWC, contiguous; of
    a color_order gray one channel in place of three, and [1, height, width] of layout NHW.
    Raises InputError for another shape, type or order.
    """
    if color_order not in COLOR_ORDERS:
        raise InputError(f"expected a color_order of rgb or bgr, got '{color_order}'")
    check_image(image)
    crop = _whole(image, config) if config.letterbox or config.stretch else _cut(image, config)
    height, width = config.size
    resized = cv2.resize(crop, (width, height), interpolation=INTERPOLATIONS[config.interpolation])
    resized = in_order(resized, color_order, config.color_order)
    mean = np.array(config.mean, np.float32)
    scale = 1.0 / np.array(config.std, np.float32)
    normalised = (resized.astype(np.float32) - mean) * scale
    return np.ascontiguousarray(in_layout(normalised.transpose(2, 0, 1)[np.newaxis], config.layout))


def as_input(prepared: npt.NDArray[np.float32], spec: TensorInfo) -> npt.NDArray[Any]:
    """Prepared pixels in an input's type: whole numbers are the nearest that it has, or, where they
    stand for real ones, the nearest of these."""
    dtype = numpy_dtype(spec.dtype)
    return np.ascontiguousarray(_in_range(prepared, spec, dtype), dtype)


def write_input(
    prepared: npt.NDArray[np.float32], spec: TensorInfo, into: npt.NDArray[Any]
) -> None:
    """Put what ``as_input`` makes of prepared pixels into an array of the input's form, at once."""
    np.copyto(into, _in_range(prepared, spec, into.dtype), casting="unsafe")


def _in_range(
    prepared: npt.NDArray[np.float32], spec: TensorInfo, dtype: np.dtype[Any]
) -> npt.NDArray[np.float32]:
    if not np.issubdtype(dtype, np.integer):
        return prepared
    limits, steps = np.iinfo(dtype), spec.steps
    whole = np.rint(prepared if steps is None else prepared / np.float32(steps.scale))
    moved = whole if steps is None else whole + np.float32(steps.zero_point)
    return np.clip(moved, limits.min, limits.max)


def _cut(image: npt.NDArray[np.uint8], config: ClassifierInput) -> npt.NDArray[np.uint8]:
    """The middle of the image in the aspect of the tensor, at least one pixel."""
    height, width = image.shape[:2]
    scale = config.crop * min(height / config.size[0], width / config.size[1])
    crop_height = max(1, round(config.size[0] * scale))
    crop_width = max(1, round(config.size[1] * scale))
    top = (height - crop_height + 1) // 2
    left = (width - crop_width + 1) // 2
    return image[top : top + crop_height, left : left + crop_width]


def _whole(image: npt.NDArray[np.uint8], config: ClassifierInput) -> npt.NDArray[np.uint8]:
    """The image in the middle, or corner, of one in the aspect of the tensor; stretched, as it
    is."""
    if config.stretch:
        return image
    height, width = image.shape[:2]
    scale = max(height / config.size[0], width / config.size[1])
    rows = max(0, round(config.size[0] * scale) - height)
    columns = max(0, round(config.size[1] * scale) - width)
    top, left = (0, 0) if config.pad_corner else (rows // 2, columns // 2)
    grey = (config.pad_value,) * 4
    padded = cv2.copyMakeBorder(
        image, top, rows - top, left, columns - left, cv2.BORDER_CONSTANT, value=grey
    )
    return padded.astype(np.uint8, copy=False)
