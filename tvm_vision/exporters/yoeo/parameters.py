"""A YOEO network's weights as numpy arrays, under the names of its checkpoints: no PyTorch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .config import YoeoConfig
from .layers import Convolution, Shape, YoloHead

# "module_list.3.conv_3.weight" -> float32 array.
State = dict[str, npt.NDArray[np.float32]]
PREFIX = "module_list."


def layer_parameters(
    config: YoeoConfig, index: int, shapes: list[Shape]
) -> dict[str, tuple[int, ...]]:
    """Name and shape of a layer's arrays: a convolution's in the order of Darknet's files, a yolo
    layer's anchors. shapes: what ``config.shapes()`` gave."""
    layer = config.layers[index]
    prefix = f"{PREFIX}{index}."
    if isinstance(layer, YoloHead):
        count = len(layer.anchors)
        return {
            f"{prefix}yolo_{index}.anchors": (count, 2),
            f"{prefix}yolo_{index}.anchor_grid": (1, count, 1, 1, 2),
        }
    if not isinstance(layer, Convolution):
        return {}
    channels = config.input_shape(index, shapes)[0]
    kernel = (layer.filters, channels, layer.size, layer.size)
    vector = (layer.filters,)
    if not layer.batch_normalize:
        return {f"{prefix}conv_{index}.bias": vector, f"{prefix}conv_{index}.weight": kernel}
    norm = f"{prefix}batch_norm_{index}."
    return {
        f"{norm}bias": vector,
        f"{norm}weight": vector,
        f"{norm}running_mean": vector,
        f"{norm}running_var": vector,
        f"{prefix}conv_{index}.weight": kernel,
    }


def all_parameters(config: YoeoConfig) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """(layer, name, shape) of every array of the network, in the order of the layers."""
    shapes = config.shapes()
    for index in range(len(config.layers)):
        for name, shape in layer_parameters(config, index, shapes).items():
            yield index, name, shape


def is_anchors(name: str) -> bool:
    """Whether it is a yolo layer's: known from the configuration where a file lacks it."""
    return name.endswith((".anchors", ".anchor_grid"))


def config_anchors(config: YoeoConfig) -> State:
    """The anchors that the configuration gives."""
    state: State = {}
    for index, name, shape in all_parameters(config):
        layer = config.layers[index]
        if isinstance(layer, YoloHead):
            state[name] = np.array(layer.anchors, np.float32).reshape(shape)
    return state


def check_state(config: YoeoConfig, state: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Raise InputError, naming the layer, where the arrays are not those of the network."""
    needed = list(all_parameters(config))
    for index, name, shape in needed:
        where = config.describe(index)
        array = state.get(name)
        if array is None:
            raise InputError(
                f"{where} needs '{name}' of shape {list(shape)}, and it is not among the weights: "
                f"are they of the network of '{config.name}'?"
            )
        if array.shape != shape:
            raise InputError(
                f"{where} needs '{name}' of shape {list(shape)}, found {list(array.shape)}: are "
                f"the weights of the network of '{config.name}'?"
            )
        if not np.isfinite(array).all():
            raise InputError(
                f"{where} needs finite weights, and '{name}' has NaN or infinity: the training "
                "diverged, or the file is damaged"
            )
    unknown = sorted(set(state) - {name for _, name, _ in needed})
    if unknown:
        raise InputError(
            f"'{config.name}' has no place for '{unknown[0]}' of shape "
            f"{list(state[unknown[0]].shape)}, one of {len(unknown)} such weights: are they of "
            "another network?"
        )
