"""Sample images as a network's inputs: what the error of fp16 is measured on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..file_kinds import need
from ..package import ModelInfo, TensorInfo
from ..runtime.inputs import check_inputs, load_arrays
from ..runtime.sources import IMAGES, read_image
from .image_inputs import prepared_image

# More tell little more, and each costs time.
MAX_SAMPLES = 32

# For images that are no inputs of a network.
REMEDIES = ("add --preprocess", "name .npz files with its inputs")

Arrays = Mapping[str, npt.NDArray[np.generic]]


def sample_paths(sources: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that ``sources`` name, images and .npz files, folders by what is in them.

    Of more than MAX_SAMPLES as many, evenly spread over them. Raises InputError where a folder has
    none, or where one is neither.
    """
    found: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            found += _in_folder(source)
        elif source.is_file():
            found.append(source)
        else:
            need(source, "a sample image or a folder of them")
    if len(found) <= MAX_SAMPLES:
        return found
    return [found[i * len(found) // MAX_SAMPLES] for i in range(MAX_SAMPLES)]


def check_samples(sources: Sequence[str | os.PathLike[str]]) -> None:
    """Raise InputError where a sample cannot be read, before anything that takes long."""
    for path in sample_paths(sources):
        if path.suffix.lower() == ".npz":
            load_arrays(path)
        else:
            read_image(path)


def read_sample(path: Path, model: ModelInfo, specs: Sequence[TensorInfo]) -> Arrays:
    """A sample as the network's inputs by name: an image, prepared as the package says, or the
    arrays of an .npz file.

    Raises InputError where it cannot be read, or does not fit the network.
    """
    if path.suffix.lower() != ".npz":
        return prepared_image(model, specs, read_image(path), remedies=REMEDIES)
    arrays = load_arrays(path)
    notes = check_inputs(arrays, specs)
    if notes:
        raise InputError(f"a sample is needed that is numbers, and in '{path}' {notes[0]}")
    return arrays


def _in_folder(folder: Path) -> list[Path]:
    known = {*IMAGES, ".npz"}
    found = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in known and not path.name.startswith(".")
    )
    if not found:
        raise InputError(
            f"a folder with sample images ({', '.join(sorted(known))}) is needed, and '{folder}' "
            "has none"
        )
    return found
