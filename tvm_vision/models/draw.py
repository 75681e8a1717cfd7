"""Pictures with results drawn onto them, with OpenCV: uint8 [height, width, 3] in BGR."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from .results import Classification

Image = npt.NDArray[np.uint8]

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


def draw_classification(image: Image, result: Classification, *, caption: str = "") -> Image:
    """The picture, scaled to a height of 420 pixels, beside a panel with a bar for each class.

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
