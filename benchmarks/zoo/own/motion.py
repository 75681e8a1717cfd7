"""What moves, and how far away it is: networks of several images, of clips and of one with
depth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .layers import ConvGRU, at, layer, layer_of_volume, pixels


class RAFT(nn.Module):
    """Teed and Deng, 2020, its small form: flow from looking up, four times, how alike pixels of
    both images are around where the flow points to."""

    RADIUS, LEVELS, TIMES = 3, 3, 4

    def __init__(self) -> None:
        super().__init__()

        def features(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                layer(3, 32, 2, 7), layer(32, 64, 2), layer(64, 96, 2), nn.Conv2d(96, outputs, 1)
            )

        self.features, self.context = features(128), features(160)
        alike = self.LEVELS * (2 * self.RADIUS + 1) ** 2
        self.motion = nn.Sequential(layer(alike, 96, kernel=1), layer(96, 80))
        self.flow = nn.Sequential(layer(2, 64, kernel=7), layer(64, 32))
        self.unit = ConvGRU(64 + 112, 96)
        self.change = nn.Sequential(layer(96, 128), nn.Conv2d(128, 2, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 6, height, width), two images. Returns (1, 2, height, width)."""
        first, second = self.features(x[:, :3]), self.features(x[:, 3:])
        channels, height, width = first.shape[1:]
        alike = first.flatten(2).transpose(1, 2) @ second.flatten(2) * channels**-0.5
        alike = alike.view(height * width, 1, height, width)
        levels = [alike]
        for _ in range(self.LEVELS - 1):
            levels.append(F.avg_pool2d(levels[-1], 2))
        state, context = self.context(x[:, :3]).split((96, 64), 1)
        state, context = state.tanh(), context.relu()
        here = pixels(height, width, x.device).to(x)
        around = 2 * self.RADIUS + 1
        window = pixels(around, around, x.device).to(x) - self.RADIUS
        flow = torch.zeros_like(here)
        for _ in range(self.TIMES):
            centres = (here + flow).view(-1, 1, 1, 2)
            found = torch.cat(
                [
                    at(level, centres / 2**number + window).flatten(1)
                    for number, level in enumerate(levels)
                ],
                1,
            )
            found = found.view(1, height, width, -1).permute(0, 3, 1, 2)
            moved = self.flow(flow.permute(0, 3, 1, 2))
            state = self.unit(torch.cat([context, self.motion(found), moved], 1), state)
            flow = flow + self.change(state).permute(0, 2, 3, 1)
        return 8 * F.interpolate(flow.permute(0, 3, 1, 2), scale_factor=8.0, mode="bilinear")


class PWC(nn.Module):
    """Sun et al., 2018: flow from coarse to fine; the second image is moved by what is known, and
    compared with the first at 81 shifts."""

    WIDTHS = (16, 32, 64, 96)

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(i, o, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(o, o, 3, padding=1),
                nn.LeakyReLU(0.1),
            )
            for i, o in pairwise((3, *self.WIDTHS))
        )  # fmt: skip
        self.flows = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(81 + width + 2, 64, 3, padding=1), nn.LeakyReLU(0.1),
                nn.Conv2d(64, 32, 3, padding=2, dilation=2), nn.LeakyReLU(0.1),
                nn.Conv2d(32, 2, 3, padding=1),
            )
            for width in self.WIDTHS[:0:-1]
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 6, height, width), two images. Returns the flow at a quarter of the size."""
        levels, both = [], torch.cat([x[:, :3], x[:, 3:]])
        for down in self.down:
            both = down(both)
            levels.append(both)
        flow = torch.zeros_like(both[:1, :2])
        for level, estimate in zip(levels[:0:-1], self.flows, strict=True):
            first, second = level[:1], level[1:]
            height, width = first.shape[2:]
            if flow.shape[2:] != first.shape[2:]:
                flow = 2 * F.interpolate(flow, scale_factor=2.0, mode="bilinear")
            moved = at(second, pixels(height, width, x.device).to(x) + flow.permute(0, 2, 3, 1))
            wide = F.pad(moved, (4, 4, 4, 4))
            alike = torch.cat(
                [
                    (first * wide[:, :, row : row + height, column : column + width]).mean(
                        1, keepdim=True
                    )
                    for row in range(9)
                    for column in range(9)
                ],
                1,
            )
            alike = F.leaky_relu(alike, 0.1)
            flow = flow + estimate(torch.cat([alike, first, flow], 1))
        return flow


class StereoGroups(nn.Module):
    """Guo et al., 2019: how alike groups of channels are at 24 disparities, and an hourglass of
    volumes over that."""

    DISPARITIES, GROUPS = 24, 16

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(layer(3, 32, 2), layer(32, 64, 2), layer(64, 96))
        self.first = layer_of_volume(self.GROUPS, 16)
        self.down = nn.Sequential(layer_of_volume(16, 32, 2), layer_of_volume(32, 32))
        self.up = nn.ConvTranspose3d(32, 16, 3, 2, 1, 1)
        self.last = nn.Conv3d(16, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 6, height, width), left and right. Returns disparities, (1, height, width)."""
        left, right = self.features(x[:, :3]), self.features(x[:, 3:])
        wide = F.pad(right, (self.DISPARITIES - 1, 0))
        alike = torch.stack(
            [
                (left * wide[..., start : start + left.shape[3]])
                .unflatten(1, (self.GROUPS, -1))
                .mean(2)
                for start in range(self.DISPARITIES - 1, -1, -1)
            ],
            2,
        )
        volume = self.first(alike)
        costs = self.last(F.relu(volume + self.up(self.down(volume))))
        size = (self.DISPARITIES, x.shape[2], x.shape[3])
        likely = F.interpolate(costs, size, mode="trilinear")[:, 0].softmax(1)
        places = 4 * torch.arange(self.DISPARITIES, device=x.device).to(x.dtype)
        return (likely * places.view(1, -1, 1, 1)).sum(1)


