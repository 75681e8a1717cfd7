"""Rows, sequences and sound: joints in time, speech, words in an image."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Attention, layer, layer_of_row, perceptron


class Dilated(nn.Module):
    """Of sound or joints: depthwise separable layers whose windows double, as TCNs have them."""

    def __init__(self, inputs: int = 64, channels: int = 128) -> None:
        super().__init__()
        self.first = layer_of_row(inputs, channels, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                layer_of_row(
                    channels, channels, 5, padding=2 * dilation, dilation=dilation, groups=channels
                ),
                layer_of_row(channels, channels, 1),
            )
            for dilation in (1, 2, 4, 8, 16, 32)
        )
        self.last = nn.Conv1d(channels, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for window in self.layers:
            x = x + window(x)
        return self.last(x)


class Recurrent(nn.Module):
    """Two recurrent layers of 256 over a sequence, and what its end says."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layers = kind(64, 256, num_layers=2, batch_first=True)
        self.last = nn.Linear(256, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x)[0][:, -1])


class Demucs(nn.Module):
    """Défossez et al., 2020: speech without noise; strided windows, gates, and two recurrent
    layers in the middle."""

    def __init__(self, widths: tuple[int, ...] = (48, 96, 192, 384)) -> None:
        super().__init__()
        before = (1, *widths)
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv1d(i, o, 8, 4), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1))
            for i, o in zip(before, widths, strict=False)
        )
        self.middle = nn.LSTM(widths[-1], widths[-1], num_layers=2, batch_first=True)
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(o, 2 * o, 1), nn.GLU(1), nn.ConvTranspose1d(o, i, 8, 4),
                nn.ReLU() if i > 1 else nn.Identity(),
            )
            for i, o in list(zip(before, widths, strict=False))[::-1]
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        x = self.middle(x.transpose(1, 2))[0].transpose(1, 2)
        for up, beside in zip(self.up, kept[::-1], strict=True):
            x = up(x + beside[..., : x.shape[2]])
        return x


class ConvTasNet(nn.Module):
    """Luo and Mesgarani, 2019: two voices, each a mask of short waves; dilated separable layers,
    normalized over all of a row."""

    class Separable(nn.Module):
        def __init__(self, channels: int, wide: int, dilation: int) -> None:
            super().__init__()
            self.parts = nn.Sequential(
                nn.Conv1d(channels, wide, 1), nn.PReLU(), nn.GroupNorm(1, wide),
                nn.Conv1d(wide, wide, 3, padding=dilation, dilation=dilation, groups=wide),
                nn.PReLU(), nn.GroupNorm(1, wide),
            )  # fmt: skip
            self.kept, self.said = nn.Conv1d(wide, channels, 1), nn.Conv1d(wide, channels, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.parts(x)
            return self.kept(x), self.said(x)

    def __init__(self, waves: int = 256, channels: int = 128) -> None:
        super().__init__()
        self.waves = nn.Conv1d(1, waves, 16, 8, bias=False)
        self.few = nn.Sequential(nn.GroupNorm(1, waves), nn.Conv1d(waves, channels, 1))
        self.layers = nn.ModuleList(
            self.Separable(channels, 256, 2**power) for power in (*range(7), *range(7))
        )
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(channels, 2 * waves, 1), nn.Sigmoid())
        self.sound = nn.ConvTranspose1d(waves, 1, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 1, samples). Returns (2 voices, 1, samples)."""
        waves = F.relu(self.waves(x))
        x = self.few(waves)
        total = torch.zeros_like(x)
        for layers in self.layers:
            kept, said = layers(x)
            x, total = x + kept, total + said
        return self.sound(waves * self.masks(total).view(2, waves.shape[1], -1))


class Keywords(nn.Module):
    """Zhang et al., 2017: a word in a second of sound. Its spectrum is two products with waves, its
    mel bands another, then separable layers."""

    def __init__(self, length: int = 512, step: int = 160, bands: int = 40) -> None:
        super().__init__()
        self.step, half = step, length // 2 + 1
        angles = torch.outer(torch.arange(half), torch.arange(length)) * (2 * torch.pi / length)
        waves = torch.cat([angles.cos(), angles.sin()]) * torch.hann_window(length)
        self.register_buffer("waves", waves.unsqueeze(1))
        peaks = torch.linspace(0, 1, bands + 2) ** 2 * (half - 1)
        apart = (torch.arange(half) - peaks[1:-1, None]).abs()
        widths = (peaks[2:] - peaks[:-2])[:, None] / 2 + 1
        self.register_buffer("bands", (1 - apart / widths).clamp(min=0))
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, (10, 4), 2, (4, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            *(
                nn.Sequential(layer(64, 64, groups=64), layer(64, 64, kernel=1))
                for _ in range(4)
            ),
        )  # fmt: skip
        self.words = nn.Linear(64, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, 1, samples)"""
        real, imaginary = F.conv1d(x, self.waves, stride=self.step).chunk(2, 1)
        loud = (self.bands @ (real**2 + imaginary**2) + 1e-6).log()
        return self.words(self.layers(loud.transpose(1, 2).unsqueeze(1)).mean((2, 3)))


