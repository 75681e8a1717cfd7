"""What a package is to say about its network: from the model's file and from options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tvm_vision.package import ModelInfo

Shapes = Mapping[str, tuple[int, ...]]


def describer(
    model: Path,
    *,
    name: str | None,
    kind: str | None,
    names: Path | None,
    groups: Path | None,
    labels: str | None,
    preprocess: str | None,
    shapes: Shapes,
    options: Mapping[str, str],
    tell: Callable[[str], object],
) -> ModelInfo | Callable[[Any], ModelInfo]:
    """The values of compile's options, or what makes them of inputs and outputs: what is said by
    options, else by the file's metadata, else by the outputs.

    tell: gets the kind that was found, in a line.
    """
    from tvm_vision.exporters.describe import Wishes, describe, kind_line
    from tvm_vision.models.classifier import read_labels
    from tvm_vision.package.build import described_inputs

    if _is_yoeo(model, kind, names, groups):
        if options:
            raise click.UsageError("a YOEO network has no --kind-option")
        if labels is not None:
            raise click.UsageError("a YOEO network takes --names, not --labels")
        if preprocess is not None:
            raise click.UsageError("images of YOEO are prepared in one way: leave --preprocess out")
        info = _yoeo(model, name, names, groups, shapes)
        tell(kind_line(info))
        return info
    wishes = Wishes(
        name or "", kind or "", None if labels is None else read_labels(labels), preprocess, options
    )

    def from_signature(signature: Any) -> ModelInfo:
        info, candidates = describe(model, signature.inputs, signature.outputs, wishes)
        info, _ = described_inputs(signature.inputs, info)
        tell(kind_line(info, candidates))
        return info

    return from_signature


def _is_yoeo(model: Path, kind: str | None, names: Path | None, groups: Path | None) -> bool:
    """Raises click.UsageError where another network is given what only these have."""
    from tvm_vision.exporters.yoeo.describe import is_yoeo

    if kind == "yoeo" or (kind is None and is_yoeo(model)):
        return True
    if names is not None or groups is not None:
        raise click.UsageError("--names and --groups are for networks of --kind yoeo")
    return False


def _yoeo(
    model: Path, name: str | None, names: Path | None, groups: Path | None, shapes: Shapes
) -> ModelInfo:
    from tvm_vision.exporters.yoeo.describe import yoeo_model_info
    from tvm_vision.exporters.yoeo.names import read_groups, read_names

    sizes = [(shape[2], shape[3]) for shape in shapes.values() if len(shape) == 4]
    return yoeo_model_info(
        model,
        name=name,
        names=None if names is None else read_names(names),
        groups=None if groups is None else read_groups(groups),
        size=sizes[0] if len(sizes) == 1 else None,
    )
