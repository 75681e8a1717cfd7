"""The images and the clip that come with the demo network: scenes that it was not trained on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from ..runtime.sources import Image, read_image

SEED = 0
FOLDER = Path(__file__).with_name("images")
MODEL = Path(__file__).with_name("yoeo_demo.onnx")


def demo_images() -> list[Path]:
    """Still images, in the order of their names."""
    return sorted(FOLDER.glob("*.jpg"))


def demo_clip() -> Path | None:
    """A short video."""
    return next(iter(sorted(FOLDER.glob("*.mp4"))), None)


def comparison_images() -> Iterator[Image]:
    """Frames to compare two runs of a network on: the demo's images, and blobs of colour.

    The blobs are there for networks that find nothing on the others.
    """
    for path in demo_images():
        yield read_image(path)
    coarse = np.random.default_rng(SEED).integers(0, 256, (12, 16, 3), np.uint8)
    blobs = cv2.resize(coarse, (640, 480), interpolation=cv2.INTER_CUBIC)
    yield blobs.astype(np.uint8, copy=False)
