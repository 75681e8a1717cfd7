"""A class, an edge or a grasp for each pixel of an image."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .layers import layer, separable


class UNet(nn.Module):
    """Ronneberger et al., 2015, from 32 channels on, with transposed convolutions."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256, 512)) -> None:
        super().__init__()
        pairs = list(pairwise((3, *widths)))
        self.down = nn.ModuleList(nn.Sequential(layer(i, o), layer(o, o)) for i, o in pairs)
        steps = list(pairwise(widths))[::-1]
        self.larger = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in steps)
        self.up = nn.ModuleList(nn.Sequential(layer(2 * i, i), layer(i, i)) for i, _ in steps)
        self.classes = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for larger, up, beside in zip(self.larger, self.up, kept[-2::-1], strict=True):
            x = up(torch.cat([larger(x), beside], 1))
        return self.classes(x)


class ESPNet(nn.Module):
    """Mehta et al., 2018: windows of several dilations of few channels, added up one by one."""

    class Pyramid(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
            super().__init__()
            few = outputs // 5
            self.few = nn.Conv2d(inputs, few, 3 if stride > 1 else 1, stride, int(stride > 1))
            widths = (outputs - 4 * few, few, few, few, few)
            self.windows = nn.ModuleList(
                nn.Conv2d(few, width, 3, padding=2**power, dilation=2**power, bias=False)
                for power, width in enumerate(widths)
            )
            self.end = nn.Sequential(nn.BatchNorm2d(outputs), nn.PReLU(outputs))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            few = self.few(x)
            first, *others = (window(few) for window in self.windows)
            found, total = [first, others[0]], others[0]
            for other in others[1:]:
                total = total + other
                found.append(total)
            whole = torch.cat(found, 1)
            return self.end(whole + x if whole.shape == x.shape else whole)

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        self.first = layer(3, 16, 2)
        self.eighth = self.Pyramid(16, 64, 2)
        self.eighths = nn.Sequential(*(self.Pyramid(64, 64) for _ in range(2)))
        self.sixteenth = self.Pyramid(128, 128, 2)
        self.sixteenths = nn.Sequential(*(self.Pyramid(128, 128) for _ in range(3)))
        self.larger = nn.ConvTranspose2d(128, classes, 2, 2)
        self.beside = nn.Conv2d(128, classes, 1)
        self.last = nn.ConvTranspose2d(classes, classes, 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eighth = self.eighth(self.first(x))
        eighth = torch.cat([self.eighths(eighth), eighth], 1)
        coarse = self.larger(self.sixteenths(self.sixteenth(eighth)))
        return self.last(F.relu(coarse + self.beside(eighth)))


class ENet(nn.Module):
    """Paszke et al., 2016: narrow blocks, some with 5×1 and 1×5 or dilated windows."""

    class Narrow(nn.Module):
        def __init__(self, channels: int, *windows: nn.Module) -> None:
            super().__init__()
            few = channels // 4
            parts: list[nn.Module] = [nn.Conv2d(channels, few, 1, bias=False)]
            for part in (*windows, nn.Conv2d(few, channels, 1, bias=False)):
                parts += [nn.BatchNorm2d(few), nn.PReLU(few), part]
            self.parts = nn.Sequential(*parts, nn.BatchNorm2d(channels))
            self.end = nn.PReLU(channels)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.end(x + self.parts(x))

    class Smaller(nn.Module):
        """A window of stride two beside the largest of each four."""

        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.window = nn.Conv2d(inputs, outputs - inputs, 3, 2, 1)
            self.end = nn.Sequential(nn.BatchNorm2d(outputs), nn.PReLU(outputs))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.end(torch.cat([self.window(x), F.max_pool2d(x, 2)], 1))

    def __init__(self, classes: int = 12) -> None:
        super().__init__()

        def window(channels: int, dilation: int = 1) -> nn.Module:
            return nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation)

        def cross(channels: int) -> tuple[nn.Module, nn.Module]:
            return (
                nn.Conv2d(channels, channels, (5, 1), padding=(2, 0), bias=False),
                nn.Conv2d(channels, channels, (1, 5), padding=(0, 2)),
            )

        self.down = nn.Sequential(
            self.Smaller(3, 16), self.Smaller(16, 64),
            *(self.Narrow(64, window(16)) for _ in range(4)), self.Smaller(64, 128),
            *(
                self.Narrow(128, *windows)
                for dilation in (2, 4, 8, 16)
                for windows in ((window(32),), (window(32, dilation),), cross(32))
            ),
        )  # fmt: skip
        self.up = nn.Sequential(
            nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), nn.BatchNorm2d(64), nn.ReLU(),
            self.Narrow(64, window(16)),
            nn.ConvTranspose2d(64, 16, 3, 2, 1, 1), nn.BatchNorm2d(16), nn.ReLU(),
            self.Narrow(16, window(4)),
            nn.ConvTranspose2d(16, classes, 2, 2),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x))


