"""One image as the inputs of a network, prepared as its package says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..package import ModelInfo, TensorInfo
from ..runtime.inputs import input_specs
from .classifier.preprocess import ClassifierInput, as_input, prepare
from .frames import Preprocessor, in_layout


def image_inputs(
    info: Mapping[str, Any], image: npt.NDArray[np.uint8]
) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name, the image repeated where the network takes several at once.

    info: mod.json. image: uint8 [height, width, 3] in BGR.

    Raises InputError where the package does not say how images are prepared.
    """
    model = ModelInfo.from_json(info["model"])
    return prepared_image(
        model, input_specs(info), image, remedy="compile it with --preprocess, or pass --inputs"
    )


def prepared_image(
    model: ModelInfo, specs: Sequence[TensorInfo], image: npt.NDArray[np.uint8], *, remedy: str
) -> dict[str, npt.NDArray[Any]]:
    """The same from what a package says of the model and its inputs.

    remedy: what can be done, for the message where nothing is said of images.
    """
    if model.kind == "yoeo" and len(specs) == 1 and specs[0].layout == "NHWC":
        height, width = specs[0].shape[1:3]
        frame = cv2.resize(image, (width, height)).astype(np.uint8, copy=False)
        return {specs[0].name: frame[np.newaxis]}
    if model.preprocessing is None or len(specs) != 1 or not specs[0].layout:
        needed = "; ".join(map(str, specs))
        raise InputError(
            f"a network with one input of four axes and preprocessing is needed for an image, and "
            f"'{model.name}' takes {needed}: {remedy}"
        )
    if model.kind not in ("network", "classifier"):
        preprocessor = Preprocessor(model.preprocessing)
        preprocessor(image)
        tensor = in_layout(preprocessor.tensor, specs[0].layout)
    else:
        config = ClassifierInput.from_package(model.preprocessing, specs[0].layout)
        tensor = prepare(image, config, color_order="bgr")
    repeated = np.broadcast_to(tensor, specs[0].shape)
    return {specs[0].name: as_input(repeated, specs[0])}
