"""A network that sees how far away everything is, at work: frames in, depth out."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from ...package.pixels import plane_of
from ..frame_model import Arrays, FrameModel
from ..frames import Letterbox
from ..place import place_in_frame
from ..results import DepthMap


class DepthEstimator(FrameModel):
    """A network of kind depth: how its output is read stands in its package.

    ``DepthEstimator.load(path)`` or ``load_model(path)`` make one.
    """

    part = "depth"

    def interpret(self, outputs: Arrays, letterbox: Letterbox) -> dict[str, Any]:
        info = self._model.depth
        assert info is not None  # FrameModel has looked for it
        output = outputs[info.output]
        plane = output.reshape(plane_of(output.shape)).astype(np.float32, copy=False)
        values = place_in_frame(plane, letterbox, self.size, cv2.INTER_LINEAR)
        return {"depth": DepthMap(values, info.unit, info.inverse)}
