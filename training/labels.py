"""Labels from a rendering: classes of the pixels, boxes of what is seen, doubt about the rest."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from cameras import WIDE, Camera
from world import GOALPOST, OWN, World

# Side of the square that holds an image, and rows of its list of boxes.
CANVAS, BOXES = 512, 40
IGNORE = 9
# Where a geom is sampled for what is seen of it, in half its sides; a post also at its surface.
STEPS = np.array(
    [[0, 0, 0], [0, 0, 0.8], [0, 0, -0.8], [0, 0, 0.4], [0, 0, -0.4], [0.5, 0, 0], [-0.5, 0, 0]]
)
POST_STEPS = np.array(
    [
        [x, y, z]
        for x, y in ((0.8, 0), (-0.8, 0), (0, 0.8), (0, -0.8))
        for z in np.linspace(-0.9, 0.9, 7)
    ]
)
HIDDEN = 0.25  # of an object in the image must be seen, else it is doubtful
# Of each class the longest side in pixels of the canvas: below the first it is left out, below the
# second it is doubtful.
SMALLEST = {0: (3.0, 7.0), 1: (5.0, 13.0), 2: (6.0, 14.0)}
# A pixel is a line's where a line covers this much more of it than its share says: thin lines far
# away would vanish otherwise.
LINE_SHARE = 1.35
# The same where shares are what a line covers, however little of a pixel: from 0.3 on, as people
# label what they see.
THIN_LINE_SHARE = 0.7 / 0.3


def sample_points(world: World, geoms: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Points [n,s,3] of geoms [n], at steps [s,3] of half their sides from their middles."""
    model, data = world.model, world.data
    turn, middle, half = (
        data.geom_xmat[geoms].reshape(-1, 3, 3),
        model.geom_aabb[geoms, :3],
        model.geom_aabb[geoms, 3:],
    )
    local = middle[:, None] + half[:, None] * steps
    return data.geom_xpos[geoms][:, None] + np.einsum("gij,gsj->gsi", turn, local)


def visible_shares(
    world: World, camera: Camera, inst: np.ndarray, strips: bool = False
) -> np.ndarray:
    """Of each instance the share of sample points within the image that nothing hides. strips:
    whether a goalpost has points beside its middle, too, so that a strip at the image's edge has
    some."""
    geoms = np.nonzero(world.instance > 0)[0]
    points = sample_points(world, geoms, STEPS)
    who = np.repeat(world.instance[geoms][:, None], len(STEPS), 1)
    if strips:
        posts = geoms[np.array(world.classes)[world.instance[geoms]] == GOALPOST]
        beside = sample_points(world, posts, POST_STEPS).reshape(-1, 3)
        points = np.concatenate([points.reshape(-1, 3), beside])
        also = np.repeat(world.instance[posts], len(POST_STEPS))
        who = np.concatenate([who.reshape(-1), also])
    seen = (points - camera.at) @ camera.axes
    ahead = np.maximum(-seen[..., 2], 1e-3)
    u = np.floor(WIDE / 2 + camera.focal * seen[..., 0] / ahead).astype(int)
    v = np.floor(camera.high / 2 - camera.focal * seen[..., 1] / ahead).astype(int)
    inside = (seen[..., 2] < -0.03) & (u >= 0) & (u < WIDE) & (v >= 0) & (v < camera.high)
    met = inside & (inst[v.clip(0, camera.high - 1), u.clip(0, WIDE - 1)] == who)
    count = len(world.classes)
    total = np.bincount(who[inside], minlength=count)
    return np.bincount(who[met], minlength=count) / np.maximum(total, 1)


def bend(
    image: torch.Tensor, shares: torch.Tensor, inst: torch.Tensor, amount: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lens distortion, r -> r * (1 + amount * (r² - 1)) with r = 1 in the corners, so that no pixel
    comes from outside."""
    high, wide = inst.shape
    device = inst.device
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, high, device=device),
        torch.linspace(-1, 1, wide, device=device),
        indexing="ij",
    )
    square = (x**2 * wide**2 + y**2 * high**2) / (wide**2 + high**2)
    factor = (
        1 + abs(amount) * (square - 1)
        if amount > 0
        else (1 + abs(amount) * (1 - square)) / (1 + abs(amount))
    )
    grid = torch.stack([x * factor, y * factor], -1)[None]
    image = F.grid_sample(image.permute(2, 0, 1)[None], grid, align_corners=True)[0].permute(
        1, 2, 0
    )
    both = torch.cat([shares, inst[..., None].to(shares.dtype)], -1).permute(2, 0, 1)[None]
    both = F.grid_sample(both, grid, mode="nearest", align_corners=True)[0].permute(1, 2, 0)
    return image, both[..., :3], both[..., 3].round().long()


def class_mask(
    shares: torch.Tensor, size: tuple[int, int], line_share: float = LINE_SHARE
) -> np.ndarray:
    """Classes at another size, uint8: of each pixel the class that covers most of it. shares
    float [h,w,3]: how much of each pixel each class covers."""
    shares = F.interpolate(shares.permute(2, 0, 1)[None], size=size, mode="area")[0]
    shares[1] *= line_share
    return shares.argmax(0).byte().cpu().numpy()


def boxes_of(
    world: World, inst: np.ndarray, shown: np.ndarray, scale: float, top: int
) -> np.ndarray:
    """Boxes [BOXES,5] (class, corners on the canvas) of the instances inst [h,w] in a rendering."""
    result = np.full((BOXES, 5), -1, np.float32)
    row = 0
    for index in np.unique(inst):
        label = world.classes[index]
        if label < 0 or row == BOXES:
            continue
        ys, xs = np.nonzero(inst == index)
        if len(ys) < 4:
            continue
        box = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) * scale
        long = max(box[2] - box[0], box[3] - box[1])
        fill = len(ys) * scale**2 / ((box[2] - box[0]) * (box[3] - box[1]))
        drop, doubt = SMALLEST.get(label, (0.0, 0.0))
        if long < drop:
            continue
        vague = label == OWN or long < doubt or fill < 0.12 or shown[index] < HIDDEN
        result[row] = (IGNORE if vague else label, *(box + np.array([0, top, 0, top])))
        row += 1
    return result
