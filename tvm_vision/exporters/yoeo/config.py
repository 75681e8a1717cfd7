"""YOEO's .cfg files: sections of key=value lines, checked and turned into layers (layers.py)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from ...errors import InputError, UnsupportedModelError
from ...file_kinds import CFG, EMPTY, TEXT, need
from ...plain_files import read_plain
from .layers import (
    IMAGE,
    CfgLayer,
    Convolution,
    MaxPool,
    Route,
    SegmentationHead,
    Shape,
    ShapeError,
    Shortcut,
    Upsample,
    YoloHead,
)

ACTIVATIONS = ("linear", "leaky", "mish")
# Far above every network that runs; keeps absurd numbers from becoming absurd allocations.
LARGEST = 65536
# Keys that would change what a layer computes, with the one value that is as if they were not
# there. All other keys that are not asked for are for training, and are skipped.
NEUTRAL = {
    "convolutional": {"groups": "1", "dilation": "1"},
    "shortcut": {"activation": "linear"},
    "upsample": {"scale": "1"},
}


@dataclass(frozen=True)
class YoeoConfig:
    """A network: its name, the image it takes (pixels, channels) and its layers in order."""

    name: str
    height: int
    width: int
    channels: int
    layers: tuple[CfgLayer, ...]

    @property
    def heads(self) -> tuple[YoloHead, ...]:
        """The yolo layers in the order of their boxes in the output."""
        return tuple(layer for layer in self.layers if isinstance(layer, YoloHead))

    @property
    def segmentation(self) -> SegmentationHead | None:
        """The seg layer, where there is one."""
        return next((item for item in self.layers if isinstance(item, SegmentationHead)), None)

    @property
    def classes(self) -> int:
        """Classes of the boxes; 0 without yolo layers."""
        return self.heads[0].classes if self.heads else 0

    @property
    def segmentation_classes(self) -> int:
        """Classes of the pixels; 0 without a seg layer."""
        return self.segmentation.classes if self.segmentation else 0

    def describe(self, index: int) -> str:
        """ "layer 3 ([route], line 47)"."""
        layer = self.layers[index]
        return f"layer {index} ([{layer.kind}], line {layer.line})"

    def input_shape(self, index: int, shapes: Sequence[Shape]) -> Shape:
        """Shape of the first input of a layer. shapes: what ``shapes()`` gave."""
        return shapes[self.layers[index].inputs[0] + 1]

    def shapes(self, size: tuple[int, int] | None = None) -> list[Shape]:
        """(channels, height, width) of the image and then of each layer's result.

        size: height and width of the image, where not those of the file.

        Raises InputError, naming the layer, where one cannot take what it is given.
        """
        found: list[Shape] = [(self.channels, *(size or (self.height, self.width)))]
        for index, layer in enumerate(self.layers):
            try:
                found.append(layer.output_shape([found[source + 1] for source in layer.inputs]))
                if isinstance(layer, YoloHead):
                    _stride(found[0], found[-1])
            except ShapeError as error:
                remedy = ""
                if size is not None:
                    step = max(self.strides(), default=1)
                    remedy = f": choose multiples of {step}" if step > 1 else ": choose another"
                raise InputError(
                    f"'{self.name}': {self.describe(index)}: {error}{remedy}"
                ) from None
        return found

    def strides(self, size: tuple[int, int] | None = None) -> tuple[int, ...]:
        """Of each yolo layer: how many pixels of the image one step of its grid is."""
        shapes = self.shapes(size)
        indices = [i for i, layer in enumerate(self.layers) if isinstance(layer, YoloHead)]
        return tuple(_stride(shapes[0], shapes[index + 1]) for index in indices)


def parse_config(source: str | os.PathLike[str]) -> YoeoConfig:
    """The network of a .cfg file, or of a text with the content of one (a str of several lines).

    Raises InputError where it cannot be read or something in it is wrong, UnsupportedModelError
    for layers and options that YOEO does not have; both name the line.
    """
    if isinstance(source, str) and "\n" in source:
        name, text = "cfg", source
    else:
        path = Path(source)
        name = path.name
        need(path, "a .cfg file", CFG, TEXT, EMPTY)
        try:
            text = read_plain(path).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InputError(
                f"a .cfg file is needed, and '{path}' cannot be read ({reason}): check the file"
            ) from None
    sections = _sections(text, name)
    if not sections or sections[0].kind not in ("net", "network"):
        found = f"[{sections[0].kind}] in line {sections[0].line}" if sections else "no section"
        raise InputError(f"'{name}': the first section must be [net], found {found}")
    net = sections[0]
    layers: list[CfgLayer] = []
    for section in sections[1:]:
        read = _READERS.get(section.kind)
        if read is None:
            raise UnsupportedModelError(
                f"'{name}' line {section.line}: a layer of {', '.join(_READERS)} is needed, found "
                f"[{section.kind}]"
            )
        section.refuse_other_arithmetic()
        layers.append(read(section, layers))
    config = YoeoConfig(
        name=name,
        height=net.integer("height"),
        width=net.integer("width"),
        channels=net.integer("channels", default=3),
        layers=tuple(layers),
    )
    _check_heads(config)
    config.shapes()
    return config


@dataclass(frozen=True)
class _Section:
    """One [section]: its values as text, each with its line.

    repeated: a later value of a key that differs from the first. Cfgs in use have such lines among
    the keys for training; only a key that matters is refused for it.
    """

    file: str
    kind: str
    line: int
    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    repeated: dict[str, tuple[str, int]] = field(default_factory=dict)

    def wrong(self, key: str, needed: str) -> NoReturn:
        """Raise InputError about the value of ``key``."""
        if key not in self.values:
            raise InputError(
                f"'{self.file}' line {self.line}: [{self.kind}] needs '{key}' ({needed})"
            )
        found, line = self.values[key]
        raise InputError(
            f"'{self.file}' line {line}: [{self.kind}] {key} needs {needed}, found '{found}'"
        )

    def text(self, key: str, default: str | None = None) -> str:
        if key in self.repeated:
            (first, _), (second, line) = self.values[key], self.repeated[key]
            raise InputError(
                f"'{self.file}' line {line}: [{self.kind}] says {key}={first} and {key}={second}: "
                "remove one"
            )
        if key in self.values:
            return self.values[key][0]
        if default is None:
            self.wrong(key, "a value")
        return default

    def integer(self, key: str, *, least: int = 1, default: int | None = None) -> int:
        needed = f"a whole number from {least} to {LARGEST}"
        if key not in self.values and default is None:
            self.wrong(key, needed)
        number = _integer(self.text(key, str(default)))
        if number is None or not least <= number <= LARGEST:
            self.wrong(key, needed)
        return number

    def integers(self, key: str) -> list[int]:
        numbers = [_integer(item) for item in self._items(key)]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            self.wrong(key, "whole numbers with commas between them")
        return known

    def pairs(self, key: str) -> list[tuple[float, float]]:
        """Positive numbers, two by two."""
        try:
            numbers = [float(item) for item in self._items(key)]
        except ValueError:
            numbers = []
        positive = all(math.isfinite(number) and number > 0 for number in numbers)
        if not numbers or len(numbers) % 2 or not positive:
            self.wrong(key, "pairs of numbers above 0 (width, height, width, height, ...)")
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _items(self, key: str) -> list[str]:
        """What stands between the commas; one at the end is allowed, as in Darknet."""
        items = [item.strip() for item in self.text(key, "").split(",")]
        return items[:-1] if items[-1] == "" else items

    def refuse_other_arithmetic(self) -> None:
        for key, neutral in NEUTRAL.get(self.kind, {}).items():
            found = self.text(key, neutral)
            if found != neutral:
                line = self.values[key][1]
                raise UnsupportedModelError(
                    f"'{self.file}' line {line}: [{self.kind}] {key}={found} is not part of YOEO: "
                    f"only {key}={neutral} can be taken"
                )


def _sections(text: str, name: str) -> list[_Section]:
    sections: list[_Section] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                raise InputError(f"'{name}' line {number}: '[name]' is needed, found '{line[:80]}'")
            sections.append(_Section(name, line[1:-1].strip(), number))
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not (key and equals) or not sections:
            needed = "'key=value'" if sections else "the section '[net]'"
            raise InputError(f"'{name}' line {number}: {needed} is needed, found '{line[:80]}'")
        if sections[-1].values.setdefault(key, (value, number))[0] != value:
            sections[-1].repeated[key] = (value, number)
    return sections


def _integer(text: str) -> int | None:
    # int() alone would take "1_0" and digits of other scripts.
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text) else None


def _convolution(section: _Section, before: Sequence[CfgLayer]) -> Convolution:
    activation = section.text("activation")
    if activation not in ACTIVATIONS:
        line = section.values["activation"][1]
        raise UnsupportedModelError(
            f"'{section.file}' line {line}: an activation of {', '.join(ACTIVATIONS)} is needed, "
            f"found '{activation}'"
        )
    return Convolution(
        line=section.line,
        inputs=_previous(section, before),
        filters=section.integer("filters"),
        size=section.integer("size"),
        stride=section.integer("stride"),
        batch_normalize=section.integer("batch_normalize", least=0, default=0) > 0,
        activation=activation,
    )


def _max_pool(section: _Section, before: Sequence[CfgLayer]) -> MaxPool:
    size, stride = section.integer("size"), section.integer("stride")
    return MaxPool(section.line, _previous(section, before), size, stride)


def _upsample(section: _Section, before: Sequence[CfgLayer]) -> Upsample:
    return Upsample(section.line, _previous(section, before), section.integer("stride"))


def _route(section: _Section, before: Sequence[CfgLayer]) -> Route:
    sources = [_source(section, "layers", item, before) for item in section.integers("layers")]
    groups = section.integer("groups", default=1)
    group = section.integer("group_id", least=0, default=0)
    if group >= groups:
        section.wrong("group_id", f"a number below groups={groups}")
    return Route(section.line, tuple(sources), groups, group)


def _shortcut(section: _Section, before: Sequence[CfgLayer]) -> Shortcut:
    sources = section.integers("from")
    if len(sources) != 1:
        section.wrong("from", "one layer")
    source = _source(section, "from", sources[0], before)
    return Shortcut(section.line, (*_previous(section, before), source))


def _yolo(section: _Section, before: Sequence[CfgLayer]) -> YoloHead:
    anchors = section.pairs("anchors")
    mask = section.integers("mask")
    if not all(0 <= index < len(anchors) for index in mask):
        section.wrong("mask", f"numbers of anchors, 0 to {len(anchors) - 1}")
    return YoloHead(
        line=section.line,
        inputs=_previous(section, before),
        anchors=tuple(anchors[index] for index in mask),
        classes=section.integer("classes"),
    )


def _segmentation(section: _Section, before: Sequence[CfgLayer]) -> SegmentationHead:
    classes = section.integer("classes")
    if classes > 256:
        section.wrong("classes", "at most 256, since the mask is of bytes")
    return SegmentationHead(section.line, _previous(section, before), classes)


_READERS: dict[str, Callable[[_Section, Sequence[CfgLayer]], CfgLayer]] = {
    "convolutional": _convolution,
    "maxpool": _max_pool,
    "upsample": _upsample,
    "route": _route,
    "shortcut": _shortcut,
    "yolo": _yolo,
    "seg": _segmentation,
}


def _previous(section: _Section, before: Sequence[CfgLayer]) -> tuple[int]:
    """The layer above, or the image."""
    if before and before[-1].is_head:
        raise InputError(
            f"'{section.file}' line {section.line}: [{section.kind}] would read the head "
            f"[{before[-1].kind}] above it: a [route] to another layer is needed between them"
        )
    return (len(before) - 1 if before else IMAGE,)


def _source(section: _Section, key: str, number: int, before: Sequence[CfgLayer]) -> int:
    """Index of the layer that a number means: negative ones count back from here."""
    index = len(before) + number if number < 0 else number
    if not 0 <= index < len(before):
        found, line = section.values[key]
        raise InputError(
            f"'{section.file}' line {line}: [{section.kind}] {key}={found}: {number} means layer "
            f"{index}, and only 0 to {len(before) - 1} are above"
            if before
            else f"'{section.file}' line {line}: [{section.kind}] {key}={found}: no layer is above"
        )
    if before[index].is_head:
        section.wrong(key, f"a layer that is no head (layer {index} is [{before[index].kind}])")
    return index


def _check_heads(config: YoeoConfig) -> None:
    segmentations = [layer for layer in config.layers if isinstance(layer, SegmentationHead)]
    if not (config.heads or segmentations):
        raise InputError(f"'{config.name}': a [yolo] or [seg] section is needed, found none")
    if len(segmentations) > 1:
        raise UnsupportedModelError(
            f"'{config.name}' line {segmentations[1].line}: one [seg] at most can be taken, and "
            f"line {segmentations[0].line} has one"
        )
    for head in config.heads:
        if head.classes != config.classes:
            raise InputError(
                f"'{config.name}' line {head.line}: {config.classes} classes are needed as in the "
                f"[yolo] of line {config.heads[0].line}, found {head.classes}"
            )


def _stride(image: Shape, grid: Shape) -> int:
    stride = image[1] // grid[1]
    if image[1:] != (grid[1] * stride, grid[2] * stride):
        raise ShapeError(
            f"a grid that divides the image's {image[1]}x{image[2]} is needed, found "
            f"{grid[1]}x{grid[2]}"
        )
    return stride
