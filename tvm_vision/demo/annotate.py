"""Writes each photo of a demo run with its classes drawn beside it."""

from __future__ import annotations

from pathlib import Path

import cv2

from ..errors import InputError
from ..models.draw import draw_classification
from ..runtime.sources import read_image
from ..whole_files import write_whole
from .classify import ClassifyDemoResult


def write_images(result: ClassifyDemoResult, folder: Path) -> list[Path]:
    """One PNG a photo; returns their paths. Raises InputError where the folder is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"'{folder}' cannot be made ({error.strerror}): choose another") from None
    device = result.device.description.partition(";")[0].partition(" (")[0]
    caption = f"{result.network}, {result.inference_ms:.1f} ms, {device}"
    written = []
    for photo in result.photos:
        image = draw_classification(read_image(photo.photo), photo.ours, caption=caption)
        path = folder / f"{photo.photo.stem}.png"
        encoded, data = cv2.imencode(".png", image)
        if not encoded:
            raise InputError(f"OpenCV cannot write PNG, so '{path}' was not written")
        write_whole(path, data.tobytes())
        written.append(path)
    return written
