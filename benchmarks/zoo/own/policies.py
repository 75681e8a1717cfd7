"""Policies and models of the world: what a robot does, and what it thinks will be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Attention, Block, layer, perceptron


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
        for number, down in enumerate(self.down):
            x = down(self.shorter[number - 1](x) if number else x)
            kept.append(x)
        for longer, up, beside in zip(self.longer, self.up, kept[-2::-1], strict=True):
            x = up(torch.cat([longer(x), beside], 1))
        return self.last(x)


class DiffusionFiLM(nn.Module):
    """Chi et al., 2023, whole: what is seen, and how noisy actions still are, scale and shift the
    channels of each layer."""

    class Layer(nn.Module):
        def __init__(self, inputs: int, outputs: int, seen: int) -> None:
            super().__init__()
            self.first, self.last = (
                nn.Sequential(
                    nn.Conv1d(i, outputs, 5, padding=2), nn.GroupNorm(8, outputs), nn.Mish()
                )
                for i in (inputs, outputs)
            )
            self.film = nn.Sequential(nn.Mish(), nn.Linear(seen, 2 * outputs))
            self.beside = nn.Conv1d(inputs, outputs, 1)

        def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            scale, shift = self.film(seen).unsqueeze(2).chunk(2, 1)
            return self.last(self.first(x) * scale + shift) + self.beside(x)

    def __init__(
        self, actions: int = 7, seen: int = 128, widths: tuple[int, ...] = (128, 256, 512)
    ) -> None:
        super().__init__()
        self.actions, self.seen = actions, seen
        self.register_buffer("waves", (-torch.arange(32) * 0.3).exp())
        self.step = perceptron(64, 256, 64, activation=nn.Mish)
        whole = seen + 64
        self.down = nn.ModuleList(self.Layer(i, o, whole) for i, o in pairwise((actions, *widths)))
        self.shorter = nn.ModuleList(nn.Conv1d(width, width, 3, 2, 1) for width in widths[:-1])
        steps = list(pairwise(widths))[::-1]
        self.longer = nn.ModuleList(nn.ConvTranspose1d(o, i, 4, 2, 1) for i, o in steps)
        self.up = nn.ModuleList(self.Layer(2 * i, i, whole) for i, _ in steps)
        self.last = nn.Conv1d(widths[0], actions, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, noisy actions of all times, what is seen, the step)"""
        angles = 100 * x[:, -1:] * self.waves
        step = self.step(torch.cat([angles.sin(), angles.cos()], 1))
        seen = torch.cat([x[:, -1 - self.seen : -1], step], 1)
        x = x[:, : -1 - self.seen].unflatten(1, (self.actions, -1))
        kept = []
        for number, layers in enumerate(self.down):
            x = layers(self.shorter[number - 1](x) if number else x, seen)
            kept.append(x)
        for longer, layers, beside in zip(self.longer, self.up, kept[-2::-1], strict=True):
            x = layers(torch.cat([longer(x), beside], 1), seen)
        return self.last(x)


class ACT(nn.Module):
    """Zhao et al., 2023: an image's cells and the joints are looked at by 100 queries, each an
    action of the next 100."""

    def __init__(self, width: int = 256, joints: int = 14, actions: int = 100) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 64, 2, 7), nn.MaxPool2d(3, 2, 1), layer(64, 64), layer(64, 128, 2),
            layer(128, 256, 2), layer(256, 512, 2), nn.Conv2d(512, width, 1),
        )  # fmt: skip
        self.places = nn.Parameter(torch.randn(8 * 10 + 1, width) * 0.02)
        self.joints = nn.Parameter(torch.randn(1, 1, width))
        self.encoder = nn.ModuleList(Block(width, 8) for _ in range(2))
        self.queries = nn.Parameter(torch.randn(1, actions, width) * 0.02)
        self.decoder = nn.ModuleList(Block(width, 8, crosses=True) for _ in range(2))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, joints))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.down(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.joints, rows], 1) + self.places
        for block in self.encoder:
            rows = block(rows)
        asks = self.queries
        for block in self.decoder:
            asks = block(asks, rows)
        return self.last(asks)