class Monodepth(nn.Module):
    """Godard et al., 2019: depth of one image; borders reflected, ELU, four sizes of which the
    largest counts."""

    WIDTHS = (32, 64, 128, 256)

    def __init__(self) -> None:
        super().__init__()

        def window(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3))

        self.down = nn.ModuleList(
            nn.Sequential(layer(i, o, 2), layer(o, o)) for i, o in pairwise((3, *self.WIDTHS))
        )
        self.up, self.both = nn.ModuleList(), nn.ModuleList()
        for number in (3, 2, 1, 0):
            outputs = self.WIDTHS[max(number - 1, 0)] // (1 if number else 2)
            beside = self.WIDTHS[number - 1] if number else 0
            self.up.append(nn.Sequential(window(self.WIDTHS[number], outputs), nn.ELU()))
            self.both.append(
                nn.Sequential(
                    window(outputs + beside, outputs if number == 0 else beside), nn.ELU()
                )
            )
        self.last = nn.Sequential(window(self.WIDTHS[0] // 2, 1), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for number, (up, both) in enumerate(zip(self.up, self.both, strict=True)):
            x = F.interpolate(up(x), scale_factor=2.0)
            x = both(torch.cat([x, kept[2 - number]], 1) if number < 3 else x)
        return 1 / (0.01 + 10 * self.last(x))


class Deformable(nn.Module):
    """Zhu et al., 2019: each tap of a 3×3 window is read where the image says, and counts what it
    says."""

    class Window(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.register_buffer("taps", pixels(3, 3).view(9, 2) - 1)
            self.places = nn.Conv2d(inputs, 27, 3, padding=1)
            self.product = nn.Conv2d(9 * inputs, outputs, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count, _, height, width = x.shape
            said = self.places(x)
            weights = said[:, 18:].sigmoid()
            shifts = said[:, :18].view(count, 9, 2, height, width).permute(1, 0, 3, 4, 2)
            here = pixels(height, width, x.device).to(x)
            taps = [
                at(x, here + self.taps[tap] + shifts[tap]) * weights[:, tap : tap + 1]
                for tap in range(9)
            ]
            return self.product(torch.cat(taps, 1))

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(layer(3, 32, 2), layer(32, 64, 2))
        self.blocks = nn.ModuleList(
            nn.Sequential(self.Window(64, 64), nn.BatchNorm2d(64), nn.ReLU()) for _ in range(2)
        )
        self.last = nn.Conv2d(64, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class ShiftedVideo(nn.Module):
    """Lin et al., 2019 (TSM): some channels are those of the image before, some of the next."""

    def __init__(self, width: int = 64, classes: int = 27) -> None:
        super().__init__()
        self.stem = nn.Sequential(layer(3, width // 2, 2), layer(width // 2, width, 2))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                layer(width, width), nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
            )
            for _ in range(4)
        )  # fmt: skip
        self.classes = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (images, 3, height, width), one clip."""
        x = self.stem(x)
        for block in self.blocks:
            few = x.shape[1] // 8
            after = F.pad(x[1:, :few], (0, 0, 0, 0, 0, 0, 0, 1))
            before = F.pad(x[:-1, few : 2 * few], (0, 0, 0, 0, 0, 0, 1, 0))
            x = F.relu(x + block(torch.cat([after, before, x[:, 2 * few :]], 1)))
        return self.classes(x.mean((2, 3))).mean(0, keepdim=True)


class X3D(nn.Module):
    """Feichtenhofer, 2020: a clip, windows of each channel over time and place, gates, Swish."""

    class Narrow(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            wide = 9 * outputs // 4
            self.wide = nn.Sequential(
                nn.Conv3d(inputs, wide, 1, bias=False), nn.BatchNorm3d(wide), nn.ReLU(),
                nn.Conv3d(wide, wide, 3, (1, stride, stride), 1, groups=wide, bias=False),
                nn.BatchNorm3d(wide),
            )  # fmt: skip
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool3d(1), nn.Conv3d(wide, 8, 1), nn.ReLU(), nn.Conv3d(8, wide, 1),
                nn.Sigmoid(),
            )  # fmt: skip
            self.narrow = nn.Sequential(
                nn.SiLU(), nn.Conv3d(wide, outputs, 1, bias=False), nn.BatchNorm3d(outputs)
            )
            self.beside = nn.Conv3d(inputs, outputs, 1, (1, stride, stride))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.wide(x)
            return F.relu(self.beside(x) + self.narrow(wide * self.gate(wide)))

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False),
            nn.Conv3d(24, 24, (5, 1, 1), padding=(2, 0, 0), groups=24, bias=False),
            nn.BatchNorm3d(24), nn.ReLU(),
        )  # fmt: skip
        self.blocks = nn.Sequential(
            self.Narrow(24, 24, 2), self.Narrow(24, 48, 2), self.Narrow(48, 96, 2)
        )
        self.classes = nn.Linear(96, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.blocks(self.stem(x)).mean((2, 3, 4)))


class ConvLSTM(nn.Module):
    """Shi et al., 2015: what a clip's next image is, from eight, one after another."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.first = layer(3, channels, 2)
        self.gates = nn.ModuleList(
            nn.Conv2d(2 * channels, 4 * channels, 3, padding=1) for _ in range(2)
        )
        self.last = nn.ConvTranspose2d(channels, 3, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, images, 3, height, width)"""
        images = self.first(x.flatten(0, 1)).split(1)
        states = [(torch.zeros_like(images[0]),) * 2 for _ in self.gates]
        for image in images:
            below = image
            for number, gates in enumerate(self.gates):
                shown, cell = states[number]
                enter, keep, show, new = gates(torch.cat([below, shown], 1)).chunk(4, 1)
                cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
                below = show.sigmoid() * cell.tanh()
                states[number] = (below, cell)
        return self.last(below)


class EventUNet(nn.Module):
    """Rebecq et al., 2019, with units of Cho et al., 2014: an image from five voxels of time of an
    event camera, four times; what was seen stays in each size."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        self.first = layer(5, widths[0])
        steps = list(pairwise((widths[0], *widths)))
        self.down = nn.ModuleList(layer(i, o, 2, 5) for i, o in steps)
        self.units = nn.ModuleList(ConvGRU(width, width) for width in widths)
        self.up = nn.ModuleList(layer(o, i, kernel=5) for i, o in steps[::-1])
        self.last = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, times, 5, height, width)"""
        count, times, _, height, width = x.shape
        states = [
            x.new_zeros(count, part[0].out_channels, height >> size, width >> size)
            for size, part in enumerate(self.down, 1)
        ]
        for time in range(times):
            whole = now = self.first(x[:, time])
            for number, (down, unit) in enumerate(zip(self.down, self.units, strict=True)):
                now = states[number] = unit(down(now), states[number])
        for up, state in zip(self.up, states[::-1], strict=True):
            now = up(F.interpolate(now + state, scale_factor=2.0, mode="bilinear"))
        return self.last(now + whole).sigmoid()


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "raft": RAFT,
    "pwc": PWC,
    "stereo_groups": StereoGroups,
    "monodepth": Monodepth,
    "deformable": Deformable,
    "shifted_video": ShiftedVideo,
    "x3d": X3D,
    "conv_lstm": ConvLSTM,
    "event_unet": EventUNet,
}
