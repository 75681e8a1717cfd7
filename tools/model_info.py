"""What a package is to say about its network: from the model's file and from options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tvm_vision.package import ModelInfo

Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class Described:
    """What makes the ModelInfo of a network's inputs and outputs.

    line: the kind that was found, once it has.
    """

    make: Callable[[Any], tuple[ModelInfo, str]]
    line: str = ""

    def __call__(self, signature: Any) -> ModelInfo:
        info, self.line = self.make(signature)
        return info


@dataclass(frozen=True)
class ModelOptions:
    """The options of compile that say what a package says of its network: what they say counts,
    else the file's metadata, else the outputs. See ``tvm_vision.kept_packages.Description``."""

    model: Path
    name: str | None = None
    kind: str | None = None
    names: Path | None = None
    groups: Path | None = None
    labels: str | None = None
    preprocess: str | None = None
    shapes: Shapes = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def asked(self, file: Callable[[Any], Any]) -> Any:
        """All of it, files by their content."""
        files = (self.names, self.groups, self.labels, self.preprocess)
        shapes = [[name, list(shape)] for name, shape in self.shapes.items()]
        return [self.name, self.kind, *map(file, files), shapes, sorted(self.options.items())]

    def begin(self) -> Described:
        """Raises click.UsageError where options do not go together, InputError for a file that
        cannot be read."""
        from tvm_vision.models.classifier import read_labels

        if self._is_yoeo():
            return self._yoeo()
        from tvm_vision.exporters.describe import Wishes, describe, kind_line
        from tvm_vision.package.build import described_inputs

        labels = None if self.labels is None else read_labels(self.labels)
        wishes = Wishes(self.name or "", self.kind or "", labels, self.preprocess, self.options)

        def make(signature: Any) -> tuple[ModelInfo, str]:
            info, candidates = describe(self.model, signature.inputs, signature.outputs, wishes)
            info, _ = described_inputs(signature.inputs, info)
            return info, kind_line(info, candidates)

        return Described(make)

    def _is_yoeo(self) -> bool:
        """Raises click.UsageError where another network is given what only these have."""
        from tvm_vision.exporters.yoeo.describe import is_yoeo

        if self.kind == "yoeo" or (self.kind is None and is_yoeo(self.model)):
            return True
        if self.names is not None or self.groups is not None:
            raise click.UsageError("--names and --groups are for networks of --kind yoeo")
        return False

    def _yoeo(self) -> Described:
        from tvm_vision.exporters.describe import kind_line
        from tvm_vision.exporters.yoeo.describe import yoeo_model_info
        from tvm_vision.exporters.yoeo.names import read_groups, read_names

        if self.options:
            raise click.UsageError("a YOEO network has no --kind-option")
        if self.labels is not None:
            raise click.UsageError("a YOEO network takes --names, not --labels")
        if self.preprocess is not None:
            raise click.UsageError("images of YOEO are prepared in one way: leave --preprocess out")
        sizes = [(shape[2], shape[3]) for shape in self.shapes.values() if len(shape) == 4]
        info = yoeo_model_info(
            self.model,
            name=self.name,
            names=None if self.names is None else read_names(self.names),
            groups=None if self.groups is None else read_groups(self.groups),
            size=sizes[0] if len(sizes) == 1 else None,
        )
        return Described(lambda signature: (info, kind_line(info)))
