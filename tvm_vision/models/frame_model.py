"""A network that sees a whole frame, and says where in it something is."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ..errors import InputError
from ..runtime.graph_executor import GraphExecutor
from ..runtime.inputs import input_specs, numpy_dtype
from .classifier.preprocess import as_input, write_input
from .frames import Letterbox, Preprocessor, in_layout
from .results import VisionResult
from .vision_model import Image, VisionModel

Arrays = dict[str, npt.NDArray[Any]]


class FrameModel(VisionModel):
    """Prepares a frame as the package says, runs the network, and lets its kind interpret the
    outputs."""

    #: Of ModelInfo, the part that says how outputs are read.
    part: str

    def __init__(self, executor: GraphExecutor) -> None:
        """executor: what tvm_vision.load returns.

        Raises InputError where the package does not say how frames are prepared, or outputs read.
        """
        super().__init__(executor)
        model, specs = self._model, input_specs(executor.info)
        if model.preprocessing is None or getattr(model, self.part) is None:
            raise InputError(
                f"a network whose package says how its outputs are read is needed, and that of "
                f"'{model.name}' ({model.kind}) does not: compile it with --kind {model.kind}"
            )
        size, channels = model.preprocessing.size, model.preprocessing.channels
        shapes: dict[tuple[int, ...], str] = {
            (1, channels, *size): "NCHW",
            (1, *size, channels): "NHWC",
        }
        if channels == 1:
            shapes |= {(1, *size): "NHW"}
        if len(specs) != 1 or specs[0].shape not in shapes:
            found = "; ".join(map(str, specs))
            needed = " or ".join(str(list(shape)) for shape in shapes)
            raise InputError(f"one input {needed} is needed, '{model.name}' has {found}")
        self.size = size
        #: What is done to a frame.
        self.preprocessing = model.preprocessing
        self._preprocessor = Preprocessor(model.preprocessing)
        self._spec = specs[0]
        # numpy's own types, which all but bfloat16 are.
        self._in_place = numpy_dtype(self._spec.dtype).isbuiltin == 1
        self._tensor = in_layout(self._preprocessor.tensor, shapes[specs[0].shape])

    def __call__(self, image_bgr: Image) -> VisionResult:
        """What the network says about one frame, uint8 [height, width, 3] in BGR; grey and BGRA are
        taken too.

        Raises InputError for what is no image, and for outputs that make no sense.
        """
        return self._in_stages(
            image_bgr, lambda image: self.prepare(image)[1], self.run_prepared, self.interpret
        )

    def prepare(self, image_bgr: Image) -> tuple[npt.NDArray[Any], Letterbox]:
        """The network's input for a frame, in memory that the next frame overwrites, and where the
        frame lies in it."""
        letterbox = self._preprocessor(image_bgr)
        return as_input(self._tensor, self._spec), letterbox

    def run_prepared(self) -> Arrays:
        """The network's outputs by name for the frame that ``prepare`` was called with; float32
        where its integers stand for real numbers."""
        prepared: Any = self._write if self._in_place else as_input(self._tensor, self._spec)
        return self.real_outputs(self._executor.frame({self._spec.name: prepared}))

    def _write(self, into: npt.NDArray[Any]) -> None:
        write_input(self._tensor, self._spec, into)

    def interpret(self, outputs: Arrays, letterbox: Letterbox) -> dict[str, Any]:
        """Parts of a VisionResult by name, of outputs by name and the place of their frame."""
        raise NotImplementedError
