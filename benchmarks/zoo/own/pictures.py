"""Images from images: larger, brighter, clearer, in other styles and codes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from .layers import layer


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


class FSRCNN(nn.Module):
    """Dong et al., 2016: narrow layers on the small image, and 9×9 transposed to twice the size."""

    def __init__(self, channels: int = 56, narrow: int = 12) -> None:
        super().__init__()

        def window(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.PReLU(outputs)
            )

        self.layers = nn.Sequential(
            window(1, channels, 5), window(channels, narrow, 1),
            *(window(narrow, narrow, 3) for _ in range(4)), window(narrow, channels, 1),
            nn.ConvTranspose2d(channels, 1, 9, 2, 4, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class ZeroDCE(nn.Module):
    """Guo et al., 2020: dark images, brightened by a curve of each pixel, eight times."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        widths = (3, *(channels,) * 3, *(2 * channels,) * 2)
        self.layers = nn.ModuleList(nn.Conv2d(i, channels, 3, padding=1) for i in widths)
        self.curves = nn.Conv2d(2 * channels, 24, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth, fifth, sixth = self.layers
        one = F.relu(first(x))
        two = F.relu(second(one))
        three = F.relu(third(two))
        four = F.relu(fourth(three))
        five = F.relu(fifth(torch.cat([three, four], 1)))
        six = F.relu(sixth(torch.cat([two, five], 1)))
        for curve in self.curves(torch.cat([one, six], 1)).tanh().chunk(8, 1):
            x = x + curve * (x * x - x)
        return x


class Restormer(nn.Module):
    """Zamir et al., 2022: attention between channels, whose products are as long as an image."""

    class Channels(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2))
            self.parts = nn.Sequential(
                nn.Conv2d(width, 3 * width, 1),
                nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width),
            )
            self.warmth = nn.Parameter(torch.ones(heads, 1, 1))
            self.out = nn.Conv2d(width, width, 1)
            self.wide = nn.Sequential(
                nn.Conv2d(width, 4 * width, 1),
                nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width),
            )
            self.narrow = nn.Conv2d(2 * width, width, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = self.parts(self.norms[0](x)).chunk(3, 1)
            query, key, value = (part.flatten(2).unflatten(1, (self.heads, -1)) for part in parts)
            scores = F.normalize(query, dim=3) @ F.normalize(key, dim=3).transpose(2, 3)
            found = (scores * self.warmth).softmax(3) @ value
            x = x + self.out(found.flatten(1, 2).unflatten(2, x.shape[2:]))
            gate, kept = self.wide(self.norms[1](x)).chunk(2, 1)
            return x + self.narrow(F.gelu(gate) * kept)

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.large = self.Channels(width, 1)
        self.smaller = nn.Sequential(nn.Conv2d(width, width // 2, 3, padding=1))
        self.small = nn.Sequential(*(self.Channels(2 * width, 2) for _ in range(2)))
        self.larger = nn.Sequential(nn.Conv2d(2 * width, 4 * width, 3, padding=1))
        self.both = nn.Conv2d(2 * width, width, 1)
        self.last = nn.Sequential(self.Channels(width, 1), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large = self.large(self.first(x))
        small = self.small(F.pixel_unshuffle(self.smaller(large), 2))
        both = torch.cat([F.pixel_shuffle(self.larger(small), 2), large], 1)
        return x + self.last(self.both(both))


class HDRNet(nn.Module):
    """Gharbi et al., 2017: a small grid of colour transformations, read at each pixel's place and
    brightness. What a level of brightness counts for a pixel is a hat around it."""

    LEVELS = 8

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Sequential(
            layer(3, 8, 2), layer(8, 16, 2), layer(16, 32, 2), layer(32, 64, 2), layer(64, 64)
        )
        self.whole = nn.Sequential(layer(64, 64, 2), layer(64, 64, 2))
        self.grid = nn.Conv2d(64, 12 * self.LEVELS, 1)
        self.guide = nn.Sequential(nn.Conv2d(3, 16, 1), nn.ReLU(), nn.Conv2d(16, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = self.small(F.interpolate(x, size=(256, 256), mode="bilinear"))
        small = F.relu(small + self.whole(small).mean((2, 3), keepdim=True))
        grid = F.interpolate(self.grid(small), x.shape[2:], mode="bilinear", align_corners=True)
        levels = torch.arange(float(self.LEVELS), device=x.device).view(1, 1, -1, 1, 1)
        brightness = self.guide(x).sigmoid().unsqueeze(2) * (self.LEVELS - 1)
        hats = (1 - (brightness - levels).abs()).clamp(min=0).to(x.dtype)
        change = (grid.unflatten(1, (12, self.LEVELS)) * hats).sum(2).unflatten(1, (3, 4))
        return (change[:, :, :3] * x.unsqueeze(1)).sum(2) + change[:, :, 3]


class Involution(nn.Module):
    """Li et al., 2021: each pixel has a window of its own, which a product makes of the pixel."""

    class Window(nn.Module):
        def __init__(self, channels: int, kernel: int = 7, each: int = 16) -> None:
            super().__init__()
            self.kernel, self.groups = kernel, channels // each
            self.made = nn.Sequential(
                layer(channels, channels // 4, kernel=1),
                nn.Conv2d(channels // 4, kernel**2 * self.groups, 1),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count, _, height, width = x.shape
            weights = self.made(x).view(count, self.groups, 1, self.kernel**2, height, width)
            taps = F.unfold(x, self.kernel, padding=self.kernel // 2)
            taps = taps.view(count, self.groups, -1, self.kernel**2, height, width)
            return (weights * taps).sum(3).view(x.shape)

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(layer(3, 32, 2), layer(32, 64, 2))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                layer(64, 64, kernel=1), self.Window(64), nn.BatchNorm2d(64), nn.ReLU(),
                nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64),
            )
            for _ in range(3)
        )  # fmt: skip
        self.classes = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.classes(x.mean((2, 3)))


class VQVAE(nn.Module):
    """Van den Oord et al., 2017: an image of the codes that are nearest."""

    def __init__(self, channels: int = 128, width: int = 64, codes: int = 512) -> None:
        super().__init__()

        def block() -> nn.Module:
            return nn.Sequential(
                nn.ReLU(), nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(),
                nn.Conv2d(32, channels, 1),
            )  # fmt: skip

        self.down = nn.Sequential(
            nn.Conv2d(3, channels // 2, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(channels // 2, channels, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )  # fmt: skip
        self.blocks = nn.ModuleList(block() for _ in range(4))
        self.few = nn.Conv2d(channels, width, 1)
        self.codes = nn.Parameter(torch.randn(codes, width) * 0.05)
        self.many = nn.Conv2d(width, channels, 3, padding=1)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(channels // 2, 3, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        for block in self.blocks[:2]:
            x = x + block(x)
        rows = self.few(x).permute(0, 2, 3, 1)
        far = (self.codes**2).sum(1) - 2 * rows @ self.codes.t()
        x = self.many(self.codes[far.argmin(3)].permute(0, 3, 1, 2))
        for block in self.blocks[2:]:
            x = x + block(x)
        return self.up(x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "super_resolution": SuperResolution,
    "style_transfer": StyleTransfer,
    "fsrcnn": FSRCNN,
    "zero_dce": ZeroDCE,
    "restormer": Restormer,
    "hdrnet": HDRNet,
    "involution": Involution,
    "vq_vae": VQVAE,
}
