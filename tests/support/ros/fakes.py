"""A network without a network: a bright rectangle is a ball, and inference takes as long as told.

The name of the request's file says how: "name:milliseconds", "broken" and "odd" raise, "slow" loads
for a second, "lost" loses its device at the fourth frame, "changing" is what the file says.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from tvm_vision.errors import DeviceError, PackageError
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import (
    Classification,
    DepthMap,
    Detections,
    SegmentationMask,
    Timing,
)
from tvm_vision.models.results import VisionResult as Result
from tvm_vision.models.thresholds import Thresholds, UsualThresholds
from tvm_vision.runtime.recovery import Losses

NAMES = ("ball", "goalpost", "robot")
PIXELS = ("background", "lines", "field")


class FakeNetwork:
    """Sees nothing."""

    kind = "yoeo"
    produces: tuple[str, ...] = ("detections", "segmentation")
    class_names: tuple[str, ...] = NAMES
    segmentation_names: tuple[str, ...] = PIXELS
    device_description = "a processor of the tests (cpu)"
    device_type = "cpu"
    device_note = ""
    losses = Losses()

    def __init__(self, name: str = "fake", milliseconds: float = 0.0) -> None:
        self.name = name
        self.checksum = f"{name:0<64.64}"
        self.milliseconds = milliseconds
        self.frames = 0

    def warm_up(self) -> None:
        self(np.zeros((4, 4, 3), np.uint8))

    def __call__(self, image: np.ndarray) -> Result:
        return Result(Timing(0.0, 0.0, 0.0))


class FakeModel(Thresholds, FakeNetwork):
    """Finds what is brighter than 200 and calls it a ball; the lower half is field."""

    def __init__(self, name: str = "fake", milliseconds: float = 0.0) -> None:
        FakeNetwork.__init__(self, name, milliseconds)
        Thresholds.__init__(self, self.class_names, UsualThresholds(0.5, 0.4, 300))

    def __call__(self, image: np.ndarray) -> Result:
        self.frames += 1
        if self.name == "lost" and self.frames == 4:
            raise DeviceError("the device was lost: wait for it")
        start = time.perf_counter()
        # Sleeping is what waiting for a GPU is: the interpreter is free meanwhile.
        time.sleep(self.milliseconds / 1e3)
        inference = 1e3 * (time.perf_counter() - start)
        height, width = image.shape[:2]
        mask = np.zeros((height, width), np.uint8)
        mask[height // 2 :] = PIXELS.index("field")
        return Result(
            Timing(0.0, inference, 0.0),
            detections=self._detections(image),
            segmentation=SegmentationMask(mask, self.segmentation_names),
        )

    def _detections(self, image: np.ndarray) -> Detections:
        x, y, width, height = cv2.boundingRect(cv2.inRange(image[..., 1], 200, 255))
        if not width or self.class_rules.confidences[0] > 0.9:
            return Detections.none(self.class_names)
        return Detections(
            np.array([[x, y, x + width, y + height]], np.float32),
            np.array([0.9], np.float32),
            np.zeros(1, np.int32),
            self.class_names,
        )


class FakeClassifier(FakeNetwork):
    kind = "classifier"
    produces = ("classification",)
    class_names = ("cat", "dog")
    segmentation_names = ()

    def __call__(self, image: np.ndarray) -> Result:
        found = Classification((1, 0), ("dog", "cat"), (0.75, 0.25))
        return Result(Timing(0.0, 0.0, 0.0), classification=found)


class FakeSeer(FakeModel):
    """Finds a ball with its mask, and depth that grows with the column."""

    produces = ("detections", "masks", "depth")
    segmentation_names = ()

    def __call__(self, image: np.ndarray) -> Result:
        found = super().__call__(image).detections
        assert found is not None
        dense = np.zeros((len(found), *image.shape[:2]), np.bool_)
        for mask, (x1, y1, x2, y2) in zip(dense, found.boxes.astype(int).tolist(), strict=True):
            mask[y1:y2, x1:x2] = True
        depth = np.tile(np.arange(image.shape[1], dtype=np.float32), (image.shape[0], 1))
        return Result(
            Timing(0.0, 0.0, 0.0),
            detections=replace(found, masks=InstanceMasks.from_dense(dense)),
            depth=DepthMap(depth, "metres"),
        )


def load(request) -> FakeNetwork:
    """Stands for model_loader.load_and_warm."""
    name, _, milliseconds = Path(request.model).name.partition(":")
    if name == "changing":
        name = Path(request.model).read_text("utf-8")
    print(f"loading {name}", flush=True)
    if name == "broken":
        raise PackageError("mod.so must have the SHA-256 of mod.json: compile the model again")
    if name == "odd":
        raise RuntimeError("an error that\nnobody expected")
    if name == "slow":
        time.sleep(1.0)
    cls: type[FakeNetwork] = {"classifier": FakeClassifier, "seer": FakeSeer}.get(name, FakeModel)
    model = cls(name, float(milliseconds or 0.0))
    model.warm_up()
    return model
