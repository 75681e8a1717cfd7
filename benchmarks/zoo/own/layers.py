"""What networks of several kinds are made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn


def layer(
    inputs: int, outputs: int, stride: int = 1, kernel: int = 3, **more: Any
) -> nn.Sequential:
    """A convolution of an image, normalized, with ReLU; more: of ``Conv2d``."""
    padding = kernel // 2 * more.get("dilation", 1)
    window = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False, **more)
    return nn.Sequential(window, nn.BatchNorm2d(outputs), nn.ReLU())


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A window of each channel, then a product of all."""
    own = layer(inputs, inputs, stride, groups=inputs)
    return nn.Sequential(own, layer(inputs, outputs, kernel=1))


def layer_of_row(inputs: int, outputs: int, kernel: int, **more: Any) -> nn.Sequential:
    """As ``layer``, of a row; more: of ``Conv1d``."""
    window = nn.Conv1d(inputs, outputs, kernel, bias=False, **more)
    return nn.Sequential(window, nn.BatchNorm1d(outputs), nn.ReLU())


def layer_of_volume(inputs: int, outputs: int, stride: Any = 1) -> nn.Sequential:
    """As ``layer``, of a volume."""
    window = nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(window, nn.BatchNorm3d(outputs), nn.ReLU())


def perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Products of these widths, an activation behind each but the last."""
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        parts += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*parts[:-1])


class Attention(nn.Module):
    """Of several heads: rows of (n, rows, width) that ask, and those that answer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(
        self, asks: torch.Tensor, answers: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """mask: added to the scores of each pair of rows."""
        query, key, value = (
            part(rows).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part, rows in ((self.query, asks), (self.key, answers), (self.value, answers))
        )
        scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
        if mask is not None:
            scores = scores + mask
        return self.out((scores.softmax(3) @ value).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Of a transformer, normalized before each part; with rows to look at beside its own, if
    ``crosses``."""

    def __init__(self, width: int, heads: int, crosses: bool = False) -> None:
        super().__init__()
        self.own = Attention(width, heads)
        self.cross = Attention(width, heads) if crosses else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crosses else 2))
        self.each = perceptron(width, 4 * width, width, activation=nn.GELU)

    def forward(
        self, x: torch.Tensor, beside: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = self.norms[0](x)
        x = x + self.own(rows, rows, mask)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), beside)
        return x + self.each(self.norms[-1](x))


class ConvGRU(nn.Module):
    """A recurrent unit whose products are convolutions."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.gates = nn.Conv2d(inputs + channels, 2 * channels, 3, padding=1)
        self.new = nn.Conv2d(inputs + channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        update, reset = self.gates(torch.cat([x, state], 1)).sigmoid().chunk(2, 1)
        new = self.new(torch.cat([x, reset * state], 1)).tanh()
        return (1 - update) * state + update * new


def pixels(height: int, width: int, device: torch.device | None = None) -> torch.Tensor:
    """Columns and rows of the pixels of an image, (1, height, width, 2). They are made on the
    device: nothing is copied to it while a graph is recorded."""
    sizes = (torch.arange(size, device=device) for size in (height, width))
    rows, columns = torch.meshgrid(*sizes, indexing="ij")
    return torch.stack([columns, rows], -1).float()[None]


def at(image: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The image where the places are, in pixels: columns and rows, (n, height, width, 2)."""
    columns, rows = (
        2 * part / (size - 1) - 1
        for part, size in zip(places.unbind(3), image.shape[:1:-1], strict=True)
    )
    grid = torch.stack([columns, rows], 3)
    return nn.functional.grid_sample(image, grid, align_corners=True)