class LongWindows(nn.Module):
    """Gu et al., 2022: states of lines as what they are beside each other, windows of 128 of each
    channel, with gates."""

    def __init__(self, width: int = 128, length: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.windows = nn.ModuleList(
            nn.Conv1d(width, width, length, padding=length - 1, groups=width) for _ in range(layers)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, times, width)"""
        for window, mixed, norm in zip(self.windows, self.mixed, self.norms, strict=True):
            row = norm(x).transpose(1, 2)
            row = F.gelu(window(row)[..., : x.shape[1]])
            x = x + F.glu(mixed(row), 1).transpose(1, 2)
        return self.last(x.mean(1))


class Mamba(nn.Module):
    """Gu and Dao, 2023: one layer; a state of 16 for each channel, that what comes in says how to
    change, 64 times one after another."""

    def __init__(self, width: int = 128, state: int = 16) -> None:
        super().__init__()
        wide = 2 * width
        self.norm = nn.LayerNorm(width)
        self.both = nn.Linear(width, 2 * wide)
        self.window = nn.Conv1d(wide, wide, 4, padding=3, groups=wide)
        self.said = nn.Linear(wide, 8 + 2 * state)
        self.step = nn.Linear(8, wide)
        self.decay = nn.Parameter(torch.arange(1.0, state + 1).log().expand(wide, -1).clone())
        self.past = nn.Parameter(torch.ones(wide))
        self.last = nn.Linear(wide, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, times, width)"""
        row, gate = self.both(self.norm(x)).chunk(2, 2)
        row = F.silu(self.window(row.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        state = self.decay.shape[1]
        step, enters, leaves = self.said(row).split((8, state, state), 2)
        step = F.softplus(self.step(step))
        kept = (step.unsqueeze(3) * -self.decay.exp()).exp()
        new = (step * row).unsqueeze(3) * enters.unsqueeze(2)
        held, found = torch.zeros_like(new[:, 0]), []
        for time in range(x.shape[1]):
            held = kept[:, time] * held + new[:, time]
            found.append((held @ leaves[:, time].unsqueeze(2))[..., 0])
        return x + self.last((torch.stack(found, 1) + row * self.past) * F.silu(gate))


class Conformer(nn.Module):
    """Gulati et al., 2020: speech, two blocks; attention between two perceptrons, and gated windows
    of 31 of each channel."""

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            each = partial(perceptron, width, 4 * width, width, activation=nn.SiLU)
            self.each = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), each()) for _ in range(2))
            self.norm, self.own = nn.LayerNorm(width), Attention(width, heads)
            self.middle = nn.LayerNorm(width)
            self.windows = nn.Sequential(
                nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
                nn.Conv1d(width, width, 31, padding=15, groups=width), nn.BatchNorm1d(width),
                nn.SiLU(), nn.Conv1d(width, width, 1),
            )  # fmt: skip
            self.last = nn.LayerNorm(width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.each[0](x) / 2
            rows = self.norm(x)
            x = x + self.own(rows, rows)
            x = x + self.windows(self.middle(x).transpose(1, 2)).transpose(1, 2)
            return self.last(x + self.each[1](x) / 2)

    def __init__(self, bands: int = 80, width: int = 144) -> None:
        super().__init__()
        self.fewer = nn.Sequential(
            nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU()
        )
        self.first = nn.Linear(width * ((bands - 3) // 4), width)
        self.blocks = nn.Sequential(*(self.Block(width, 4) for _ in range(2)))
        self.letters = nn.Linear(width, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, times, bands)"""
        few = self.fewer(x.unsqueeze(1)).transpose(1, 2).flatten(2)
        return self.letters(self.blocks(self.first(few))).log_softmax(2)


class CRNN(nn.Module):
    """Shi et al., 2015: words of an image; columns are times of two recurrent layers of both
    directions."""

    def __init__(self, letters: int = 37) -> None:
        super().__init__()
        self.columns = nn.Sequential(
            layer(1, 64), nn.MaxPool2d(2), layer(64, 128), nn.MaxPool2d(2), layer(128, 256),
            layer(256, 256), nn.MaxPool2d((2, 1)), layer(256, 512), nn.MaxPool2d((2, 1)),
            nn.Conv2d(512, 512, (2, 3), padding=(0, 1)), nn.ReLU(),
        )  # fmt: skip
        self.times = nn.LSTM(512, 256, num_layers=2, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(512, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.columns(x).squeeze(2).transpose(1, 2)
        return self.letters(self.times(columns)[0]).log_softmax(2)


class Speaker(nn.Module):
    """Desplanques et al., 2020 (ECAPA): who speaks; eighths of channels one after another, gates,
    and means and deviations that attention weighs."""

    class Block(nn.Module):
        def __init__(self, channels: int, dilation: int, parts: int = 8) -> None:
            super().__init__()
            few = channels // parts
            self.first, self.last = (layer_of_row(channels, channels, 1) for _ in range(2))
            self.windows = nn.ModuleList(
                layer_of_row(few, few, 3, padding=dilation, dilation=dilation)
                for _ in range(parts - 1)
            )
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool1d(1), nn.Conv1d(channels, 64, 1), nn.ReLU(),
                nn.Conv1d(64, channels, 1), nn.Sigmoid(),
            )  # fmt: skip

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, *others = self.first(x).chunk(len(self.windows) + 1, 1)
            found, before = [first], None
            for window, part in zip(self.windows, others, strict=True):
                before = window(part if before is None else part + before)
                found.append(before)
            whole = self.last(torch.cat(found, 1))
            return x + whole * self.gate(whole)

    def __init__(self, bands: int = 80, channels: int = 256) -> None:
        super().__init__()
        self.first = layer_of_row(bands, channels, 5, padding=2)
        self.blocks = nn.ModuleList(self.Block(channels, dilation) for dilation in (2, 3, 4))
        self.all = layer_of_row(3 * channels, 768, 1)
        self.weights = nn.Sequential(
            layer_of_row(3 * 768, 128, 1), nn.Tanh(), nn.Conv1d(128, 768, 1), nn.Softmax(2)
        )
        self.last = nn.Linear(2 * 768, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, bands, times)"""
        x, found = self.first(x), []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        x = self.all(torch.cat(found, 1))
        mean = x.mean(2, keepdim=True)
        spread = ((x - mean) ** 2).mean(2, keepdim=True).clamp(min=1e-6).sqrt()
        weights = self.weights(torch.cat([x, mean.expand_as(x), spread.expand_as(x)], 1))
        mean = (weights * x).sum(2)
        spread = ((weights * x * x).sum(2) - mean**2).clamp(min=1e-6).sqrt()
        return F.normalize(self.last(torch.cat([mean, spread], 1)), dim=1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "dilated_rows": Dilated,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "demucs": Demucs,
    "conv_tasnet": ConvTasNet,
    "keywords": Keywords,
    "long_windows": LongWindows,
    "mamba": Mamba,
    "conformer": Conformer,
    "crnn": CRNN,
    "speaker": Speaker,
}
