"""Samples for what reads files in C++, which scripts/fuzz_native.sh fuzzes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from support import fleets, keys, packages
from support.module_bytes import module_bytes
from tvm_vision.package import Fleet
from tvm_vision.package.signature import PrivateKey, Statement

from .targets import TARGETS

# All fields that the reader in C++ looks at, each with a value that is right.
_KINDS = {
    "yoeo": {
        "detections": "", "segmentation": "mask", "segmentation_labels": ["field", "line"],
        "heads": [{"output": "head", "stride": 32, "anchors": [[10, 14], [23.5, 27]]}],
        "groups": [{"classes": ["cat", "dog"]}],
    },
    "detection": {
        "boxes": ["boxes"], "transposed": True, "box": "grid", "relative": False,
        "strides": [8, 16], "row": "objectness", "scores": ["scores"],
        "classes": "", "first_class": 0, "count": "",
        "activation": "sigmoid", "background": "none", "multi_label": False, "suppress": True,
        "across_classes": False, "prototypes": "", "keypoints": 17, "keypoint_values": 3,
        "oriented": False, "confidence": 0.25, "iou": 0.45, "max_detections": 300,
    },
    "segmentation": {
        "output": "y", "form": "logit", "channels_last": True, "threshold": 0.5,
    },
    "depth": {"output": "y", "unit": "metres", "inverse": True},
    "class_thresholds": {"dog": 0.5},
    "preprocessing": {
        "size": [64, 96], "letterbox": True, "stretch": False, "crop": 1.0, "pad_value": 114,
        "interpolation": "linear", "color_order": "rgb", "mean": [0, 0, 0], "std": [255, 255, 255],
        "pad_corner": False,
    },
}  # fmt: skip
_STEPS = {"scale": 0.5, "zero_point": -3, "dtype": "float32"}


def _infos() -> list[bytes]:
    plain, full = packages.sample_info(), packages.sample_info()
    full["model"].update(_KINDS)
    full["inputs"][0]["quantization"] = _STEPS
    target = {"kind": "vulkan", "device_name": "GPU", "thread_warp_size": 32, "keys": ["gpu"]}
    variants = (
        fleets.variant("v2", {"kind": "llvm", "mcpu": "x86-64-v2"}, processor=fleets.V2),
        fleets.variant("gpu", target),
        fleets.variant("arm", {"kind": "llvm"}, "aarch64"),
    )
    fleet = Fleet("net", "network", variants).to_bytes()
    return [*(json.dumps(each).encode() for each in (plain, full)), fleet]


def _signatures() -> list[bytes]:
    """By the key that cpp/tests/fuzz_readers.cc has, of the mod.json that it has."""
    with tempfile.TemporaryDirectory() as folder:
        key = PrivateKey.read(keys.make_keys(Path(folder), "fuzz")[0])
    return [Statement.of(b"{}", {"renoir": b"{}"}).signed_by(key)]


def _keys() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        found = [keys.make_keys(Path(folder), name)[1].read_bytes() for name in ("one", "other")]
    return [found[0], b"".join(found)]


NATIVE: dict[str, Callable[[], list[bytes]]] = {
    "module": lambda: [module_bytes()],
    "members": TARGETS["package"].samples,
    "cpp_info": _infos,
    "cpp_params": TARGETS["params"].samples,
    "cpp_signature": _signatures,
    "keys": _keys,
    "text": lambda: ["größer\n\x7f \N{PILE OF POO}\u2028".encode(), b"\xff\xc0\x80", b"x" * 400],
}
