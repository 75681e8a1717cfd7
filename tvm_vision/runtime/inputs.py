"""Inputs for a network: from .npz files, from fill modes, checked against what it wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..error_lines import first_line
from ..errors import InputError
from ..file_kinds import ARRAYS, EMPTY, TEXT, ZIP, need
from ..package import TensorInfo
from ..whole_files import whole
from .choices import FILL_MODES

Arrays = dict[str, np.ndarray]
SEED = 0


def input_specs(info: Mapping[str, Any]) -> list[TensorInfo]:
    """The inputs in a mod.json, as an executor has it in ``info``."""
    return [
        TensorInfo.from_json(item, f"inputs[{index}]") for index, item in enumerate(info["inputs"])
    ]


def output_specs(info: Mapping[str, Any]) -> list[TensorInfo]:
    """The same of the outputs."""
    return [
        TensorInfo.from_json(item, f"outputs[{index}]")
        for index, item in enumerate(info["outputs"])
    ]


def load_arrays(path: Path) -> Arrays:
    """The arrays of an .npz file. Raises InputError where it is none; nothing is unpickled."""
    need(path, "an .npz file", ARRAYS, ZIP, EMPTY, TEXT)
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.ndarray):
            with archive:
                return {name: archive[name] for name in archive.files}
    except Exception as error:  # zipfile, zlib and numpy raise every kind there is
        # numpy takes what it does not know for a pickle, and says how to load it unsafely.
        reason = "" if "pickle" in str(error) else f" ({first_line(error)})"
        raise InputError(
            f"'{path}' is not an .npz file of arrays of numbers{reason}: write one by "
            "numpy.savez(name=...)"
        ) from None
    raise InputError(f"'{path}' has one unnamed array: save it by numpy.savez(name=...)")


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, whole or not at all. Raises InputError where it cannot be written."""
    with whole(path) as fresh, fresh.open("wb") as stream:
        np.savez(stream, **dict[str, Any](arrays))


def filled(
    specs: Sequence[TensorInfo], mode: str, below: Mapping[str, int] | None = None
) -> Arrays:
    """An array for each input: "random" (uniform in 0..1, always the same), "zeros" or "ones".

    Integers are drawn from 0..127, or, where ``below`` has a number for the input, from those below
    it that its type has; booleans are either.
    """
    if mode not in FILL_MODES:
        raise InputError(f"a fill mode of {', '.join(FILL_MODES)} is needed, found '{mode}'")
    random = np.random.default_rng(SEED)
    ends = below or {}
    return {spec.name: _fill(spec, mode, random, ends.get(spec.name, 128)) for spec in specs}


def _fill(spec: TensorInfo, mode: str, random: np.random.Generator, end: int) -> np.ndarray:
    dtype = numpy_dtype(spec.dtype)
    if mode != "random":
        return np.full(spec.shape, mode == "ones", dtype)
    if dtype.kind in "iub":
        most = 1 if dtype.kind == "b" else min(end - 1, int(np.iinfo(dtype).max))
        return random.integers(0, max(most, 0) + 1, spec.shape).astype(dtype)
    return random.random(spec.shape).astype(dtype)


def numpy_dtype(name: str) -> np.dtype:
    """The numpy type of a name in mod.json."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def check_inputs(arrays: Mapping[str, np.ndarray], specs: Sequence[TensorInfo]) -> list[str]:
    """Raise InputError for missing, unknown or ill-fitting inputs, all of them in one line.

    Returns a line for each input that is usable but holds NaN or infinity.
    """
    known = {spec.name: spec for spec in specs}
    problems = [f"'{name}' is not among them" for name in arrays if name not in known]
    notes = []
    for name, spec in known.items():
        array = arrays.get(name)
        if array is None:
            problems.append(f"'{name}' is missing")
        elif tuple(array.shape) != spec.shape or str(array.dtype) != spec.dtype:
            problems.append(f"'{name}' is {array.dtype}{list(array.shape)}")
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int(array.size - np.isfinite(array).sum())
            notes.append(
                f"input '{name}' has {bad} values that are NaN or infinite of {array.size}"
            )
    if problems:
        needed = "; ".join(str(spec) for spec in specs) or "none"
        raise InputError(f"the inputs {needed} are needed, and {', '.join(problems)}")
    return notes
