"""How images are prepared for each family, as its authors do it."""

from __future__ import annotations

from ...package import Preprocessing
from ..classifier.presets import IMAGENET_MEAN, IMAGENET_STD

UNIT = (255.0,) * 3
LINEAR = Preprocessing(interpolation="linear")
# Ultralytics' YOLO, YOLOv5, v6, v7: padded with grey in the middle, RGB, 0 to 1.
GREY_LETTERBOX = Preprocessing(letterbox=True, interpolation="linear", std=UNIT, pad_value=114.0)
# YOLOX: in the corner, BGR, 0 to 255.
CORNER_LETTERBOX = Preprocessing(
    letterbox=True, interpolation="linear", color_order="bgr", pad_value=114.0, pad_corner=True
)
# RT-DETR: to the network's size whatever the aspect, RGB, 0 to 1.
STRETCHED = Preprocessing(stretch=True, interpolation="linear", std=UNIT)
# DETR, most networks for pixels, PicoDet: the same, with mean and deviation of ImageNet's channels.
STRETCHED_IMAGENET = Preprocessing(
    stretch=True, interpolation="linear", mean=IMAGENET_MEAN, std=IMAGENET_STD
)
# SSD from TensorFlow: the pixels themselves; from PyTorch, -1 to 1.
STRETCHED_PIXELS = Preprocessing(stretch=True, interpolation="linear")
STRETCHED_SIGNED = Preprocessing(
    stretch=True, interpolation="linear", mean=(127.0,) * 3, std=(128.0,) * 3
)
# Ultralytics' classifiers: the shorter side to the network's size, the middle of it.
CENTRE_CROP = Preprocessing(interpolation="linear", std=UNIT)
