"""The demo's networks: where their weights come from and how their images are prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .mobilenet_v2 import export_mobilenet_v2
from .weights import SHAPE, export_efficientnet_lite0

__all__ = ["NETWORKS", "SHAPE", "DemoNetwork", "find_network"]


@dataclass(frozen=True)
class DemoNetwork:
    """A classifier of ImageNet's 1000 classes for images of SHAPE.

    name: for files and options; title: for people. preprocessing: name of a preset. export: writes
    it as ONNX.
    """

    name: str
    title: str
    preprocessing: str
    export: Callable[[Path], None]


NETWORKS = {
    network.name: network
    for network in (
        DemoNetwork(
            "efficientnet-lite0",
            "EfficientNet-Lite0",
            "efficientnet-lite",
            export_efficientnet_lite0,
        ),
        DemoNetwork("mobilenet-v2", "MobileNetV2", "imagenet", export_mobilenet_v2),
    )
}


def find_network(name: str) -> DemoNetwork:
    """The network of that name. Raises InputError for another."""
    if name not in NETWORKS:
        raise InputError(f"a network of {', '.join(NETWORKS)} is needed, found '{name}'")
    return NETWORKS[name]
