"""Turns MuJoCo's buffers (light, depth, identity) into a coloured image and its labels, on a GPU.

For each pixel the place in the world follows from the depth; the place in the geom's own frame
gives the texture, and on the ground the distance to the nearest line gives the paint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from appearance import Appearance
from torch import Tensor

BACKGROUND, LINES, FIELD = 0, 1, 2


@dataclass
class Buffers:
    """light uint8 [h,w,3]; depth float32 [h,w] in metres; geom int64 [h,w], -1 where nothing is."""

    light: Tensor
    depth: Tensor
    geom: Tensor


@dataclass
class View:
    """The camera: place [3], axes [3,3] (columns right, up, back), focal length in pixels."""

    at: Tensor
    axes: Tensor
    focal: float


class Library:
    """Textures, ball skins, panoramas and noise on the device, shared by all shots of a worker."""

    def __init__(
        self,
        atlas: np.ndarray,
        balls: np.ndarray,
        panoramas: np.ndarray,
        noise: np.ndarray,
        device: str,
    ) -> None:
        self.device = device
        levels = [torch.from_numpy(atlas).to(device).float()]
        for _ in range(2):
            small = F.avg_pool2d(levels[-1].permute(0, 3, 1, 2), 4).permute(0, 2, 3, 1)
            levels.append(small.contiguous())
        self.levels = levels
        self.balls = torch.from_numpy(balls).to(device).float()
        self.panoramas = torch.from_numpy(panoramas).to(device)
        self.noise = torch.from_numpy(noise).to(device)[:, None]

    def wander(self, index: int, u: Tensor, v: Tensor) -> Tensor:
        """Tileable noise at (u, v), one tile a unit."""
        grid = torch.stack([(u % 1) * 2 - 1, (v % 1) * 2 - 1], -1)
        shape = grid.shape[:-1]
        flat = grid.reshape(1, 1, -1, 2)
        return F.grid_sample(
            self.noise[index : index + 1], flat, align_corners=False, padding_mode="reflection"
        ).reshape(shape)


def rays(view: View, high: int, wide: int) -> Tensor:
    """Directions [h,w,3] in the world, of length 1 along the camera's axis."""
    device = view.at.device
    y = (torch.arange(high, device=device) + 0.5 - high / 2) / view.focal
    x = (torch.arange(wide, device=device) + 0.5 - wide / 2) / view.focal
    local = torch.stack(
        [
            x[None].expand(high, wide),
            -y[:, None].expand(high, wide),
            -torch.ones(high, wide, device=device),
        ],
        -1,
    )
    return local @ view.axes.T


def surface_colour(
    library: Library, tables: dict[str, Tensor], geom: Tensor, place: Tensor, footprint: Tensor
) -> Tensor:
    """Colour [n,3] of points on geoms; place [n,3] in the world, footprint [n] metres a pixel."""
    local = torch.einsum("nji,nj->ni", tables["turn"][geom], place - tables["at"][geom])
    metres = tables["metres"][geom]
    swap = tables["plane"][geom]
    u = torch.where(swap == 0, local[:, 0], local[:, 1]) / metres + 0.5
    v = torch.where(swap == 2, local[:, 1], local[:, 2]) / metres + 0.5
    texel = footprint / metres * 256
    texture, result = tables["texture"][geom], torch.empty_like(local)
    for index, level in enumerate(library.levels):
        size = level.shape[1]
        low, high = 3.0 * 4 ** (index - 1), 3.0 * 4**index
        chosen = (texel < high) & (texel >= low) if index else texel < high
        chosen = chosen | (texel >= high) if index == 2 else chosen
        a = (v[chosen] * size).long() % size
        b = (u[chosen] * size).long() % size
        result[chosen] = level[texture[chosen], a, b]
    colour = result * tables["colour"][geom]
    ball = tables["ball"][geom]
    on_ball = ball >= 0
    if on_ball.any():
        way = F.normalize(local[on_ball], dim=1)
        skin = tables["skin"][ball[on_ball]]
        high, wide = library.balls.shape[1:3]
        row = (torch.acos(way[:, 2].clamp(-1, 1)) / torch.pi * high).long().clamp(0, high - 1)
        column = (
            ((torch.atan2(way[:, 1], way[:, 0]) / (2 * torch.pi) + 0.5) * wide)
            .long()
            .clamp(0, wide - 1)
        )
        colour[on_ball] = library.balls[skin, row, column]
    return colour


