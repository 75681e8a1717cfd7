"""A YOEO network in plain numpy, from the description of the format alone: slow and obvious.

It shares nothing with tvm_vision: it reads the cfg and Darknet's numbers in its own way, does not
fold batch norms and makes boxes one at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Result:
    """boxes [boxes, 5 + classes]; heads: what the yolo layers were given, [channels, rows,
    columns] each; logits [classes, height, width], or None."""

    boxes: list[list[float]] = field(default_factory=list)
    heads: list[np.ndarray] = field(default_factory=list)
    logits: np.ndarray | None = None


class Numbers:
    """The float32 values of a .weights file, one after the other."""

    def __init__(self, content: bytes) -> None:
        self.values = np.frombuffer(content, np.float32, offset=20)

    def take(self, what: str, *shape: int) -> np.ndarray:
        count = math.prod(shape)
        taken, self.values = self.values[:count], self.values[count:]
        return taken.reshape(shape).astype(np.float64)


class RandomNumbers(Numbers):
    """Values that keep activations around 1, and the .weights file that they make."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.drawn = [np.array([0, 2, 5, 0, 0], np.int32).tobytes()]

    def take(self, what: str, *shape: int) -> np.ndarray:
        if what in ("gain", "variance"):
            values = self.rng.uniform(0.5, 1.5, shape)
        elif what == "kernel":
            values = self.rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))
        else:
            values = self.rng.standard_normal(shape) * 0.3
        stored = values.astype(np.float32)
        self.drawn.append(stored.tobytes())
        return stored.astype(np.float64)

    @property
    def content(self) -> bytes:
        return b"".join(self.drawn)


def random_weights(cfg: str, seed: int) -> bytes:
    """A .weights file for a network."""
    numbers = RandomNumbers(seed)
    sections = read_sections(cfg)
    options = sections[0][1]
    channels = int(options.get("channels", 3))
    run(cfg, np.zeros((channels, int(options["height"]), int(options["width"]))), numbers)
    return numbers.content


def read_sections(cfg: str) -> list[tuple[str, dict[str, str]]]:
    sections: list[tuple[str, dict[str, str]]] = []
    for line in cfg.split("\n"):
        if line.startswith("["):
            sections.append((line[1:-1], {}))
        elif "=" in line:
            key, value = line.split("=")
            sections[-1][1][key.strip()] = value.strip()
    return sections


def run(cfg: str, image: np.ndarray, numbers: Numbers) -> Result:
    """image: [channels, height, width], in 0..1."""
    result = Result()
    made: list[Any] = []
    value = image.astype(np.float64)
    for kind, options in read_sections(cfg)[1:]:
        if kind == "convolutional":
            value = convolution(value, options, numbers)
        elif kind == "maxpool":
            value = pool(value, int(options["size"]), int(options["stride"]))
        elif kind == "upsample":
            value = value.repeat(int(options["stride"]), 1).repeat(int(options["stride"]), 2)
        elif kind == "route":
            value = np.concatenate([made[int(number)] for number in options["layers"].split(",")])
            part = len(value) // int(options.get("groups", 1))
            begin = part * int(options.get("group_id", 0))
            value = value[begin : begin + part]
        elif kind == "shortcut":
            value = value + made[int(options["from"])]
        elif kind == "yolo":
            result.heads.append(value)
            result.boxes += boxes(value, options, image.shape[1] // value.shape[1])
        elif kind == "seg":
            result.logits = value
        made.append(value)
    return result


def convolution(value: np.ndarray, options: dict[str, str], numbers: Numbers) -> np.ndarray:
    filters, size = int(options["filters"]), int(options["size"])
    stride, edge = int(options["stride"]), (size - 1) // 2
    normalised = options.get("batch_normalize") == "1"
    bias = numbers.take("bias", filters)
    if normalised:
        gain = numbers.take("gain", filters)
        mean = numbers.take("mean", filters)
        variance = numbers.take("variance", filters)
    kernel = numbers.take("kernel", filters, len(value), size, size)

    padded = np.pad(value, ((0, 0), (edge, edge), (edge, edge)))
    rows = (padded.shape[1] - size) // stride + 1
    columns = (padded.shape[2] - size) // stride + 1
    out: np.ndarray = np.zeros((filters, rows, columns))
    for y in range(size):
        for x in range(size):
            seen = padded[:, y : y + rows * stride : stride, x : x + columns * stride : stride]
            out += np.einsum("fc,cyx->fyx", kernel[:, :, y, x], seen[:, :rows, :columns])
    if normalised:
        out = (out - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
        out = out * gain[:, None, None]
    out += bias[:, None, None]
    if options["activation"] == "leaky":
        out = np.where(out > 0, out, 0.1 * out)
    if options["activation"] == "mish":
        out = out * np.tanh(np.log1p(np.exp(out)))
    return out


def pool(value: np.ndarray, size: int, stride: int) -> np.ndarray:
    if size == 2 and stride == 1:
        value = np.pad(value, ((0, 0), (0, 1), (0, 1)))
    else:
        edge = (size - 1) // 2
        value = np.pad(value, ((0, 0), (edge, edge), (edge, edge)), constant_values=-np.inf)
    rows = (value.shape[1] - size) // stride + 1
    columns = (value.shape[2] - size) // stride + 1
    out = np.empty((len(value), rows, columns))
    for y in range(rows):
        for x in range(columns):
            window = value[:, y * stride : y * stride + size, x * stride : x * stride + size]
            out[:, y, x] = window.max((1, 2))
    return out


def boxes(value: np.ndarray, options: dict[str, str], stride: int) -> list[list[float]]:
    def sigmoid(number: float) -> float:
        return 1 / (1 + math.exp(-number))

    sides = [float(side) for side in options["anchors"].split(",")]
    masks = [int(number) for number in options["mask"].split(",")]
    per_box = 5 + int(options["classes"])
    found = []
    for position, anchor in enumerate(masks):
        for y in range(value.shape[1]):
            for x in range(value.shape[2]):
                t = value[position * per_box : (position + 1) * per_box, y, x]
                box = [(sigmoid(t[0]) + x) * stride, (sigmoid(t[1]) + y) * stride]
                box += [math.exp(t[2]) * sides[2 * anchor], math.exp(t[3]) * sides[2 * anchor + 1]]
                found.append(box + [sigmoid(number) for number in t[4:]])
    return found
