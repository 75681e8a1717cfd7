"""YOEO: boxes and a mask from one network. config.py, layers.py: what a .cfg file says; network.py,
weights.py: the same in PyTorch (imported only there); export.py: as ONNX. detector.py, with
preprocess.py, postprocess.py and nms.py: a package at work.
"""

from __future__ import annotations

from typing import Any

__all__ = ["YoeoDetector"]


def __getattr__(name: str) -> Any:
    # On first use: exporting a network needs neither OpenCV nor a device.
    if name != "YoeoDetector":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from .detector import YoeoDetector

    return YoeoDetector
