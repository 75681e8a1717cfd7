"""Darknet's .weights files: five int32 of header, then the float32 of each convolution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...plain_files import read_plain
from ...whole_files import write_whole
from .config import YoeoConfig
from .parameters import State, all_parameters, is_anchors

HEADER = np.dtype("<i4")
VALUE = np.dtype("<f4")
HEADER_BYTES = 5 * HEADER.itemsize
# Major, minor and revision of the format; the images that were trained on follow, as int64.
VERSION = (0, 2, 5)
MOST_BYTES = 4 << 30


def read_darknet(config: YoeoConfig, path: Path) -> State:
    """Arrays by their names in checkpoints, without the anchors, which the format does not hold.

    Raises InputError where the file cannot be read or does not have the network's size; the
    message names the layer where it ends.
    """
    try:
        content = read_plain(path, MOST_BYTES)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None
    places = [entry for entry in all_parameters(config) if not is_anchors(entry[1])]
    needed = HEADER_BYTES + VALUE.itemsize * sum(int(np.prod(shape)) for _, _, shape in places)
    state: State = {}
    offset = HEADER_BYTES
    for index, name, shape in places:
        count = int(np.prod(shape))
        end = offset + count * VALUE.itemsize
        if end > len(content):
            raise InputError(
                f"'{path.name}' ends inside {config.describe(index)}: {needed} bytes are needed "
                f"for the network of '{config.name}', found {len(content)}: was the file cut off, "
                "or is it of another network?"
            )
        array = np.frombuffer(content, VALUE, count, offset)
        state[name] = array.reshape(shape).astype(np.float32)
        offset = end
    if len(content) != needed:
        raise InputError(
            f"'{path.name}' has {len(content)} bytes, and the network of '{config.name}' needs "
            f"{needed}: is it of another network?"
        )
    return state


def write_darknet(
    config: YoeoConfig,
    state: Mapping[str, npt.NDArray[np.float32]],
    path: Path,
    *,
    seen: int = 0,
) -> None:
    """Write ``state`` (checked before, see ``check_state``) as Darknet reads it.

    seen: images that it was trained on, a number for people.
    Raises InputError where it cannot be written.
    """
    parts = [np.array(VERSION, HEADER).tobytes(), np.array([seen], "<i8").tobytes()]
    for _, name, _ in all_parameters(config):
        if not is_anchors(name):
            parts.append(np.ascontiguousarray(state[name], VALUE).tobytes())
    write_whole(path, b"".join(parts))
