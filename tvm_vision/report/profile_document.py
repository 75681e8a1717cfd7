"""A profile as plain data: what ``tvm-vision profile --json`` prints, and reads back to compare."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..file_kinds import JSON, PROFILE, TEXT, need
from ..package.fields import Fields, naming, number, parse_object, text, wrong
from ..plain_files import read_plain
from .floors import Ceilings, floor_of

if TYPE_CHECKING:
    from ..evaluate.layers import LayerError
    from ..runtime.profiler import ProfileReport

FORMAT = "tvm_vision profile"
MOST_BYTES = 64 << 20
REMEDY = "save it again with 'tvm-vision profile --json'"


def profile_document(
    report: ProfileReport,
    info: Mapping[str, Any],
    ceilings: Ceilings,
    errors: Mapping[int, LayerError] | None = None,
) -> dict[str, Any]:
    """All that is known of a profile.

    info: mod.json of the package. errors: of layers, by the kernel's position.
    """
    document = {
        "format": FORMAT,
        "network": info["model"]["name"],
        "precision": info["precision"],
        **report.to_dict(),
        "ceilings": ceilings.to_dict(),
    }
    for kernel, plain in zip(report.kernels, document["kernels"], strict=True):
        floor = floor_of(kernel, ceilings)
        plain["floor_us"] = None if floor is None else floor.floor_us
        plain["bound"] = None if floor is None else floor.bound
        plain["flagged"] = floor is not None and floor.flags(kernel.median_us)
    if errors is not None:
        document["layer_errors"] = [error.to_dict() for error in errors.values()]
    return document


@dataclass(frozen=True)
class SavedKernel:
    """Of a saved profile: what a kernel was, and its time in microseconds."""

    function: str
    nodes: tuple[str, ...]
    median_us: float


@dataclass(frozen=True)
class SavedProfile:
    """A profile of another time; ``span_us`` of a whole frame's kernels."""

    name: str
    device_description: str
    kernels: tuple[SavedKernel, ...]
    span_us: float

    @classmethod
    def of(cls, name: str, report: ProfileReport) -> SavedProfile:
        """What is compared of a profile that was just taken."""
        kernels = tuple(SavedKernel(k.function, k.nodes, k.median_us) for k in report.kernels)
        return cls(name, report.device_description, kernels, report.span_us)


def read_profile(path: str | os.PathLike[str]) -> SavedProfile:
    """A profile as it was saved. Raises InputError for anything else."""
    need(path, "a saved profile or a package", PROFILE, JSON, TEXT)
    try:
        with naming(path, REMEDY):
            fields = Fields(parse_object(read_plain(path, MOST_BYTES)), "")
            if (found := fields.take("format")) != FORMAT:
                wrong("format", f"'{FORMAT}'", found)
            return SavedProfile(
                Path(path).name,
                fields.text("device_description"),
                fields.items("kernels", _kernel),
                _time(fields.take("span_us"), "span_us"),
            )
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None


def _kernel(value: Any, where: str) -> SavedKernel:
    fields = Fields(value, where)
    return SavedKernel(
        fields.text("function"),
        fields.items("nodes", text),
        _time(fields.take("median_us"), fields.path("median_us")),
    )


def _time(value: Any, where: str) -> float:
    found = number(value, where)
    return found if found >= 0 else wrong(where, "0 or more", value)