def ground_colour(
    library: Library, look: Appearance, place: Tensor, view: View, footprint: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour [n,3] of points [n,2] of the ground, and the shares [n,3] of the classes there."""
    x, y = place[:, 0], place[:, 1]
    from_line = line_distance(look, place)
    inside = (x.abs() < look.carpet[0]) & (y.abs() < look.carpet[1])
    shift = look.shift
    forward = -view.axes[:2, 2]
    forward = forward / (forward.norm() + 1e-6)
    along = x * forward[0] + y * forward[1]
    across = x * forward[1] - y * forward[0]
    fade = torch.exp(-((footprint / 0.008) ** 2))
    blades = library.wander(0, across / look.blade + shift, along / (look.blade * look.streak))
    fine = library.wander(1, x / 0.9 + shift, y / 0.9) * torch.exp(-((footprint / 0.02) ** 2))
    middle = library.wander(2, x / 3.1 + shift, y / 3.1 + shift)
    broad = library.wander(3, x / 9.0, y / 9.0 + shift)
    pixel_across = across_lines(look, place, view, footprint) if look.covered else footprint
    light = (
        1
        + look.rough * (0.9 * blades * fade + 0.5 * fine)
        + look.mottle * middle
        + look.stain * broad
    )
    stripe = torch.where(torch.sin(x * look.mow) > 0, 1.0, 1.0 - look.mown)
    grass = look.green * (light * stripe)[:, None]
    for axis, offset, width, strength in look.seams:
        broad_seam = footprint + width
        dark = torch.exp(-(((place[:, axis] - offset) / broad_seam) ** 2)) * width / broad_seam
        grass = grass * (1 - strength * dark)[:, None]
    grass = grass + look.tint * (0.5 * broad + 0.3 * fine)[:, None]
    ragged = look.ragged * (blades * fade * 0.7 + 0.6 * fine)
    half = look.line / 2
    soft = pixel_across * 0.5 + look.soft
    paint = torch.sigmoid((half - from_line + ragged) / soft * 1.7)
    wear = (1 - look.wear * (0.5 + 0.5 * middle + 0.6 * fine).clamp(0, 1)) * look.paint
    paint = (paint * wear).clamp(0, 1)[:, None]
    white = look.white * (1 + 0.35 * look.rough * blades * fade)[:, None]
    carpet = grass * (1 - paint) + white * paint
    floor_texture = library.levels[1][look.floor]
    size = floor_texture.shape[0]
    floor = floor_texture[
        (y / look.tile * size).long() % size, (x / look.tile * size).long() % size
    ]
    colour = torch.where(
        inside[:, None], carpet, floor * look.floor_colour * (1 + 0.1 * broad)[:, None]
    )
    shade = torch.ones_like(x)
    for centre, radius, strength in look.contacts:
        gap = ((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / radius**2
        shade = shade * (1 - strength * torch.exp(-gap))
    shares = torch.zeros(len(x), 3, device=x.device)
    if look.covered:
        cover = line_cover(from_line, half, pixel_across)
    else:
        cover = (from_line < half).to(x.dtype)
    shares[:, LINES], shares[:, FIELD] = cover * inside, (1 - cover) * inside
    shares[:, BACKGROUND] = 1.0 - inside.to(x.dtype)
    return colour * shade[:, None], shares


def line_distance(look: Appearance, place: Tensor) -> Tensor:
    """How far points [n,2] of the ground are from the middle of the nearest line, in metres [n]."""
    (high, wide), scale = look.distance.shape, look.metres_per_pixel
    x, y = place[:, 0] / (wide * scale) * 2, place[:, 1] / (high * scale) * 2
    return F.grid_sample(
        look.distance[None, None],
        torch.stack([x, y], -1)[None, None],
        align_corners=False,
        padding_mode="border",
    ).reshape(-1)


def line_cover(distance: Tensor, half: float, width: Tensor) -> Tensor:
    """How much of pixels a line covers, 0 to 1 [n]: they are so wide across it, and so far from its
    middle; half: of the line's breadth; all in metres."""
    last = (distance + width / 2).clamp(max=half)
    first = (distance - width / 2).clamp(min=-half)
    return ((last - first) / width).clamp(0, 1)


def across_lines(look: Appearance, place: Tensor, view: View, footprint: Tensor) -> Tensor:
    """How much of the ground a pixel covers across the nearest line, in metres [n]: far away it is
    long along the line of sight, and broad for a line that lies across."""
    step = 0.02
    ahead = [
        line_distance(look, place + move) - line_distance(look, place - move)
        for move in torch.eye(2, device=place.device) * step
    ]
    slope = F.normalize(torch.stack(ahead, -1), dim=1)
    gap = place - view.at[:2]
    distance = torch.sqrt((gap**2).sum(1) + view.at[2] ** 2)
    rise = (view.at[2] / distance).clamp(min=0.02)
    along = (slope * F.normalize(gap, dim=1)).sum(1)
    # footprint is the pixel's width over the root of rise.
    width = footprint * rise.sqrt()
    return width * torch.sqrt((along / rise) ** 2 + (1 - along**2).clamp(min=0))


def sunlight(look: Appearance, place: Tensor) -> Tensor:
    """The factor [...,1] by which patches of sun brighten points [...,3] of the world."""
    factor = torch.ones_like(place[..., :1])
    for sun in look.suns:
        flat = place[..., :2] + place[..., 2:] * sun.slant - sun.centre
        local = torch.stack(
            [flat[..., 0] * sun.cos + flat[..., 1] * sun.sin,
             flat[..., 1] * sun.cos - flat[..., 0] * sun.sin], -1
        )  # fmt: skip
        one = local if sun.every is None else local - sun.every * torch.round(local / sun.every)
        inner = (sun.half - one.abs()).amin(-1, keepdim=True)
        if sun.within is not None:
            inner = torch.minimum(inner, (sun.within - local.abs()).amin(-1, keepdim=True))
        edge = inner / sun.soft
        factor = factor + sun.gain * edge.clamp(0, 1)
    return factor


def sky(library: Library, look: Appearance, way: Tensor) -> Tensor:
    """What lies behind everything: a panorama, by direction [n,3]."""
    image = library.panoramas[look.panorama]
    high, wide = image.shape[:2]
    turn = torch.atan2(way[:, 1], way[:, 0]) / (2 * torch.pi) + look.panorama_turn
    rise = torch.atan2(way[:, 2], way[:, :2].norm(dim=1)) / (torch.pi / 4)
    column = ((turn * look.panorama_wide) % 1 * wide).long().clamp(0, wide - 1)
    row = ((0.5 - 0.5 * rise * look.panorama_high) * high).long().clamp(0, high - 1)
    return image[row, column].float() / 255


def hang_nets(
    tables: dict[str, Tensor],
    look: Appearance,
    view: View,
    way: Tensor,
    nets: Buffers,
    image: Tensor,
) -> None:
    """Draws the threads of the goals' nets over the image, as broad as they cover a pixel."""
    on_net = tables["net"][nets.geom.clamp(min=0)] & (nets.geom >= 0)
    if not on_net.any():
        return
    geom = nets.geom[on_net]
    there = view.at + way[on_net] * nets.depth[on_net][:, None]
    local = torch.einsum("nji,nj->ni", tables["turn"][geom], there - tables["at"][geom])
    upright = (tables["size"][geom][:, 0] < 0.003)[:, None]
    flat = torch.where(upright, local[:, [1, 2]], local[:, [0, 2]])
    pixel = nets.depth[on_net] / view.focal
    if look.diagonal:
        flat = torch.stack([flat[:, 0] + flat[:, 1], flat[:, 0] - flat[:, 1]], -1) * 0.7071
    off = (0.5 - ((flat / look.mesh) % 1 - 0.5).abs()) * look.mesh
    broad = torch.maximum(pixel * 1.5, torch.full_like(pixel, look.thread))[:, None]
    cover = (1 - off / broad).clamp(0, 1) * (look.thread * 1.5 / broad).clamp(max=1)
    alpha = (1 - (1 - cover[:, 0]) * (1 - cover[:, 1]))[:, None]
    colour = tables["colour"][geom] * look.light * 0.7
    image[on_net] = image[on_net] * (1 - alpha) + colour * alpha


def shade(
    library: Library,
    tables: dict[str, Tensor],
    look: Appearance,
    view: View,
    front: Buffers,
    nets: Buffers,
    ground: int,
) -> tuple[Tensor, Tensor]:
    """The image float [h,w,3] (0 to 1, not clipped), and how much of each pixel each class covers,
    float [h,w,3]."""
    high, wide = front.geom.shape
    way = rays(view, high, wide)
    light = front.light.float() / 255
    image = torch.zeros(high, wide, 3, device=light.device)
    shares = torch.zeros(high, wide, 3, device=light.device)
    shares[..., BACKGROUND] = 1.0
    on_ground = (front.geom == ground) & (way[..., 2] < -1e-3)
    distance = torch.where(on_ground, -view.at[2] / way[..., 2].clamp(max=-1e-3), front.depth)
    nothing = (
        (front.geom < 0)
        | (on_ground & (distance > look.horizon))
        | ((front.geom == ground) & ~on_ground)
    )
    on_ground &= ~nothing
    solid = ~on_ground & ~nothing
    place = view.at + way * distance[..., None]
    footprint = distance / view.focal
    if nothing.any():
        image[nothing] = sky(library, look, way[nothing]) * look.sky_light
    if on_ground.any():
        slope = (
            footprint[on_ground]
            / (-F.normalize(way[on_ground], dim=1)[:, 2]).clamp(min=0.05).sqrt()
        )
        colour, covers = ground_colour(library, look, place[on_ground][:, :2], view, slope)
        image[on_ground] = colour * light[on_ground] * look.light
        shares[on_ground] = covers
    if solid.any():
        colour = surface_colour(library, tables, front.geom[solid], place[solid], footprint[solid])
        lit = light[solid] * look.light
        gloss = (lit - 0.75).clamp(min=0) * look.gloss
        image[solid] = colour * lit + gloss
    if look.suns:
        image = torch.where(nothing[..., None], image, image * sunlight(look, place))
    hang_nets(tables, look, view, way, nets, image)
    if look.haze > 0:
        far = torch.where(nothing, torch.full_like(distance, 20.0), distance)
        mist = (1 - torch.exp(-far * look.haze))[..., None]
        image = image * (1 - mist) + look.mist * mist
    if look.casts is not None:
        aside = torch.linspace(0, 1, wide, device=image.device)[None, :, None]
        image = image * torch.lerp(look.casts[0], look.casts[1], aside)
    return image, shares
