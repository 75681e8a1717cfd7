"""A window for images, where OpenCV was built with one and there is a screen."""

from __future__ import annotations

import os
from types import TracebackType

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError

Image = npt.NDArray[np.uint8]
# Letters and Escape: what people try to close a window.
CLOSING = frozenset({ord("q"), ord("Q"), 27})


class DisplayWindow:
    """A window; used in a ``with``, after which it is gone."""

    def __init__(self, title: str) -> None:
        """Raises InputError where there can be no window."""
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            # OpenCV's Qt would end the process.
            raise InputError(
                "showing images needs a screen, and neither DISPLAY nor WAYLAND_DISPLAY is set: "
                "write them with --save"
            )
        self._title = title
        try:
            cv2.namedWindow(title, cv2.WINDOW_NORMAL | cv2.WINDOW_KEEPRATIO)
        except cv2.error:
            raise InputError(
                "showing images needs an OpenCV with windows, and the one installed has none: "
                "pip install opencv-python instead of opencv-python-headless, or use --save"
            ) from None

    def show(self, image: Image, *, wait: bool = False) -> bool:
        """Show an image; ``wait`` until a key is pressed. False where the window is to close."""
        cv2.imshow(self._title, image)
        key = cv2.waitKey(0 if wait else 1) & 0xFF
        return key not in CLOSING and cv2.getWindowProperty(self._title, cv2.WND_PROP_VISIBLE) >= 1

    def __enter__(self) -> DisplayWindow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cv2.destroyWindow(self._title)
