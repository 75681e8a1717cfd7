"""The pictures and the clip that come with the demo network: scenes that it was not trained on."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("pictures")
MODEL = Path(__file__).with_name("yoeo_demo.onnx")


def demo_pictures() -> list[Path]:
    """Still pictures, in the order of their names."""
    return sorted(FOLDER.glob("*.jpg"))


def demo_clip() -> Path | None:
    """A short video."""
    return next(iter(sorted(FOLDER.glob("*.mp4"))), None)
