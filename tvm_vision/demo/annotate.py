"""Writes each photo of a demo run with its classes drawn beside it."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..models.draw import draw_classification
from ..runtime.sinks import write_png
from ..runtime.sources import read_image
from ..whole_files import why_not
from .classify import ClassifyDemoResult


def write_images(result: ClassifyDemoResult, folder: Path) -> list[Path]:
    """One PNG a photo; returns their paths. Raises InputError where the folder is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"'{folder}' cannot be made {why_not(error)}") from None
    device = result.device.description.partition(";")[0].partition(" (")[0]
    caption = f"{result.network}, {result.inference_ms:.1f} ms, {device}"
    written = []
    for photo in result.photos:
        image = draw_classification(read_image(photo.photo), photo.ours, caption=caption)
        path = folder / f"{photo.photo.stem}.png"
        write_png(path, image)
        written.append(path)
    return written
