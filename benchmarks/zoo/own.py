"""Networks that no library of the zoo has: of pictures, rows and volumes, as robots run them.

Each is the plainest form of its kind, in PyTorch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def _layer(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    window = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(window, nn.BatchNorm2d(outputs), nn.ReLU())


def _layer_of_row(inputs: int, outputs: int, kernel: int, **more: Any) -> nn.Sequential:
    window = nn.Conv1d(inputs, outputs, kernel, bias=False, **more)
    return nn.Sequential(window, nn.BatchNorm1d(outputs), nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al., 2015, from 32 channels on, with transposed convolutions."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256, 512)) -> None:
        super().__init__()
        pairs = list(pairwise((3, *widths)))
        self.down = nn.ModuleList(nn.Sequential(_layer(i, o), _layer(o, o)) for i, o in pairs)
        steps = list(pairwise(widths))[::-1]
        self.larger = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in steps)
        self.up = nn.ModuleList(nn.Sequential(_layer(2 * i, i), _layer(i, i)) for i, _ in steps)
        self.classes = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for larger, layer, beside in zip(self.larger, self.up, kept[-2::-1], strict=True):
            x = layer(torch.cat([larger(x), beside], 1))
        return self.classes(x)


class SuperResolution(nn.Module):
    """Twice as large: EDSR of Lim et al., 2017, with eight blocks of 64 channels."""

    def __init__(self, channels: int = 64, blocks: int = 8) -> None:
        super().__init__()

        def window(inputs: int, outputs: int) -> nn.Conv2d:
            return nn.Conv2d(inputs, outputs, 3, padding=1)

        self.first = window(3, channels)
        self.blocks = nn.ModuleList(
            nn.Sequential(window(channels, channels), nn.ReLU(), window(channels, channels))
            for _ in range(blocks)
        )
        self.larger = nn.Sequential(window(channels, 4 * channels), nn.PixelShuffle(2))
        self.last = window(channels, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(self.larger(x + whole))


class StyleTransfer(nn.Module):
    """Johnson et al., 2016, with instance normalization and five residual blocks."""

    def __init__(self) -> None:
        super().__init__()

        def window(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.ReflectionPad2d(kernel // 2),
                nn.Conv2d(inputs, outputs, kernel, stride),
                nn.InstanceNorm2d(outputs, affine=True),
            )

        self.down = nn.Sequential(
            window(3, 32, 9), nn.ReLU(), window(32, 64, stride=2), nn.ReLU(),
            window(64, 128, stride=2), nn.ReLU(),
        )  # fmt: skip
        self.blocks = nn.ModuleList(
            nn.Sequential(window(128, 128), nn.ReLU(), window(128, 128)) for _ in range(5)
        )
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=2), window(128, 64), nn.ReLU(),
            nn.Upsample(scale_factor=2), window(64, 32), nn.ReLU(),
            nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        for block in self.blocks:
            x = x + block(x)
        return self.up(x)


class Dilated(nn.Module):
    """Of sound or joints: depthwise separable layers whose windows double, as TCNs have them."""

    def __init__(self, inputs: int = 64, channels: int = 128) -> None:
        super().__init__()
        self.first = _layer_of_row(inputs, channels, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                _layer_of_row(
                    channels, channels, 5, padding=2 * dilation, dilation=dilation, groups=channels
                ),
                _layer_of_row(channels, channels, 1),
            )
            for dilation in (1, 2, 4, 8, 16, 32)
        )
        self.last = nn.Conv1d(channels, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


class DiffusionUNet(nn.Module):
    """One step of a policy over actions in time, as Chi et al., 2023, have it, without a condition:
    convolutions of five, group normalization, Mish."""

    def __init__(self, actions: int = 16, widths: tuple[int, ...] = (128, 256, 512)) -> None:
        super().__init__()

        def layer(inputs: int, outputs: int) -> nn.Sequential:
            window = nn.Conv1d(inputs, outputs, 5, padding=2)
            return nn.Sequential(window, nn.GroupNorm(8, outputs), nn.Mish())

        self.down = nn.ModuleList(map(layer, (actions, *widths), widths))
        self.shorter = nn.ModuleList(nn.Conv1d(width, width, 3, 2, 1) for width in widths[:-1])
        steps = list(pairwise(widths))[::-1]
        self.longer = nn.ModuleList(nn.ConvTranspose1d(o, i, 4, 2, 1) for i, o in steps)
        self.up = nn.ModuleList(layer(2 * i, i) for i, _ in steps)
        self.last = nn.Conv1d(widths[0], actions, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, layer in enumerate(self.down):
            x = layer(self.shorter[number - 1](x) if number else x)
            kept.append(x)
        for longer, layer, beside in zip(self.longer, self.up, kept[-2::-1], strict=True):
            x = layer(torch.cat([longer(x), beside], 1))
        return self.last(x)


class PointNet(nn.Module):
    """Qi et al., 2017, without its transformations."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 64, 128, 1024)
        self.points = nn.Sequential(*(_layer_of_row(i, o, 1) for i, o in pairwise(widths)))
        self.whole = nn.Sequential(
            nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.whole(self.points(x).amax(2))


class Recurrent(nn.Module):
    """Two recurrent layers of 256 over a sequence, and what its end says."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layers = kind(64, 256, num_layers=2, batch_first=True)
        self.last = nn.Linear(256, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x)[0][:, -1])


class StereoVolume(nn.Module):
    """What PSMNet (Chang and Chen, 2018) makes of a volume of costs: a disparity for each pixel."""

    def __init__(self, inputs: int = 64, channels: int = 32) -> None:
        super().__init__()
        widths = (inputs, channels, channels, channels)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv3d(i, o, 3, padding=1, bias=False), nn.BatchNorm3d(o), nn.ReLU()
                )
                for i, o in pairwise(widths)
            )
        )
        self.last = nn.Conv3d(channels, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        likely = self.last(self.layers(x))[:, 0].softmax(1)
        places = torch.arange(x.shape[2], dtype=x.dtype, device=x.device)
        return (likely * places.view(1, -1, 1, 1)).sum(1)


def build(model: str) -> nn.Module:
    """The network of a name of ``networks.OWN``."""
    made: dict[str, Any] = {
        "unet": UNet,
        "super_resolution": SuperResolution,
        "style_transfer": StyleTransfer,
        "dilated_rows": Dilated,
        "diffusion_unet": DiffusionUNet,
        "pointnet": PointNet,
        "lstm": lambda: Recurrent(nn.LSTM),
        "gru": lambda: Recurrent(nn.GRU),
        "stereo_volume": StereoVolume,
    }
    return made[model]()
