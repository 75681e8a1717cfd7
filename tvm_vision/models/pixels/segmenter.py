"""A network that tells pixels apart, at work: frames in, a mask out."""

from __future__ import annotations

from collections.abc import Iterable
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
    planes = np.ascontiguousarray(scores, np.float32)
    found = _best(enumerate(planes))
    present = np.flatnonzero(np.bincount(found.ravel(), minlength=classes)).tolist()
    if len(present) == 1:
        return np.full(letterbox.image, present[0], np.uint8)
    return _best(
        (class_id, place_in_frame(planes[class_id], letterbox, size, cv2.INTER_LINEAR))
        for class_id in present
    )


def _best(planes: Iterable[tuple[int, Floats]]) -> npt.NDArray[np.uint8]:
    """The class, for each pixel, whose plane of scores is the largest there; of equal ones the
    first. Plane by plane, which is faster than numpy's arg max over the first axis.

    Raises InputError where a score is NaN.
    """
    mask = best = None
    for class_id, plane in planes:
        if mask is None or best is None:
            mask, best = np.full(plane.shape, class_id, np.uint8), plane.copy()
            continue
        np.copyto(mask, np.uint8(class_id), where=plane > best)
        # NaN stays.
        np.maximum(best, plane, out=best)
    assert mask is not None and best is not None  # a network has classes
    refuse_nan(best)
    return mask
