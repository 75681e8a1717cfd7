"""Points, rays, voxels and graphs, and what is seen from above."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .layers import layer, layer_of_row, layer_of_volume, perceptron


def _chosen(count: int, *shape: int) -> torch.Tensor:
    """Places in a table of ``count``, as a search for neighbours finds them; the same each time."""
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(2))


class PointNet(nn.Module):
    """Qi et al., 2017, without its transformations."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 64, 128, 1024)
        self.points = nn.Sequential(*(layer_of_row(i, o, 1) for i, o in pairwise(widths)))
        self.whole = nn.Sequential(
            nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.whole(self.points(x).amax(2))


class PointNetSegmenter(nn.Module):
    """Qi et al., 2017: a class for each point, from what is its own and what is said of all."""

    def __init__(self, classes: int = 13) -> None:
        super().__init__()
        self.own = nn.Sequential(layer_of_row(3, 64, 1), layer_of_row(64, 64, 1))
        self.all = nn.Sequential(*(layer_of_row(i, o, 1) for i, o in pairwise((64, 128, 1024))))
        widths = (1088, 512, 256, 128)
        self.both = nn.Sequential(*(layer_of_row(i, o, 1) for i, o in pairwise(widths)))
        self.last = nn.Conv1d(128, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own = self.own(x)
        whole = self.all(own).amax(2, keepdim=True).expand(-1, -1, x.shape[2])
        return self.last(self.both(torch.cat([own, whole], 1))).log_softmax(1)


class PointNet2(nn.Module):
    """Qi et al., 2017: groups of 32 neighbours of ever fewer points, whose search is not part."""

    def __init__(self, points: int = 1024) -> None:
        super().__init__()
        self.groups, widths = nn.ModuleList(), (3, 64, 128)
        for inputs, outputs in pairwise(widths):
            few = points // 4
            self.register_buffer(f"centres{inputs}", _chosen(points, few))
            self.register_buffer(f"near{inputs}", _chosen(points, few * 32))
            parts = (3 + (inputs if inputs > 3 else 0), outputs // 2, outputs // 2, outputs)
            self.groups.append(nn.Sequential(*(layer(i, o, kernel=1) for i, o in pairwise(parts))))
            points = few
        self.last = nn.Sequential(layer_of_row(131, 256, 1), layer_of_row(256, 512, 1))
        self.classes = perceptron(512, 256, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places, features = x, None
        for width, group in zip((3, 64), self.groups, strict=True):
            near = self.get_buffer(f"near{width}")
            centres = places[:, :, self.get_buffer(f"centres{width}")]
            apart = places[:, :, near].unflatten(2, (-1, 32)) - centres.unsqueeze(3)
            if features is not None:
                apart = torch.cat([apart, features[:, :, near].unflatten(2, (-1, 32))], 1)
            places, features = centres, group(apart).amax(3)
        return self.classes(self.last(torch.cat([places, features], 1)).amax(2))


class DGCNN(nn.Module):
    """Wang et al., 2019: edges to the 20 nearest, found anew in each layer's features."""

    def __init__(self, near: int = 20) -> None:
        super().__init__()
        self.near, widths = near, (3, 64, 64, 128)
        self.edges = nn.ModuleList(layer(2 * i, o, kernel=1) for i, o in pairwise(widths))
        self.all = layer_of_row(sum(widths[1:]), 512, 1)
        self.classes = perceptron(1024, 256, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for edges in self.edges:
            square = (x * x).sum(1, keepdim=True)
            apart = square.transpose(1, 2) - 2 * x.transpose(1, 2) @ x + square
            near = apart.topk(self.near, 2, largest=False).indices.flatten(1)
            there = x.gather(2, near.unsqueeze(1).expand(-1, x.shape[1], -1))
            there = there.unflatten(2, (-1, self.near))
            here = x.unsqueeze(3).expand_as(there)
            x = edges(torch.cat([there - here, here], 1)).amax(3)
            found.append(x)
        whole = self.all(torch.cat(found, 1))
        return self.classes(torch.cat([whole.amax(2), whole.mean(2)], 1))


class KPConv(nn.Module):
    """Thomas et al., 2019: 15 points around each have weights of their own; what is near one of
    them counts there."""

    class Window(nn.Module):
        def __init__(self, inputs: int, outputs: int, kernel: int = 15) -> None:
            super().__init__()
            self.register_buffer("points", torch.randn(kernel, 3) * 0.5)
            self.weights = nn.Parameter(torch.randn(kernel * inputs, outputs) * 0.05)

        def forward(self, apart: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
            """apart: (points, near, 3); features: (points, near, inputs)."""
            far = ((apart.unsqueeze(2) - self.points) ** 2).sum(3).sqrt()
            counts = F.relu(1 - far).transpose(1, 2)
            return (counts @ features).flatten(1) @ self.weights

    def __init__(self, points: int = 2048, near: int = 16, classes: int = 13) -> None:
        super().__init__()
        self.register_buffer("near", _chosen(points, points, near))
        widths = (4, 32, 64, 64)
        self.windows = nn.ModuleList(self.Window(i, o) for i, o in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:])
        self.last = nn.Linear(sum(widths[1:]), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, points, place and brightness)"""
        x = x[0]
        apart = x[:, :3][self.near] - x[:, None, :3]
        found = []
        for window, norm in zip(self.windows, self.norms, strict=True):
            x = F.leaky_relu(norm(window(apart, x[self.near])), 0.1)
            found.append(x)
        return self.last(torch.cat(found, 1))


class PointPillars(nn.Module):
    """Lang et al., 2019: 32 points of each of 2048 pillars, put where these are, seen from above;
    boxes."""

    def __init__(self, pillars: int = 2048, height: int = 160, width: int = 144) -> None:
        super().__init__()
        self.size, channels = (height, width), 64
        mixed = torch.randperm(height * width, generator=torch.Generator().manual_seed(2))
        self.register_buffer("places", mixed[:pillars])
        self.pillar = layer(9, channels, kernel=1)
        widths = (64, 64, 128, 256)
        self.down = nn.ModuleList(
            nn.Sequential(layer(i, o, 2), *(layer(o, o) for _ in range(2)))
            for i, o in pairwise(widths)
        )
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.ConvTranspose2d(outputs, 64, 2**power, 2**power, bias=False),
                nn.BatchNorm2d(64), nn.ReLU(),
            )
            for power, outputs in enumerate(widths[1:])
        )  # fmt: skip
        self.heads = nn.Conv2d(192, 2 * (1 + 7 + 2), 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, 9, pillars, 32)"""
        pillars = self.pillar(x).amax(3)
        above = x.new_zeros(1, pillars.shape[1], self.size[0] * self.size[1])
        above = above.scatter(2, self.places.expand_as(pillars), pillars).unflatten(2, self.size)
        found = []
        for down, up in zip(self.down, self.up, strict=True):
            above = down(above)
            found.append(up(above))
        return self.heads(torch.cat(found, 1))


class RangeImage(nn.Module):
    """Cortinhal et al., 2020 (SalsaNext): a turn of a LiDAR as an image whose ends meet; dilated
    windows, larger by pixel shuffle."""

    class Context(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()

            def window(dilation: int) -> nn.Module:
                return nn.Sequential(
                    nn.Conv2d(
                        outputs, outputs, 3, padding=dilation, dilation=dilation,
                        padding_mode="circular",
                    ),
                    nn.LeakyReLU(), nn.BatchNorm2d(outputs),
                )  # fmt: skip

            self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 1), nn.LeakyReLU())
            self.windows = nn.ModuleList(map(window, (1, 2, 2)))
            self.last = nn.Conv2d(3 * outputs, outputs, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = part = self.first(x)
            parts = []
            for window in self.windows:
                part = window(part)
                parts.append(part)
            return x + F.leaky_relu(self.last(torch.cat(parts, 1)))

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        widths = (5, 32, 64, 128)
        self.down = nn.ModuleList(self.Context(i, o) for i, o in pairwise(widths))
        self.up = nn.ModuleList(
            self.Context(o // 4 + i, i) for i, o in list(pairwise(widths[1:]))[::-1]
        )
        self.last = nn.Conv2d(32, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, down in enumerate(self.down):
            x = down(F.avg_pool2d(x, 3, 2, 1) if number else x)
            kept.append(x)
        for up, beside in zip(self.up, kept[-2::-1], strict=True):
            x = up(torch.cat([F.pixel_shuffle(x, 2), beside], 1))
        return self.last(x).softmax(1)


class BirdsView(nn.Module):
    """Features of four cameras, read where points of a ground of 100×100 at four heights are seen,
    as Harley et al., 2023, have it; then seen from above."""

    CELLS, HEIGHTS = 100, 4

    def __init__(self, cameras: int = 4, channels: int = 64) -> None:
        super().__init__()
        self.down = nn.Sequential(
            layer(3, 32, 2), layer(32, 64, 2), layer(64, 128, 2), layer(128, 128, 2),
            nn.Conv2d(128, channels, 1),
        )  # fmt: skip
        ground = torch.linspace(-20, 20, self.CELLS)
        up = torch.linspace(-1, 3, self.HEIGHTS)
        points = torch.stack(torch.meshgrid(up, ground, ground, indexing="ij"), -1).flatten(0, 2)
        seen = []
        for camera in range(cameras):
            angle = torch.tensor(camera * 2 * torch.pi / cameras)
            ahead = points[:, 1] * angle.cos() + points[:, 2] * angle.sin()
            aside = points[:, 2] * angle.cos() - points[:, 1] * angle.sin()
            columns = aside / ahead.clamp(min=0.1)
            rows = 2.5 * (1.5 - points[:, 0]) / ahead.clamp(min=0.1)
            seen.append(torch.stack([columns + 4 * (ahead < 0.1), rows], 1))
        places = torch.stack(seen).view(cameras, self.HEIGHTS * self.CELLS, self.CELLS, 2)
        self.register_buffer("places", places)
        self.register_buffer("counts", (places.abs() <= 1).all(3).sum(0).clamp(min=1))
        self.above = nn.Sequential(
            layer(self.HEIGHTS * channels, 128), layer(128, 128), nn.Conv2d(128, 8, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (cameras, 3, height, width)"""
        seen = F.grid_sample(self.down(x), self.places, align_corners=False)
        mean = seen.sum(0) / self.counts
        volume = mean.unflatten(1, (self.HEIGHTS, self.CELLS))
        return self.above(volume.flatten(0, 1).unsqueeze(0))


class Occupancy(nn.Module):
    """Ronneberger's net of volumes (Çiçek et al., 2016): what is behind what was seen."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(layer_of_volume(i, o), layer_of_volume(o, o))
            for i, o in pairwise((1, *widths))
        )
        steps = list(pairwise(widths))[::-1]
        self.larger = nn.ModuleList(nn.ConvTranspose3d(o, i, 2, 2) for i, o in steps)
        self.up = nn.ModuleList(layer_of_volume(2 * i, i) for i, _ in steps)
        self.last = nn.Conv3d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, layers in enumerate(self.down):
            x = layers(F.max_pool3d(x, 2) if number else x)
            kept.append(x)
        for larger, layers, beside in zip(self.larger, self.up, kept[-2::-1], strict=True):
            x = layers(torch.cat([larger(x), beside], 1))
        return self.last(x).sigmoid()


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


class NeRF(nn.Module):
    """Mildenhall et al., 2020: 64 points of each of 1024 rays; what is seen at a ray's end."""

    def __init__(self, width: int = 256, waves: int = 10) -> None:
        super().__init__()
        self.register_buffer("waves", 2.0 ** torch.arange(waves))
        inputs = 3 + 6 * waves
        self.near = perceptron(inputs, *(width,) * 4)
        self.far = perceptron(inputs + width, *(width,) * 4)
        self.dense = nn.Linear(width, 1)
        self.colour = perceptron(width, width // 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rays, 64, 3). Returns (rays, 3)."""
        waves = (x.unsqueeze(2) * self.waves.unsqueeze(1)).flatten(2)
        x = torch.cat([x, waves.sin(), waves.cos()], 2)
        x = F.relu(self.far(torch.cat([x, F.relu(self.near(x))], 2)))
        thick = F.softplus(self.dense(x)) / x.shape[1]
        passed = (thick - thick.cumsum(1)).exp()
        return (passed * (1 - (-thick).exp()) * self.colour(x).sigmoid()).sum(1)


class Triplane(nn.Module):
    """Chan et al., 2022: points read three planes of features, and a small perceptron does the
    rest."""

    def __init__(self, channels: int = 32, edge: int = 128) -> None:
        super().__init__()
        self.planes = nn.Parameter(torch.randn(3, channels, edge, edge) * 0.1)
        self.last = perceptron(channels, 64, 64, 4, activation=nn.Softplus)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (1, points, 3), from 0 to 1."""
        x = 2 * x[0] - 1
        places = torch.stack([x[:, :2], x[:, 1:], x[:, ::2]]).unsqueeze(1)
        found = F.grid_sample(self.planes, places, align_corners=False)[:, :, 0]
        return self.last(found.sum(0).t())


class Siren(nn.Module):
    """Sitzmann et al., 2020: a surface as a perceptron of sines."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, width) for i in (3, *(width,) * 4))
        for product in self.layers[1:]:
            nn.init.uniform_(product.weight, -((6 / width) ** 0.5) / 30, (6 / width) ** 0.5 / 30)
        self.last = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for product in self.layers:
            x = (30 * product(x)).sin()
        return self.last(x)


class GraphNet(nn.Module):
    """Sanchez-Gonzalez et al., 2020: three rounds of messages along 2048 edges of 256 particles,
    added up by a product with who gets them."""

    def __init__(self, nodes: int = 256, edges: int = 2048, width: int = 128) -> None:
        super().__init__()
        ends = _chosen(nodes, 2, edges)
        self.register_buffer("ends", ends)
        self.register_buffer("gets", F.one_hot(ends[1], nodes).t().float())
        self.first = perceptron(24, width, width)
        self.edge = perceptron(2 * width, width, width)
        self.messages, self.changes = (
            nn.ModuleList(
                nn.Sequential(perceptron(inputs * width, width, width), nn.LayerNorm(width))
                for _ in range(3)
            )
            for inputs in (3, 2)
        )
        self.last = perceptron(width, width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x[0])
        source, target = self.ends
        edge = self.edge(torch.cat([x[source], x[target]], 1))
        for message, change in zip(self.messages, self.changes, strict=True):
            edge = edge + message(torch.cat([edge, x[source], x[target]], 1))
            x = x + change(torch.cat([x, self.gets @ edge], 1))
        return self.last(x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "pointnet": PointNet,
    "pointnet_segmenter": PointNetSegmenter,
    "pointnet2": PointNet2,
    "dgcnn": DGCNN,
    "kpconv": KPConv,
    "point_pillars": PointPillars,
    "range_image": RangeImage,
    "birds_view": BirdsView,
    "occupancy": Occupancy,
    "stereo_volume": StereoVolume,
    "nerf": NeRF,
    "triplane": Triplane,
    "siren": Siren,
    "graph_net": GraphNet,
}
