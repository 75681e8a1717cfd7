"""A network whose outputs are of every form, and packages of it: for the runner's tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from support import kind_networks
from tvm_vision.api import compile as compile_network
from tvm_vision.package import (
    ClassGroup,
    DepthInfo,
    DetectionInfo,
    ModelInfo,
    Preprocessing,
    SegmentationInfo,
    YoeoHead,
    YoeoInfo,
    read_package,
    unpack_package,
)
from tvm_vision.package.files import repack_package

SIZE = (64, 96)
CELLS = 126  # of strides 8, 16 and 32 over an input of SIZE
NAMES = ("ball", "post", "robot")
PLAIN = Preprocessing(SIZE, letterbox=True, std=(255.0,) * 3, interpolation="linear")
# Height, width, channels: larger, smaller, turned, a strip, and the input's own size.
IMAGES = (
    (90, 130, 3), (40, 50, 3), (200, 61, 3), (7, 300, 3), (64, 96, 3), (90, 130, 1), (50, 70, 4)
)  # fmt: skip


def random_outputs() -> dict[str, np.ndarray]:
    """Outputs for every way to read them, by name."""
    rng = np.random.default_rng(11)

    def rows(*more: int) -> np.ndarray:
        """Boxes as centre and sides, scores, and values."""
        centre = rng.uniform((0, 0), SIZE[::-1], (CELLS, 2))
        parts = [centre, rng.uniform(4, 40, (CELLS, 2)), rng.random((CELLS, 4))]
        parts += [rng.uniform(-2, 2, (CELLS, count)) for count in more]
        return np.concatenate(parts, axis=1).astype(np.float32)[None]

    def values(*shape: int) -> np.ndarray:
        return rng.normal(0, 2, shape).astype(np.float32)

    corners = np.sort(rng.random((1, 40, 2, 2)), axis=2).reshape(1, 40, 4).astype(np.float32)
    plain = rows()
    raw = values(1, CELLS, 8)
    raw[..., :2] = rng.random((CELLS, 2))
    found = {
        "logits": values(1, 3),
        "plain": plain,
        "transposed": np.ascontiguousarray(np.delete(plain, 4, axis=2).transpose(0, 2, 1)),
        "raw": raw,
        "extra": rows(4),
        "oriented": rows(1),
        "points": rows(6),
        "corners": corners,
        "classes": rng.integers(1, 4, 40),
        "likely": rng.random(40).astype(np.float32),
        "number": np.array([30]),
        "queries": values(1, 40, 4),
        "best": np.concatenate(
            (
                corners * 60,
                rng.random((1, 40, 1), np.float32),
                rng.integers(0, 3, (1, 40, 1)).astype(np.float32),
            ),
            axis=2,
        ),
        "far": values(1, CELLS, 32),
        "sure": rng.random((1, CELLS, 3)).astype(np.float32),
        "prototypes": values(1, 4, 16, 24),
        "anchors8": values(1, 2, 8, 12, 8),
        "anchors16": values(1, 2, 4, 6, 8),
        "head8": values(1, 16, 8, 12),
        "head16": values(1, 16, 4, 6),
        "pixels": np.kron(rng.integers(0, 3, (1, 8, 12)), np.ones((8, 8), np.int64)),
        "scores": values(1, 3, 16, 24),
        "scores_last": values(1, 16, 24, 3),
        "logit": values(1, 1, 16, 24),
        # Smooth, since OpenCV places values to the 32nd part of a pixel.
        "depth": cv2.resize(rng.uniform(1, 9, (3, 4)).astype(np.float32), (24, 16))[None],
    }
    height, width = SIZE
    found["parts"] = found["points"].copy()
    found["parts"][..., :4] /= np.array([width, height] * 2, np.float32)
    found["prototypes_last"] = np.ascontiguousarray(found["prototypes"].transpose(0, 2, 3, 1))
    return found


def yolo(boxes: str, **more: Any) -> ModelInfo:
    return ModelInfo("yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo((boxes,), **more))


ANCHORS: dict[str, Any] = {
    "box": "anchors", "strides": (8, 16), "row": "objectness", "activation": "sigmoid",
    "anchors": (8.0, 12.0, 20.0, 30.0, 16.0, 10.0, 40.0, 50.0), "confidence": 0.6,
}  # fmt: skip
GRID = {"strides": (8, 16, 32), "row": "objectness"}
HEADS = tuple(YoeoHead(f"head{stride}", stride, ((8.0, 12.0), (20.0, 30.0))) for stride in (8, 16))
GROUPS = (ClassGroup("thing", ("ball", "post")),)
# A class above the usual confidence, one below, and one of which nothing is said.
UNLIKE: dict[str, Any] = {"class_thresholds": {"ball": 0.7, "robot": 0.1}}
MODELS = {
    "classifier": ModelInfo("c", "classifier", NAMES, Preprocessing(SIZE)),
    "scores": yolo("transposed", transposed=True),
    "objectness": yolo("plain", row="objectness", multi_label=True, across_classes=True),
    "grid": yolo("raw", box="grid", activation="sigmoid", confidence=0.6, **GRID),
    "anchors": ModelInfo(
        "yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo(("anchors8", "anchors16"), **ANCHORS)
    ),
    "anchors as convolved": ModelInfo(
        "yolo", "yolo", NAMES, PLAIN, detection=DetectionInfo(("head8", "head16"), **ANCHORS)
    ),
    "best": yolo("best", box="xyxy", row="best", suppress=False, confidence=0.5),
    "softmax": yolo(
        "corners", relative=True, scores=("queries",), activation="softmax", background="last",
        suppress=False, confidence=0.4,
    ),
    "apart": yolo(
        "corners", box="yxyx", relative=True, scores=("likely",), classes="classes",
        first_class=1, count="number",
    ),
    "distances": yolo("far", box="distances", scores=("sure",), strides=(8, 16, 32)),
    "masks": yolo("extra", row="objectness", prototypes="prototypes", confidence=0.6),
    "keypoints": yolo("points", row="objectness", keypoints=2, confidence=0.6),
    "masks of channels last": yolo(
        "extra", row="objectness", prototypes="prototypes_last", prototypes_last=True,
        confidence=0.6,
    ),
    "keypoints as parts": yolo(
        "parts", row="objectness", keypoints=2, confidence=0.6, relative=True
    ),
    "oriented": yolo("oriented", row="objectness", oriented=True, confidence=0.6),
    "yoeo": ModelInfo(
        "y", "yoeo", NAMES, PLAIN,
        yoeo=YoeoInfo("plain", segmentation="pixels", segmentation_labels=NAMES, groups=GROUPS),
    ),
    "heads": ModelInfo("h", "yoeo", NAMES, PLAIN, yoeo=YoeoInfo(heads=HEADS)),
    "yolo of unlike classes": replace(
        yolo("plain", row="objectness", multi_label=True, across_classes=True), **UNLIKE
    ),
    "yoeo of unlike classes": ModelInfo(
        "h", "yoeo", NAMES, PLAIN, yoeo=YoeoInfo(heads=HEADS), **UNLIKE
    ),
    "segments": ModelInfo(
        "s", "segmenter", NAMES, PLAIN, segmentation=SegmentationInfo("scores")
    ),
    "segments_last": ModelInfo(
        "s", "segmenter", NAMES, replace(PLAIN, letterbox=False, stretch=True),
        segmentation=SegmentationInfo("scores_last", channels_last=True),
    ),
    "indices": ModelInfo(
        "s", "segmenter", NAMES, PLAIN, segmentation=SegmentationInfo("pixels", "indices")
    ),
    "logit": ModelInfo(
        "s", "segmenter", NAMES[:2], PLAIN, segmentation=SegmentationInfo("logit", "logit")
    ),
    "depth": ModelInfo("d", "depth", (), PLAIN, depth=DepthInfo("depth", "metres")),
    "depth_stretched": ModelInfo(
        "d", "depth", (), replace(PLAIN, letterbox=False, stretch=True),
        depth=DepthInfo("depth", inverse=True),
    ),
}  # fmt: skip
PREPARATIONS = {
    "area": Preprocessing(SIZE, crop=0.875, mean=(124.0, 116.0, 104.0), std=(58.0, 57.0, 56.5)),
    "cubic": Preprocessing(SIZE, interpolation="cubic", color_order="bgr"),
    "linear": Preprocessing(SIZE, interpolation="linear", letterbox=True),
    "nearest": Preprocessing(SIZE, interpolation="nearest", stretch=True),
    "corner": Preprocessing(SIZE, letterbox=True, pad_corner=True, pad_value=114.0),
}


def unpacked_of(channels: int, folder: Path) -> Path:
    outputs = random_outputs()
    model = kind_networks.write(folder / "all.onnx", outputs, size=SIZE, channels=channels)
    path = compile_network(model, folder / "all.tar", target="llvm", opt_level=1)
    unpack_package(path, folder / "all")
    return folder / "all"


def package_of(unpacked: Path, model: ModelInfo, folder: Path, **more: Any) -> Path:
    """A package of the same network that says something else of it."""
    with read_package(unpacked) as package:
        info = replace(package.info, model=model, **more)
    edited = folder / "edited"
    shutil.copytree(unpacked, edited, dirs_exist_ok=True)
    (edited / "mod.json").write_bytes(info.to_bytes())
    repack_package(edited, folder / "package.tar")
    return folder / "package.tar"


def images() -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    for height, width, count in IMAGES:
        noise = rng.integers(0, 256, (height, width, count), np.uint8)
        smooth = cv2.blur(noise, (5, 5)).reshape(noise.shape)
        yield f"{height}x{width}x{count}", smooth


def assert_close(mask: np.ndarray, expected: np.ndarray) -> None:
    """The same classes; which of two pixels a place between them belongs to differs from one
    version of OpenCV to the next."""
    around = np.pad(expected, 1, mode="edge")
    height, width = expected.shape
    shifts = [around[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    assert mask.shape == expected.shape and np.any([mask == one for one in shifts], axis=0).all()
    assert np.mean(mask != expected) <= (0.02 if min(expected.shape) > 32 else 0.15)
