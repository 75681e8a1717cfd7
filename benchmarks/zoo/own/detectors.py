"""What is where in an image: boxes, joints, points and their descriptions, places, lanes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Attention, at, layer, perceptron, pixels, separable


class SSD(nn.Module):
    """Liu et al., 2016, on separable layers: boxes decoded from priors of six sizes of cells."""

    CLASSES, EACH = 21, 6

    def __init__(self, edge: int = 300) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            layer(3, 32, 2), separable(32, 64), separable(64, 128, 2), separable(128, 128),
            separable(128, 256, 2), separable(256, 256), separable(256, 512, 2),
        )  # fmt: skip
        self.gain = nn.Parameter(torch.full((1, 512, 1, 1), 20.0))
        widths = (512, 512, 512, 256, 256, 128)
        self.smaller = nn.ModuleList(
            nn.Sequential(layer(before, after // 2, kernel=1), separable(after // 2, after, 2))
            for before, after in pairwise(widths)
        )
        outputs = (4 + self.CLASSES) * self.EACH
        self.heads = nn.ModuleList(nn.Conv2d(width, outputs, 3, padding=1) for width in widths)
        priors, cells = [], edge // 16 + 1
        for number in range(len(widths)):
            size = 0.15 + 0.15 * number
            centres = (pixels(cells, cells).view(-1, 1, 2) + 0.5) / cells
            shapes = size * torch.tensor([1, 2, 0.5, 3, 1 / 3, 1.3]).sqrt()
            edges = torch.stack([shapes, size**2 / shapes], 1)
            whole = (cells**2, self.EACH, 2)
            priors.append(torch.cat([centres.expand(whole), edges.expand(whole)], 2).flatten(0, 1))
            cells = (cells + 1) // 2
        self.register_buffer("priors", torch.cat(priors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, priors, 4 corners and scores of classes)"""
        x = self.stem(x)
        sizes = [F.normalize(x) * self.gain]
        for smaller in self.smaller:
            x = smaller(x)
            sizes.append(x)
        found = torch.cat(
            [
                head(size).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4 + self.CLASSES)
                for head, size in zip(self.heads, sizes, strict=True)
            ],
            1,
        )
        centres = self.priors[:, :2] + 0.1 * found[..., :2] * self.priors[:, 2:]
        edges = self.priors[:, 2:] * (0.2 * found[..., 2:4]).exp()
        corners = [centres - edges / 2, centres + edges / 2]
        return torch.cat([*corners, found[..., 4:].softmax(2)], 2)


