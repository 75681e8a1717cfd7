"""What is fed to a reference, whichever runtime it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import InputError

# Numbers at random are no words of a vocabulary, for one.
OTHER_INPUTS = "give inputs that it takes, by --inputs of an .npz file or --fill-mode zeros"


def need_inputs(found: Iterable[str], needed: Sequence[str]) -> None:
    """Raises InputError unless ``found`` are the names of a reference's inputs."""
    names = list(found)
    if set(names) != set(needed):
        raise InputError(
            f"the model's inputs {', '.join(needed)} are needed, found {', '.join(names)}: is this "
            "the model that the package was made from?"
        )


def need_shape(name: str, found: Sequence[int], needed: Sequence[Any]) -> None:
    """Raises InputError unless an input has a reference's shape, of which only numbers count: other
    sizes are open."""
    same = len(found) == len(needed) and all(
        size == wanted or not isinstance(wanted, int)
        for size, wanted in zip(found, needed, strict=True)
    )
    if not same:
        raise InputError(
            f"the model's input {name} {list(needed)} is needed, found {list(found)}: is this the "
            "model that the package was made from?"
        )
