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
    remedies = ("compile it with --preprocess", "pass --inputs")
    return prepared_image(model, input_specs(info), image, remedies=remedies)


def prepared_image(
    model: ModelInfo,
    specs: Sequence[TensorInfo],
    image: npt.NDArray[np.uint8],
    *,
    remedies: tuple[str, str],
) -> dict[str, npt.NDArray[Any]]:
    """The same from what a package says of the model and its inputs.

    remedies: what can be done where the network takes an image but nothing says how, and where it
    takes other arrays.
    """
    if model.kind == "yoeo" and len(specs) == 1 and specs[0].layout == "NHWC":
        height, width = specs[0].shape[1:3]
        frame = cv2.resize(image, (width, height)).astype(np.uint8, copy=False)
        return {specs[0].name: frame[np.newaxis]}
    takes_image = len(specs) == 1 and specs[0].layout
    if model.preprocessing is None or not takes_image:
        needed = "; ".join(map(str, specs))
        raise InputError(
            "a network whose only input is an image, of three channels or one, and preprocessing "
            f"are needed for an image, and '{model.name}' takes {needed}: "
            + ", or ".join(remedies if takes_image else remedies[1:])
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