class CenterNet(nn.Module):
    """Zhou et al., 2019: objects are peaks of heat maps; the hundred highest, with their boxes."""

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 32, 2), layer(32, 64, 2), layer(64, 128, 2), layer(128, 256, 2),
            layer(256, 256, 2),
        )  # fmt: skip
        self.up = nn.Sequential(
            *(
                nn.Sequential(
                    nn.ConvTranspose2d(width, 128, 4, 2, 1, bias=False),
                    nn.BatchNorm2d(128), nn.ReLU(),
                )
                for width in (256, 128, 128)
            )
        )  # fmt: skip
        self.heat, self.sizes, self.shifts = (
            nn.Sequential(layer(128, 64), nn.Conv2d(64, outputs, 1)) for outputs in (classes, 2, 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 100, x, y, width, height, score, class)"""
        x = self.up(self.down(x))
        heat = self.heat(x).sigmoid()
        peaks = heat * (heat == F.max_pool2d(heat, 3, 1, 1)).to(heat.dtype)
        cells, width = x.shape[2] * x.shape[3], x.shape[3]
        score, place = peaks.flatten(1).topk(100)
        cell = (place % cells).unsqueeze(1).expand(-1, 2, -1)
        size, shift = (head(x).flatten(2).gather(2, cell) for head in (self.sizes, self.shifts))
        cell = cell[:, :1]
        row = torch.div(cell, width, rounding_mode="floor")
        centre = torch.cat([cell - row * width, row], 1).to(x.dtype) + shift
        kind = torch.div(place, cells, rounding_mode="floor").to(x.dtype)
        return torch.cat([centre, size, score[:, None], kind[:, None]], 1).transpose(1, 2)


class Pose(nn.Module):
    """Xiao et al., 2018, and the mean place of each joint's heat (Sun et al., 2018)."""

    def __init__(self, joints: int = 17) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 64, 2, 7), layer(64, 64, 2), layer(64, 128, 2), layer(128, 256, 2),
            layer(256, 256, 2),
        )  # fmt: skip
        self.up = nn.Sequential(
            *(
                nn.Sequential(
                    nn.ConvTranspose2d(256, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256),
                    nn.ReLU(),
                )
                for _ in range(3)
            ),
            nn.Conv2d(256, joints, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, joints, x and y)"""
        heat = self.up(self.down(x))
        count, joints, height, width = heat.shape
        heat = (10 * heat).flatten(2).softmax(2).view(count, joints, height, width)
        columns, rows = (
            torch.arange(size, device=x.device).to(x.dtype) for size in (width, height)
        )
        return torch.stack([(heat.sum(2) * columns).sum(2), (heat.sum(3) * rows).sum(2)], 2)


class SuperPoint(nn.Module):
    """DeTone et al., 2018: the 256 best corners of an image, and what describes each of them."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(1, 64), layer(64, 64), nn.MaxPool2d(2), layer(64, 64), layer(64, 64),
            nn.MaxPool2d(2), layer(64, 128), layer(128, 128), nn.MaxPool2d(2), layer(128, 128),
            layer(128, 128),
        )  # fmt: skip
        self.corners = nn.Sequential(layer(128, 256), nn.Conv2d(256, 65, 1))
        self.words = nn.Sequential(layer(128, 256), nn.Conv2d(256, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 256, x, y, score and a description)"""
        x = self.down(x)
        score = F.pixel_shuffle(self.corners(x).softmax(1)[:, :-1], 8)
        highest = (score == F.max_pool2d(score, 9, 1, 4)).to(score.dtype)
        best, place = (score * highest).flatten(1).topk(256)
        row = torch.div(place, score.shape[3], rounding_mode="floor")
        places = torch.stack([place - row * score.shape[3], row], 2).to(x.dtype)
        words = F.normalize(self.words(x))
        found = at(words, ((places - 3.5) / 8)[:, None])[:, :, 0].transpose(1, 2)
        return torch.cat([places, best[..., None], F.normalize(found, dim=2)], 2)


class LightGlue(nn.Module):
    """Lindenberger et al., 2023: which of 512 points of one image are which of another's. Places
    turn what they describe; each point looks at all of both images."""

    class Turned(nn.Module):
        """Attention within an image: queries and keys turned by angles of their places."""

        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
            rows = self.three(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            query, key, value = rows[0], rows[1], rows[2]
            cosine, sine = angles.cos()[:, None], angles.sin()[:, None]

            def turn(rows: torch.Tensor) -> torch.Tensor:
                first, second = rows.chunk(2, 3)
                return torch.cat(
                    [first * cosine - second * sine, first * sine + second * cosine], 3
                )

            scores = turn(query) @ turn(key).transpose(2, 3) * value.shape[3] ** -0.5
            return self.out((scores.softmax(3) @ value).transpose(1, 2).flatten(2))

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 4) -> None:
        super().__init__()

        def each() -> nn.Module:
            return nn.Sequential(
                nn.Linear(2 * width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(),
                nn.Linear(2 * width, width),
            )  # fmt: skip

        self.angles = nn.Linear(2, width // heads // 2, bias=False)
        self.own = nn.ModuleList(self.Turned(width, heads) for _ in range(layers))
        self.across = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.after = nn.ModuleList(nn.ModuleList([each(), each()]) for _ in range(layers))
        self.last, self.matchable = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (2 images, points, x, y and a description). Returns (points, points)."""
        angles, x = self.angles(x[..., :2]), x[..., 2:]
        for own, across, after in zip(self.own, self.across, self.after, strict=True):
            x = x + after[0](torch.cat([x, own(x, angles)], 2))
            x = x + after[1](torch.cat([x, across(x, x.flip(0))], 2))
        first, second = self.last(x) * x.shape[2] ** -0.25
        scores = first @ second.t()
        sure = F.logsigmoid(self.matchable(x))
        return scores.log_softmax(0) + scores.log_softmax(1) + sure[0] + sure[1].t()


class NetVLAD(nn.Module):
    """Arandjelović et al., 2016: a place in 64 sums of how features differ from words."""

    def __init__(self, width: int = 128, words: int = 64) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 32), layer(32, 64, 2), layer(64, 128, 2), layer(128, width, 2)
        )
        self.assigned = nn.Conv2d(width, words, 1)
        self.words = nn.Parameter(torch.randn(words, width) * 0.1)
        self.last = nn.Linear(words * width, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.normalize(self.down(x))
        share = self.assigned(x).softmax(1).flatten(2)
        sums = share @ x.flatten(2).transpose(1, 2) - share.sum(2, keepdim=True) * self.words
        return F.normalize(self.last(F.normalize(sums, dim=2).flatten(1)), dim=1)


class YOLACT(nn.Module):
    """Bolya et al., 2019: masks are sums of 32 common ones, cut at the boxes of 100 objects."""

    def __init__(self, objects: int = 100) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 32, 2), layer(32, 64, 2), layer(64, 128, 2), layer(128, 256, 2)
        )
        self.common = nn.Sequential(
            layer(128, 128), nn.Upsample(scale_factor=2, mode="bilinear"), layer(128, 64),
            nn.Conv2d(64, 32, 1), nn.ReLU(),
        )  # fmt: skip
        self.objects = objects
        self.each = nn.Conv2d(256, 1 + 4 + 32, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 100, height, width)"""
        eighth = self.down[:3](x)
        common = self.common(eighth)
        each = self.each(self.down[3](eighth)).flatten(2).transpose(1, 2)
        best = each[..., :1].topk(self.objects, 1).indices
        chosen = each.gather(1, best.expand(-1, -1, each.shape[2]))
        masks = (chosen[..., 5:].tanh() @ common.flatten(2)).sigmoid()
        masks = masks.unflatten(2, common.shape[2:])
        left, top, right, bottom = chosen[..., 1:5, None, None].sigmoid().unbind(2)
        columns = torch.linspace(0, 1, common.shape[3], device=x.device).to(x.dtype)
        rows = torch.linspace(0, 1, common.shape[2], device=x.device).to(x.dtype)[:, None]
        inside = (columns >= left / 2) & (columns <= 0.5 + right / 2)
        inside = inside & (rows >= top / 2) & (rows <= 0.5 + bottom / 2)
        return masks * inside.to(masks.dtype)


class LaneAnchors(nn.Module):
    """Qin et al., 2020: in which of 100 cells of each row a lane is, by one large product."""

    CELLS, ROWS, LANES = 100, 56, 4

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 64, 2, 7), nn.MaxPool2d(3, 2, 1), layer(64, 64), layer(64, 128, 2),
            layer(128, 256, 2), layer(256, 512, 2), nn.Conv2d(512, 8, 1),
        )  # fmt: skip
        outputs = (self.CELLS + 1) * self.ROWS * self.LANES
        self.whole = perceptron(8 * 9 * 25, 2048, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, rows, lanes)"""
        found = self.whole(self.down(x).flatten(1))
        found = found.view(-1, self.CELLS + 1, self.ROWS, self.LANES)
        places = torch.arange(self.CELLS, device=x.device).to(x.dtype).view(1, -1, 1, 1)
        there = (found[:, :-1].softmax(1) * places).sum(1)
        return there * (found.argmax(1) < self.CELLS).to(x.dtype)


class Siamese(nn.Module):
    """Li et al., 2019: what was seen before is a window for each channel of what is seen now."""

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 32, 2), layer(32, 64, 2), layer(64, channels, 2), layer(channels, channels)
        )
        self.seen, self.now = layer(channels, channels), layer(channels, channels)
        self.heads = nn.ModuleList(
            nn.Sequential(layer(channels, channels, kernel=1), nn.Conv2d(channels, outputs, 1))
            for outputs in (10, 20)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 3, 256, 256), in whose upper left 64×64 the object is."""
        window = self.seen(self.down(x[:, :, :64, :64]))
        image = self.now(self.down(x))
        found = F.conv2d(image, window.transpose(0, 1), groups=image.shape[1])
        return torch.cat([head(found) for head in self.heads], 1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ssd": SSD,
    "centernet": CenterNet,
    "pose": Pose,
    "superpoint": SuperPoint,
    "lightglue": LightGlue,
    "netvlad": NetVLAD,
    "yolact": YOLACT,
    "lane_anchors": LaneAnchors,
    "siamese": Siamese,
}
