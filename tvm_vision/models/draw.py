"""Images with results drawn onto them, with OpenCV: uint8 [height, width, 3] in BGR."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from .draw_shapes import (
    DARK,
    LIGHT,
    colored_depth,
    draw_keypoints,
    draw_masks,
    draw_oriented_box,
)
from .results import Classification, Detections, SegmentationMask, VisionResult

Image = npt.NDArray[np.uint8]
Color = tuple[int, int, int]
Box = tuple[float, float, float, float]
Rectangle = tuple[int, int, int, int]

HEIGHT = 420
PANEL_WIDTH = 460
MARGIN = 24
ROW = 62
FONT = cv2.FONT_HERSHEY_SIMPLEX
# Blue, green, red.
INK = (40, 40, 40)
GREY = (130, 130, 130)
TRACK = (235, 235, 235)
BAR = (180, 120, 40)
PAPER = 255
# Blue, green, red, of boxes by class: far from each other and from grass.
BOXES = (
    (30, 160, 255),
    (255, 190, 60),
    (80, 80, 240),
    (220, 90, 200),
    (60, 220, 240),
    (200, 200, 60),
    (150, 110, 255),
    (120, 220, 120),
)
# Of pixels by class; the first class is what is of no interest, and stays as it is. The next one is
# often thin and white, as a field's lines: a colour that is not taken for a fault of the picture.
PIXELS = ((0, 0, 0), (0, 190, 255), (200, 160, 0), (255, 60, 255), (60, 60, 255), (120, 255, 60))
OPACITY = 0.4
# Images of this many pixels, along their longer side, get lines of 2 and text of scale 0.5.
USUAL = 640
# Part of the image's width that a name may cover, so that a small one is not hidden by names.
WIDEST = 0.4


def draw_classification(image: Image, result: Classification, *, caption: str = "") -> Image:
    """The image, scaled to a height of 420 pixels, beside a panel with a bar for each class.

    image: BGR. caption: one line below the bars, for example the device and the time.
    """
    height, width = image.shape[:2]
    scaled = cv2.resize(
        image,
        (max(1, round(width * HEIGHT / height)), HEIGHT),
        interpolation=cv2.INTER_AREA if height > HEIGHT else cv2.INTER_CUBIC,
    )
    panel = np.full((HEIGHT, PANEL_WIDTH, 3), PAPER, np.uint8)
    for row, (label, probability) in enumerate(result):
        _draw_row(panel, MARGIN + row * ROW, label, probability)
    if caption:
        _text(panel, caption, MARGIN, HEIGHT - MARGIN // 2, GREY, PANEL_WIDTH - 2 * MARGIN, 0.45)
    return np.hstack([scaled, panel])


def _draw_row(panel: Image, top: int, label: str, probability: float) -> None:
    percent = f"{100 * probability:.1f} %"
    (percent_width, _), _ = cv2.getTextSize(percent, FONT, 0.6, 1)
    right = PANEL_WIDTH - MARGIN
    room = right - percent_width - 2 * MARGIN
    _text(panel, label, MARGIN, top + 20, INK, room, 0.6)
    _text(panel, percent, right - percent_width, top + 20, INK, percent_width, 0.6)
    full = right - MARGIN
    cv2.rectangle(panel, (MARGIN, top + 30), (right, top + 40), TRACK, cv2.FILLED)
    length = round(full * probability)
    if length > 0:
        cv2.rectangle(panel, (MARGIN, top + 30), (MARGIN + length, top + 40), BAR, cv2.FILLED)


def _text(
    panel: Image, text: str, x: int, y: int, color: tuple[int, int, int], room: int, scale: float
) -> None:
    """Write ``text`` from (x, y), smaller where it would be wider than ``room`` pixels."""
    (width, _), _ = cv2.getTextSize(text, FONT, scale, 1)
    fitting = scale * min(1.0, room / max(width, 1))
    cv2.putText(panel, text, (x, y), FONT, fitting, color, 1, cv2.LINE_AA)


def draw_result(image: Image, result: VisionResult, *, caption: str = "") -> Image:
    """The image with whatever was found on it; ``image`` itself is not changed.

    image: uint8 [height, width, 3] in BGR, or grey. caption: one line, for example the device and
    the time. A classification alone gives the panel of ``draw_classification``; depth takes the
    place of the image.
    """
    alone = result.detections is None and result.segmentation is None and result.depth is None
    if result.classification and alone:
        return draw_classification(image, result.classification, caption=caption)
    if result.depth is not None:
        image = colored_depth(result.depth)
    return draw_detections(
        image, result.detections, segmentation=result.segmentation, caption=caption
    )


def draw_detections(
    image: Image,
    detections: Detections | None,
    *,
    segmentation: SegmentationMask | None = None,
    caption: str = "",
) -> Image:
    """A copy of the image with boxes, names and scores, over the masks in colours; with keypoints,
    and with oriented boxes in place of the upright ones, where there are such. Objects that are
    tracked keep their colour and have their id behind their name.

    image: uint8 [height, width, 3] in BGR, or grey; the copy has its height and width and three
    channels. Lines and text grow with it; text that has no room is left out.
    """
    drawn = _colored(image)
    if segmentation is not None:
        drawn = _with_mask(drawn, segmentation.mask)
    if detections is not None:
        ids = detections.class_ids if detections.track_ids is None else detections.track_ids
        colors = [BOXES[number % len(BOXES)] for number in ids.tolist()]
        found = list(zip(detections, colors, strict=True))
        if detections.masks is not None:
            # By object, for those of one class touch each other.
            several = [BOXES[index % len(BOXES)] for index in range(len(found))]
            several = colors if detections.track_ids is not None else several
            draw_masks(drawn, detections.masks, several, _measures(drawn)[0])
            colors, found = several, list(zip(detections, several, strict=True))
        _draw_objects(drawn, detections, colors)
        taken: list[Rectangle] = []
        numbers = detections.track_names()
        for ((name, score, box), color), number in zip(found, numbers, strict=True):
            text = f"{name} #{number} {100 * score:.0f}" if number else f"{name} {100 * score:.0f}"
            _draw_name(drawn, text, box, color, taken)
    if caption:
        _draw_caption(drawn, caption)
    return drawn


def _draw_objects(drawn: Image, detections: Detections, colors: list[Color]) -> None:
    """Boxes and keypoints, the best last, so that it lies on top."""
    line, corners = _measures(drawn)[0], detections.corners()
    for index in reversed(range(len(detections))):
        if corners is None:
            x1, y1, x2, y2 = detections.boxes[index].tolist()
            _draw_box(drawn, (x1, y1, x2, y2), colors[index])
        else:
            draw_oriented_box(drawn, corners[index], colors[index], line)
        if detections.keypoints is not None:
            draw_keypoints(drawn, detections.keypoints[index], colors[index], line)


def _colored(image: Image) -> Image:
    if image.ndim == 2 or image.shape[2] == 1:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR).astype(np.uint8, copy=False)
    if image.shape[2] == 4:
        return cv2.cvtColor(image, cv2.COLOR_BGRA2BGR).astype(np.uint8, copy=False)
    return image.copy()


def _with_mask(drawn: Image, mask: Image) -> Image:
    table = np.zeros((256, 1, 3), np.uint8)
    for class_id in range(1, 256):
        table[class_id] = PIXELS[1 + (class_id - 1) % (len(PIXELS) - 1)]
    colors = cv2.LUT(cv2.cvtColor(mask, cv2.COLOR_GRAY2BGR), table)
    blended = cv2.addWeighted(drawn, 1 - OPACITY, colors, OPACITY, 0)
    return np.where(mask[..., None] > 0, blended, drawn).astype(np.uint8, copy=False)


def _measures(drawn: Image) -> tuple[int, float, int]:
    """Thickness of lines, scale of text, and its thickness, for an image of that size."""
    size = max(drawn.shape[:2]) / USUAL
    scale = min(max(0.5 * size, 0.3), 1.4)
    return max(1, round(2 * size)), scale, 2 if scale > 0.8 else 1


def _pixels(drawn: Image, box: Box) -> Rectangle:
    """Left, top, right, bottom: a box from 0 to 10 covers the pixels 0 to 9."""
    height, width = drawn.shape[:2]
    left, top = min(int(box[0]), width - 1), min(int(box[1]), height - 1)
    return left, top, max(left, math.ceil(box[2]) - 1), max(top, math.ceil(box[3]) - 1)


def _draw_box(drawn: Image, box: Box, color: Color) -> None:
    line = _measures(drawn)[0]
    left, top, right, bottom = _pixels(drawn, box)
    if line > 1:
        # A dark edge, to be seen before any background.
        cv2.rectangle(drawn, (left, top), (right, bottom), DARK, line + 2)
    cv2.rectangle(drawn, (left, top), (right, bottom), color, line)


def _draw_name(drawn: Image, text: str, box: Box, color: Color, taken: list[Rectangle]) -> None:
    """A plate above the box, or in it or below; none where there is no room beside ``taken``."""
    height, width = drawn.shape[:2]
    line, scale, weight = _measures(drawn)
    left, top, _, bottom = _pixels(drawn, box)
    (text_width, text_height), below = cv2.getTextSize(text, FONT, scale, weight)
    plate_width, plate_height = text_width + 2 * line + 2, text_height + below + 2
    x = min(max(left - line // 2, 0), width - plate_width)
    for y in (top - plate_height, top, bottom):
        plate = (x, y, x + plate_width, y + plate_height)
        inside = plate_width <= WIDEST * width and y >= 0 and plate[3] <= height
        if inside and not any(_meet(plate, other) for other in taken):
            break
    else:
        return
    taken.append(plate)
    cv2.rectangle(drawn, plate[:2], (plate[2] - 1, plate[3] - 1), color, cv2.FILLED)
    bright = 0.114 * color[0] + 0.587 * color[1] + 0.299 * color[2] > 110
    origin = (x + line + 1, plate[3] - below)
    ink = DARK if bright else LIGHT
    cv2.putText(drawn, text, origin, FONT, scale, ink, weight, cv2.LINE_AA)


def _meet(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _draw_caption(drawn: Image, text: str) -> None:
    """A line at the lower edge on a dark strip, smaller where it would be too wide."""
    height, width = drawn.shape[:2]
    _, scale, weight = _measures(drawn)
    (text_width, _), _ = cv2.getTextSize(text, FONT, scale, weight)
    scale *= min(1.0, 0.96 * width / max(text_width, 1))
    (text_width, text_height), below = cv2.getTextSize(text, FONT, scale, weight)
    strip = text_height + 2 * below
    if scale < 0.25 or strip > height // 3:
        return
    drawn[height - strip :] //= 3
    origin = ((width - text_width) // 2, height - below - below // 2)
    cv2.putText(drawn, text, origin, FONT, scale, LIGHT, weight, cv2.LINE_AA)