class BiSeNet(nn.Module):
    """Yu et al., 2018: a path of few layers beside one that sees far, each gated by its mean."""

    class Gate(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(),
                nn.Conv2d(channels // 4, channels, 1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.gate(x)

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.near = nn.Sequential(layer(3, 64, 2, 7), layer(64, 64, 2), layer(64, 128, 2))
        self.stem = nn.Sequential(layer(3, 32, 2), separable(32, 64, 2), separable(64, 128, 2))
        self.sixteenth, self.last = separable(128, 128, 2), separable(128, 128, 2)
        self.gates = nn.ModuleList(self.Gate(128) for _ in range(2))
        self.both = nn.Sequential(layer(256, 128, kernel=1))
        self.gate = self.Gate(128)
        self.classes = nn.Sequential(layer(128, 64), nn.Conv2d(64, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sixteenth = self.sixteenth(self.stem(x))
        last = self.last(sixteenth)
        far = self.gates[0](last) + last.mean((2, 3), keepdim=True)
        far = self.gates[1](sixteenth) + F.interpolate(far, scale_factor=2.0)
        both = self.both(torch.cat([self.near(x), F.interpolate(far, scale_factor=2.0)], 1))
        found = self.classes(both + self.gate(both))
        return F.interpolate(found, scale_factor=8.0, mode="bilinear")


class DexiNed(nn.Module):
    """Poma et al., 2020: edges of four sizes, each made large by transposed convolutions."""

    BLOCKS = ((3, 32, 1), (32, 64, 1), (64, 128, 2), (128, 256, 3))  # and how often doubled

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(layer(inputs, outputs, 2 if inputs == 3 else 1), layer(outputs, outputs))
            for inputs, outputs, _ in self.BLOCKS
        )
        self.heads = nn.ModuleList(
            self._head(outputs, doubled) for _, outputs, doubled in self.BLOCKS
        )
        self.fused = nn.Conv2d(len(self.BLOCKS), 1, 1)

    @staticmethod
    def _head(inputs: int, doubled: int) -> nn.Sequential:
        widths = [inputs, *(16,) * (doubled - 1), 1]
        parts: list[nn.Module] = []
        for power, (before, after) in enumerate(pairwise(widths)):
            size = 2 ** (power + 2)
            larger = nn.ConvTranspose2d(16, after, size, 2, size // 2 - 1)
            parts += [nn.Conv2d(before, 16, 1), nn.ReLU(), larger]
        return nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        edges = []
        for number, (block, head) in enumerate(zip(self.blocks, self.heads, strict=True)):
            x = block(F.max_pool2d(x, 3, 2, 1) if number > 1 else x)
            edges.append(head(x))
        return self.fused(torch.cat(edges, 1)).sigmoid()


class GRConvNet(nn.Module):
    """Kumra et al., 2020: where and how to grasp, four images; 9×9 windows at both ends."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(4, width, kernel=9), layer(width, 2 * width, 2, 5),
            layer(2 * width, 4 * width, 2, 5),
        )  # fmt: skip
        self.blocks = nn.ModuleList(
            nn.Sequential(
                layer(4 * width, 4 * width), nn.Conv2d(4 * width, 4 * width, 3, padding=1),
                nn.BatchNorm2d(4 * width),
            )
            for _ in range(5)
        )  # fmt: skip
        self.up = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.ConvTranspose2d(width, width, 9, 1, 4),
        )  # fmt: skip
        self.heads = nn.ModuleList(nn.Conv2d(width, 1, 1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        for block in self.blocks:
            x = x + block(x)
        x = self.up(x)
        return torch.cat([head(x) for head in self.heads], 1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "unet": UNet,
    "espnet": ESPNet,
    "enet": ENet,
    "bisenet": BiSeNet,
    "dexined": DexiNed,
    "gr_convnet": GRConvNet,
}
