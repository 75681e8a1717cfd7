"""A YOEO network at work: frames in, boxes and a mask out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...package import Preprocessing, TensorInfo, YoeoInfo
from ...runtime.graph_executor import GraphExecutor
from ...runtime.inputs import input_specs
from ...tvm_compat.ffi import tvm_ffi
from ..class_options import Given
from ..frames import CameraFrames, Letterbox, Preprocessor
from ..results import VisionResult
from ..thresholds import Thresholds, UsualThresholds
from ..vision_model import WARM_UP_SHAPE, Image, VisionModel
from .postprocess import decoded_rows, find_detections, find_mask, group_numbers, head_rows

CONFIDENCE = 0.5
IOU = 0.4
MAX_DETECTIONS = 300


class YoeoDetector(Thresholds, VisionModel):
    """A YOEO network of a package; preprocessing, names and groups come from there.

    ``YoeoDetector.load(path)`` or ``load_model(path)`` make one.
    """

    def __init__(
        self,
        executor: GraphExecutor,
        *,
        confidence: float | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
        class_options: Given | None = None,
    ) -> None:
        """confidence: of objectness, and of objectness * class score; None: 0.5, and what the
        package says of single classes. iou: of the boxes of a class or group; None: 0.4. They,
        max_detections (None: 300) and class_options are properties, by which they can be changed;
        see ``Thresholds``.

        Raises InputError where the package's network is no YOEO network, or for other values.
        """
        VisionModel.__init__(self, executor)
        usual = UsualThresholds(CONFIDENCE, IOU, MAX_DETECTIONS, self._model.class_thresholds)
        Thresholds.__init__(
            self,
            self.class_names,
            usual,
            confidence=confidence,
            iou=iou,
            max_detections=max_detections,
            class_options=class_options,
        )
        self._info, self._preprocessing, spec = _parts(self._model, input_specs(executor.info))
        self._preprocessor: Preprocessor | CameraFrames
        if spec.dtype == "uint8":
            self._preprocessor = CameraFrames((spec.shape[1], spec.shape[2]), self._preprocessing)
        else:
            self._preprocessor = Preprocessor(self._preprocessing)
        self._groups = group_numbers(self.class_names, self._info.groups)
        self._input = spec.name
        # The same memory as the preprocessor's array: set_input copies once.
        self._tensor = tvm_ffi.from_dlpack(self._preprocessor.tensor)

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to a frame, here or on the device."""
        return self._preprocessing

    @property
    def frame_size(self) -> tuple[int, int] | None:
        """Height and width of the frames that it takes; None where any will do."""
        frames = self._preprocessor
        return frames.frame if isinstance(frames, CameraFrames) else None

    @property
    def class_groups(self) -> npt.NDArray[np.int32]:
        """For each class a number that it shares with the classes whose boxes it suppresses."""
        return self._groups

    @property
    def segmentation_names(self) -> tuple[str, ...]:
        return self._info.segmentation_labels

    def __call__(self, image_bgr: Image) -> VisionResult:
        """Boxes and mask of one frame.

        image_bgr: uint8 [height, width, 3] in BGR; grey and BGRA are taken too. A network without
        boxes or without a segmentation gives None for it.

        Raises InputError for what is no image, and for outputs that are NaN.
        """
        return self._in_stages(image_bgr, self._preprocessor, self.run_prepared, self.interpret)

    def warm_up(self) -> None:
        height, width = self.frame_size or WARM_UP_SHAPE[:2]
        self(np.zeros((height, width, 3), np.uint8))

    def prepare(self, image_bgr: Image) -> tuple[npt.NDArray[Any], Letterbox]:
        """The network's input for a frame, in memory that the next frame overwrites, and where the
        frame lies in it."""
        letterbox = self._preprocessor(image_bgr)
        return self._preprocessor.tensor, letterbox

    def run_prepared(self) -> dict[str, npt.NDArray[Any]]:
        """The network's outputs by name for the frame that ``prepare`` was called with."""
        return self.real_outputs(self._executor.frame({self._input: self._tensor}))

    def interpret(
        self, outputs: dict[str, npt.NDArray[Any]], letterbox: Letterbox
    ) -> dict[str, Any]:
        """Parts of a VisionResult by name, None for one that the network has not, of outputs by
        name and the place of their frame."""
        info = self._info
        detections = segmentation = None
        if info.detections or info.heads:
            rules = self.class_rules
            if info.detections:
                rows = decoded_rows(outputs[info.detections], rules.least)
            else:
                rows = head_rows(outputs, info.heads, rules.least)
            detections = find_detections(
                rows,
                self.class_names,
                self._groups,
                letterbox,
                confidence=rules.least,
                iou=self.iou,
                limit=self.max_detections,
                rules=rules,
            )
        if info.segmentation:
            output = outputs[info.segmentation]
            segmentation = find_mask(output, info.segmentation_labels, letterbox)
        return {"detections": detections, "segmentation": segmentation}


def _parts(model: Any, specs: list[TensorInfo]) -> tuple[YoeoInfo, Preprocessing, TensorInfo]:
    """What is needed of a package. Raises InputError where it is not there."""
    info, preprocessing = model.yoeo, model.preprocessing
    if model.kind == "classifier":
        raise InputError(
            f"a YOEO network is needed, and '{model.name}' is a classifier: 'tvm-vision classify' "
            "runs it, in Python ImageClassifier"
        )
    if info is None or preprocessing is None:
        raise InputError(
            f"a YOEO network is needed, and '{model.name}' ({model.kind}) is none or does not say "
            "what its outputs are: compile it by yoeo-onnx-to-tvm, or with --kind yoeo"
        )
    shape = (1, 3, *preprocessing.size)
    if len(specs) == 1:
        spec = specs[0]
        if spec.dtype == "float32" and spec.shape == shape:
            return info, preprocessing, spec
        frames = spec.dtype == "uint8" and spec.steps is None
        if frames and len(spec.shape) == 4 and spec.shape[::3] == (1, 3):
            return info, preprocessing, spec
    found = "; ".join(map(str, specs))
    raise InputError(
        f"an input float32{list(shape)} or uint8[1, height, width, 3] is needed, '{model.name}' "
        f"has {found}"
    )
