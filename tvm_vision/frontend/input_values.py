"""Inputs that are made constants of a network: values as a caller gives them, and their arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError

# A number, true or false, or a list of them, by the input's name; what mod.json keeps, too.
InputValues = Mapping[str, Any]
# Of what is given; one number may fill any shape.
MOST_VALUES = 1024


def value_array(name: str, value: Any, dtype: Any, shape: Sequence[int | None]) -> np.ndarray:
    """The array of an input of this type and shape, None for an open size: ``value`` has as many
    numbers, in order, or is one number for all of them. An open size is 1, or what ``value`` has.

    Raises InputError where it does not fit.
    """
    kind, given = np.dtype(dtype), np.asarray(value)
    shown = f"{kind}[{', '.join('?' if size is None else str(size) for size in shape)}]"
    if given.dtype.kind not in "biuf" or given.size > MOST_VALUES:
        raise InputError(
            f"input '{name}' is {shown}: a number or at most {MOST_VALUES} of them are needed, "
            f"found {given.size} of {given.dtype}; leave it an input"
        )
    with np.errstate(all="ignore"):
        array = given.astype(kind)
    if not np.array_equal(array, given) and (kind.kind != "f" or not np.all(np.isfinite(array))):
        raise InputError(
            f"input '{name}' is {shown}, and {value} does not fit it: give values of that type"
        )
    sizes = _sizes(shape, given)
    if given.size == 1:
        return np.full(sizes, array.reshape(()))
    if int(np.prod(sizes)) != given.size:
        raise InputError(
            f"input '{name}' is {shown}, and {given.size} values do not fill it: give one for all, "
            "or as many as it has"
        )
    return array.reshape(sizes)


def _sizes(shape: Sequence[int | None], given: np.ndarray) -> tuple[int, ...]:
    if given.ndim == len(shape) and given.ndim > 0:
        pairs = zip(shape, given.shape, strict=True)
        return tuple(have if size is None else size for size, have in pairs)
    return tuple(1 if size is None else size for size in shape)


def plain_values(values: InputValues) -> dict[str, Any]:
    """The same as JSON has it."""
    return {name: np.asarray(value).tolist() for name, value in values.items()}


def check_names(values: InputValues, inputs: Iterable[str]) -> None:
    """Raise InputError unless these are names of some of the inputs, and one is left."""
    known = list(inputs)
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(
            f"input_values names '{unknown[0]}', and the model's inputs are: {', '.join(known)}; "
            "use their names"
        )
    if known and len(set(values)) == len(known):
        raise InputError(
            "input_values leave a network no input: leave out that of the data, such as "
            f"'{known[0]}'"
        )
