"""The picture of debug_image: mask and boxes over the camera's image, with the latency below."""

from __future__ import annotations

import colorsys

import cv2
import numpy as np

from tvm_vision.models.results import Classification, Detections, SegmentationMask, VisionResult

from .images import Image

FONT = cv2.FONT_HERSHEY_SIMPLEX
WHITE = (255, 255, 255)
BLACK = (0, 0, 0)
Color = tuple[int, int, int]


def color_of(index: int) -> Color:
    """Blue, green, red of a class: far apart for neighbours, the same in every frame."""
    hue = (0.08 + index * 0.381966) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, 1.0)
    return (round(255 * blue), round(255 * green), round(255 * red))


def draw(image: Image, result: VisionResult, caption: str, *, opacity: float = 0.4) -> Image:
    """A copy of the image with what the network says about it.

    image: uint8 [height, width, 3] BGR. caption: one line at the lower edge. opacity: of the mask,
    0 to 1; the first class of pixels is the background and stays as it is.
    """
    picture = image.copy()
    unit = max(picture.shape[0], picture.shape[1]) / 640
    if result.segmentation is not None and opacity > 0:
        picture = _with_mask(picture, result.segmentation, opacity)
    if result.detections is not None:
        _draw_boxes(picture, result.detections, unit)
    if result.classification is not None:
        _draw_classes(picture, result.classification, unit)
    _text(picture, caption, 0, picture.shape[0] - 1, BLACK, unit)
    return picture


def _with_mask(picture: Image, mask: SegmentationMask, opacity: float) -> Image:
    colors = np.zeros((256, 1, 3), np.uint8)
    for index in range(1, min(256, len(mask.class_names))):
        # Half a turn away from the boxes' colors.
        colors[index] = color_of(index + 7)
    layer = cv2.applyColorMap(mask.mask, colors)
    blended = cv2.addWeighted(picture, 1.0 - opacity, layer, opacity, 0.0)
    shown = cv2.compare(mask.mask, 0, cv2.CMP_GT)
    return cv2.copyTo(blended, shown, picture).astype(np.uint8, copy=False)


def _draw_boxes(picture: Image, detections: Detections, unit: float) -> None:
    thickness = max(1, round(2 * unit))
    # The best last, so that it is on top.
    for class_id, (name, score, box) in reversed(
        list(zip(detections.class_ids.tolist(), detections, strict=True))
    ):
        x1, y1, x2, y2 = (round(edge) for edge in box)
        color = color_of(class_id)
        cv2.rectangle(picture, (x1, y1), (x2 - 1, y2 - 1), color, thickness)
        _text(picture, f"{name} {score:.2f}", x1, y1, color, unit)


def _draw_classes(picture: Image, result: Classification, unit: float) -> None:
    for row, (label, probability) in enumerate(result):
        bottom = round((row + 1) * 20 * unit)
        _text(picture, f"{label} {100 * probability:.1f} %", 0, bottom, BLACK, unit)


def _text(picture: Image, text: str, x: int, bottom: int, back: Color, unit: float) -> None:
    """Text on a plate, moved into the picture where it would be cut off."""
    scale, pad = 0.45 * unit, max(1, round(3 * unit))
    (width, height), base = cv2.getTextSize(text, FONT, scale, 1)
    x = max(0, min(x, picture.shape[1] - width - 2 * pad))
    bottom = max(height + base + pad, min(bottom, picture.shape[0]))
    top = bottom - height - base - pad
    cv2.rectangle(picture, (x, top), (x + width + 2 * pad, bottom), back, cv2.FILLED)
    brightness = 0.114 * back[0] + 0.587 * back[1] + 0.299 * back[2]
    ink = BLACK if brightness > 140 else WHITE
    cv2.putText(picture, text, (x + pad, bottom - base), FONT, scale, ink, 1, cv2.LINE_AA)
