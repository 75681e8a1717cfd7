"""A network that tells pixels apart, at work: frames in, a mask out."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import SegmentationInfo
from ...package.pixels import plane_of
from ..frame_model import Arrays, FrameModel
from ..frames import Letterbox
from ..place import place_in_frame
from ..results import SegmentationMask
from ..values import Floats, refuse_nan


class Segmenter(FrameModel):
    """A network of kind segmenter: how its output is read stands in its package.

    ``Segmenter.load(path)`` or ``load_model(path)`` make one.
    """

    part = "segmentation"
    produces = ("segmentation",)

    @property
    def class_names(self) -> tuple[str, ...]:
        return ()

    @property
    def segmentation_names(self) -> tuple[str, ...]:
        return self._model.labels

    def interpret(self, outputs: Arrays, letterbox: Letterbox) -> dict[str, Any]:
        info = self._model.segmentation
        assert info is not None  # FrameModel has looked for it
        classes = len(self._model.labels)
        mask = read_classes(outputs[info.output], info, classes, letterbox, self.size)
        return {"segmentation": SegmentationMask(mask, self._model.labels)}


def read_classes(
    output: npt.NDArray[Any],
    info: SegmentationInfo,
    classes: int,
    letterbox: Letterbox,
    size: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """The class of each pixel of the frame, uint8 [height, width].

    output: as ``info`` says, of any size. size: height and width of the network's input.

    Scores are resized, linearly, before the best is chosen, of those classes that are the best
    anywhere in the output: edges are smooth at any stride, and others cost nothing.
    """
    if info.form == "indices":
        plane = output.reshape(plane_of(output.shape))
        low, high = int(plane.min()), int(plane.max())
        if low < 0 or high >= classes:
            raise InputError(
                f"classes of 0 to {classes - 1} are needed from the network, found {low} to "
                f"{high}: compile it with --labels that name them all"
            )
        return place_in_frame(plane.astype(np.uint8), letterbox, size, cv2.INTER_NEAREST)
    if info.form == "logit":
        plane = output.reshape(plane_of(output.shape)).astype(np.float32, copy=False)
        refuse_nan(plane)
        values = place_in_frame(plane, letterbox, size, cv2.INTER_LINEAR)
        return (values > info.threshold).view(np.uint8)
    scores = output[0].transpose(2, 0, 1) if info.channels_last else output[0]
    refuse_nan(scores.max(axis=0))
    return _best(scores, letterbox, size)


def _best(
    scores: npt.NDArray[Any], letterbox: Letterbox, size: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """Of scores [classes, rows, columns] the best class for each pixel of the frame; of equal ones
    the first."""
    present = np.unique(scores.argmax(axis=0)).tolist()
    mask = np.full(letterbox.image, present[0], np.uint8)
    if len(present) == 1:
        return mask
    best: Floats | None = None
    for class_id in present:
        plane = np.ascontiguousarray(scores[class_id], np.float32)
        values = place_in_frame(plane, letterbox, size, cv2.INTER_LINEAR)
        if best is None:
            best = values
            continue
        better = values > best
        mask[better] = class_id
        np.maximum(best, values, out=best)
    return mask
