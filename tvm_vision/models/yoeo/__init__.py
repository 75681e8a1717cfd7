"""YOEO: boxes and a mask from one network. config.py, layers.py: what a .cfg file says; network.py,
weights.py: the same in PyTorch (imported only there); export.py: as ONNX. detector.py, with
postprocess.py: a package at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy_names

if TYPE_CHECKING:
    from .detector import YoeoDetector

__all__ = ["YoeoDetector"]

if not TYPE_CHECKING:  # for which no name would be a wrong one
    # On first use: exporting a network needs neither OpenCV nor a device.
    __getattr__, __dir__ = lazy_names(__name__, {"YoeoDetector": ".detector"})