class LeggedPolicy(nn.Module):
    """Kumar et al., 2021 (RMA): 4096 robots at once in a simulator; joints' history is a row, and
    an ELU perceptron acts."""

    def __init__(self, seen: int = 30, times: int = 50, actions: int = 12) -> None:
        super().__init__()
        self.seen, self.times = seen, times
        self.each = perceptron(seen + actions, 32)
        self.history = nn.Sequential(
            nn.Conv1d(32, 32, 8, 4), nn.ReLU(), nn.Conv1d(32, 32, 5), nn.ReLU(),
            nn.Conv1d(32, 32, 5), nn.ReLU(), nn.Flatten(), nn.Linear(96, 8),
        )  # fmt: skip
        self.acts = perceptron(seen + actions + 8, 256, 128, actions, activation=nn.ELU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (robots, times, what is seen and done)"""
        terrain = self.history(F.relu(self.each(x)).transpose(1, 2))
        return self.acts(torch.cat([x[:, -1], terrain], 1)).tanh()


class GRUPolicy(nn.Module):
    """One step of one robot: a perceptron, a recurrent unit of 384, two heads; its state comes with
    what is seen and goes with the action."""

    def __init__(self, seen: int = 96, state: int = 384, actions: int = 12) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(seen, 256), nn.ELU(), nn.LayerNorm(256))
        self.enters, self.stays = nn.Linear(256, 3 * state), nn.Linear(state, 3 * state)
        self.seen = seen
        self.acts, self.worth = perceptron(state, 128, actions), perceptron(state, 128, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen, state = x[:, : self.seen], x[:, self.seen :]
        enters = self.enters(self.first(seen)).chunk(3, 1)
        stays = self.stays(state).chunk(3, 1)
        reset, update = ((i + s).sigmoid() for i, s in zip(enters[:2], stays[:2], strict=True))
        new = (enters[2] + reset * stays[2]).tanh()
        state = new + update * (state - new)
        return torch.cat([self.acts(state), self.worth(state), state], 1)


class TDMPC(nn.Module):
    """Hansen et al., 2024: 512 plans of three steps in a world whose states are groups of shares;
    five judges, each of 101 classes, of which the mean counts."""

    STEPS, ACTIONS, STATE = 3, 6, 128

    class Judges(nn.Module):
        def __init__(self, inputs: int, width: int, outputs: int, count: int = 5) -> None:
            super().__init__()
            widths = (inputs, width, width, outputs)
            self.weights = nn.ParameterList(
                nn.Parameter(torch.randn(count, i, o) * i**-0.5) for i, o in pairwise(widths)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for weights in self.weights[:-1]:
                x = F.mish(F.layer_norm(x @ weights, weights.shape[2:]))
            return x @ self.weights[-1]

    def __init__(self, width: int = 256) -> None:
        super().__init__()

        def parts(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(self.STATE + self.ACTIONS, width), nn.LayerNorm(width), nn.Mish(),
                nn.Linear(width, width), nn.LayerNorm(width), nn.Mish(), nn.Linear(width, outputs),
            )  # fmt: skip

        self.world, self.reward = parts(self.STATE), parts(101)
        self.judges = self.Judges(self.STATE + self.ACTIONS, width, 101)
        self.register_buffer("bins", torch.linspace(-10, 10, 101))

    def _worth(self, classes: torch.Tensor) -> torch.Tensor:
        mean = (classes.softmax(-1) * self.bins).sum(-1)
        return mean.sign() * (mean.abs().exp() - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (plans, a state and the actions)"""
        state, actions = x[:, : self.STATE], x[:, self.STATE :].chunk(self.STEPS + 1, 1)
        total, discount = 0.0, 1.0
        for action in actions[:-1]:
            both = torch.cat([state, action], 1)
            total = total + discount * self._worth(self.reward(both))
            state = self.world(both).unflatten(1, (-1, 8)).softmax(2).flatten(1)
            discount *= 0.97
        judged = self._worth(self.judges(torch.cat([state, actions[-1]], 1)))
        return total + discount * judged.mean(0)


class RSSM(nn.Module):
    """Hafner et al., 2023: what 16 worlds will be after four steps; a recurrent unit with one
    normalization, and 32 dice of 32 sides, a hundredth of which is chance."""

    STATE, DICE, SIDES, ACTIONS = 512, 32, 32, 4

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        dice = self.DICE * self.SIDES
        self.first = nn.Sequential(
            nn.Linear(dice + self.ACTIONS, width), nn.LayerNorm(width, eps=1e-3), nn.SiLU()
        )
        self.unit = nn.Linear(width + self.STATE, 3 * self.STATE, bias=False)
        self.norm = nn.LayerNorm(3 * self.STATE, eps=1e-3)
        self.dice = nn.Sequential(
            nn.Linear(self.STATE, width), nn.LayerNorm(width, eps=1e-3), nn.SiLU(),
            nn.Linear(width, dice),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (worlds, state, dice and four actions). Returns the state and dice after them."""
        sizes = [self.STATE, self.DICE * self.SIDES, *(self.ACTIONS,) * 4]
        state, dice, *actions = x.split(sizes, 1)
        for action in actions:
            said = self.first(torch.cat([dice, action], 1))
            reset, new, update = self.norm(self.unit(torch.cat([said, state], 1))).chunk(3, 1)
            new, update = (reset.sigmoid() * new).tanh(), (update - 1).sigmoid()
            state = update * new + (1 - update) * state
            likely = self.dice(state).unflatten(1, (self.DICE, self.SIDES)).softmax(2)
            dice = (0.99 * likely + 0.01 / self.SIDES).flatten(1)
        return torch.cat([state, dice], 1)


class DreamerPictures(nn.Module):
    """Hafner et al., 2023: an image of 64² to numbers and back; windows of four by two, each
    pixel's channels normalized."""

    class Normalized(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(channels, eps=1e-3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.silu(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256), numbers: int = 512) -> None:
        super().__init__()
        steps = list(pairwise((3, *widths)))
        self.down = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(i, o, 4, 2, 1, bias=False), self.Normalized(o))
                for i, o in steps
            )
        )
        self.numbers = perceptron(16 * widths[-1], numbers, 16 * widths[-1], activation=nn.SiLU)
        self.up = nn.Sequential(
            *(
                nn.Sequential(
                    nn.ConvTranspose2d(o, i, 4, 2, 1, bias=i == 3),
                    self.Normalized(i) if i > 3 else nn.Sigmoid(),
                )
                for i, o in steps[::-1]
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = self.numbers(self.down(x).flatten(1))
        return self.up(numbers.unflatten(1, (-1, 4, 4)))


class DecisionTransformer(nn.Module):
    """Chen et al., 2021: returns, states and actions of 20 steps, each looking at what was before
    it; the actions that follow."""

    def __init__(self, width: int = 128, seen: int = 17, actions: int = 6, steps: int = 20) -> None:
        super().__init__()
        self.sizes = (1, seen, actions)
        self.first = nn.ModuleList(nn.Linear(size, width) for size in self.sizes)
        self.times = nn.Parameter(torch.randn(steps, 1, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        rows = 3 * steps
        self.register_buffer("mask", torch.full((rows, rows), -1e4).triu(1))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(3))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, actions), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, steps, return, state and action)"""
        parts = zip(self.first, x.split(self.sizes, 2), strict=True)
        rows = torch.stack([first(part) for first, part in parts], 2) + self.times
        rows = self.norm(rows.flatten(1, 2))
        for block in self.blocks:
            rows = block(rows, mask=self.mask)
        return self.last(rows[:, 1::3])


class Perceiver(nn.Module):
    """Jaegle et al., 2021: 64 rows look at 2048 of what is felt and seen, then at each other."""

    def __init__(self, inputs: int = 32, width: int = 128, rows: int = 64) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width))
        self.rows = nn.Parameter(torch.randn(1, rows, width) * 0.02)
        self.look = Attention(width, 1)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(4))
        self.asks = nn.Parameter(torch.randn(1, 8, width) * 0.02)
        self.answer = Attention(width, 1)
        self.last = perceptron(width, width, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.rows + self.look(self.rows, self.first(x))
        for block in self.blocks:
            rows = block(rows)
        return self.last(self.asks + self.answer(self.asks, rows))


class SlotAttention(nn.Module):
    """Locatello et al., 2020: seven slots share an image among them, three times, with a recurrent
    unit."""

    def __init__(self, width: int = 64, slots: int = 7, edge: int = 64) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, width, kernel=5), layer(width, width, 2, 5), layer(width, width, kernel=5)
        )
        self.places = nn.Parameter(torch.randn(edge * edge // 4, width) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.each = perceptron(width, width, width)
        self.slots = nn.Parameter(torch.randn(1, slots, width))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.enters, self.stays = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
        self.after = perceptron(width, 2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.down(x).flatten(2).transpose(1, 2) + self.places
        rows = self.each(self.norms[0](rows))
        key, value, slots = self.key(rows), self.value(rows), self.slots
        for _ in range(3):
            scores = key @ self.query(self.norms[1](slots)).transpose(1, 2) * key.shape[2] ** -0.5
            shares = scores.softmax(2) + 1e-8
            shares = shares / shares.sum(1, keepdim=True)
            enters = self.enters(shares.transpose(1, 2) @ value).chunk(3, 2)
            stays = self.stays(slots).chunk(3, 2)
            reset, update = ((i + s).sigmoid() for i, s in zip(enters[:2], stays[:2], strict=True))
            new = (enters[2] + reset * stays[2]).tanh()
            slots = (1 - update) * new + update * slots
            slots = slots + self.after(self.norms[2](slots))
        return slots


class TracksFilter(nn.Module):
    """Revach et al., 2022 (KalmanNet), of 64 tracks: moves of constant speed, and gains from small
    matrices that a perceptron makes; twelve places, one after another."""

    def __init__(self) -> None:
        super().__init__()
        moves = torch.eye(4)
        moves[0, 2] = moves[1, 3] = 0.1
        self.register_buffer("one", torch.eye(4))
        self.register_buffer("moves", moves)
        self.register_buffer("sees", torch.eye(2, 4))
        self.noise = perceptron(2, 32, 4, activation=nn.Tanh)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tracks, times, 2). Returns places and speeds, (tracks, 4)."""
        state = torch.cat([x[:, 0], torch.zeros_like(x[:, 0])], 1).unsqueeze(2)
        spread = self.one.expand(x.shape[0], 4, 4)
        for time in range(1, x.shape[1]):
            state = self.moves @ state
            apart = x[:, time].unsqueeze(2) - self.sees @ state
            noise = F.softplus(self.noise(apart.squeeze(2)))
            spread = self.moves @ spread @ self.moves.t() + noise.unsqueeze(2) * self.one
            seen = self.sees @ spread @ self.sees.t()
            a, b, c, d = (seen + 0.1 * self.one[:2, :2]).flatten(1).unbind(1)
            turned = torch.stack([d, -b, -c, a], 1) / (a * d - b * c).unsqueeze(1)
            gain = spread @ self.sees.t() @ turned.unflatten(1, (2, 2))
            state = state + gain @ apart
            spread = spread - gain @ self.sees @ spread
        return state.squeeze(2)


class Coupling(nn.Module):
    """Dinh et al., 2017: 1024 noises to grasps; half of the numbers scale and shift the others,
    eight times."""

    def __init__(self, numbers: int = 16, width: int = 128, layers: int = 8) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            perceptron(numbers // 2, width, width, numbers) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, 1)
        for part in self.parts:
            scale, shift = part(first).chunk(2, 1)
            first, second = second * scale.tanh().exp() + shift, first
        return torch.cat([first, second], 1)


class Transporter(nn.Module):
    """Zeng et al., 2020: where to put what was picked; the image around it, in eight turns, is a
    window for the image."""

    TURNS, CROP = 8, 32

    def __init__(self, features: int = 3) -> None:
        super().__init__()

        def net() -> nn.Sequential:
            return nn.Sequential(
                layer(6, 32), layer(32, 64, 2), layer(64, 64), layer(64, 64),
                nn.Upsample(scale_factor=2, mode="bilinear"), layer(64, 32),
                nn.Conv2d(32, features, 1),
            )  # fmt: skip

        self.image, self.picked = net(), net()
        angles = torch.arange(self.TURNS) * (2 * torch.pi / self.TURNS)
        cosine, sine, none = angles.cos(), angles.sin(), torch.zeros(self.TURNS)
        turns = torch.stack([cosine, -sine, none, sine, cosine, none], 1).view(-1, 2, 3)
        size = [self.TURNS, 1, self.CROP, self.CROP]
        self.register_buffer("turns", F.affine_grid(turns, size, align_corners=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 6, height, width), in whose middle something was picked."""
        middle = [(size - self.CROP) // 2 for size in x.shape[2:]]
        crop = x[:, :, middle[0] :, middle[1] :][:, :, : self.CROP, : self.CROP]
        crops = F.grid_sample(crop.expand(self.TURNS, -1, -1, -1), self.turns, align_corners=False)
        found = F.conv2d(self.image(x), self.picked(crops), padding=self.CROP // 2)
        return found.flatten(1).softmax(1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "diffusion_unet": DiffusionUNet,
    "diffusion_film": DiffusionFiLM,
    "act": ACT,
    "legged_policy": LeggedPolicy,
    "gru_policy": GRUPolicy,
    "td_mpc": TDMPC,
    "rssm": RSSM,
    "dreamer_pictures": DreamerPictures,
    "decision_transformer": DecisionTransformer,
    "perceiver": Perceiver,
    "slot_attention": SlotAttention,
    "tracks_filter": TracksFilter,
    "coupling": Coupling,
    "transporter": Transporter,
}
