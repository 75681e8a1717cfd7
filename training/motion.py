"""What moves during an exposure: balls that smear, and cameras whose rows are read one by one."""

from __future__ import annotations

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# A pixel that a smeared ball covers this much is the ball's.
COVERED = 0.35


def smear(
    image: Tensor, shares: Tensor, inst: Tensor, index: int, way: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """An object moved by so many pixels along x and y while the shutter was open: what it covers in
    part lets shine through what is behind it, which is guessed from beside it.

    image float [h,w,3], shares float [h,w,3] of the classes of pixels, inst int64 [h,w]; returns
    the same.
    """
    mask = (inst == index).cpu().numpy()
    picture = image.cpu().numpy().astype(np.float32)
    hole = cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8))
    bytes_ = (picture.clip(0, 1) * 255).round().astype(np.uint8)
    guessed = cv2.inpaint(bytes_, hole, 3, cv2.INPAINT_TELEA) / 255
    behind = np.where(hole[..., None], guessed, picture)
    layer = np.dstack([picture * mask[..., None], mask.astype(np.float32)])
    steps = max(2, int(np.ceil(np.hypot(*way))))
    moved = np.zeros_like(layer)
    for t in np.linspace(-0.5, 0.5, steps):
        shift = np.array([[1, 0, t * way[0]], [0, 1, t * way[1]]])
        moved += cv2.warpAffine(layer, shift, layer.shape[1::-1], flags=cv2.INTER_LINEAR) / steps
    cover = moved[..., 3:]
    result = torch.from_numpy((moved[..., :3] + (1 - cover) * behind).astype(np.float32))
    taken = cover[..., 0] > COVERED
    # What comes to light is of the class of what is nearest beside the object.
    _, labels = cv2.distanceTransformWithLabels(
        mask.astype(np.uint8), cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL
    )
    others = np.flatnonzero(~mask)
    table = np.zeros(labels.max() + 1, np.int64)
    table[labels.reshape(-1)[others]] = others
    beside = shares.reshape(-1, 3)[torch.from_numpy(table[labels]).to(shares.device)]
    on = torch.from_numpy(mask).to(shares.device)[..., None]
    covered = torch.from_numpy(taken).to(shares.device)
    new = torch.where(on, beside, shares)
    new = torch.where(covered[..., None], torch.tensor([1.0, 0, 0], device=new.device), new)
    whose = torch.where(covered, index, torch.where(inst == index, 0, inst))
    return result.to(image.device), new, whose


def roll(
    image: Tensor, shares: Tensor, inst: Tensor, skew: float, wave: float, turns: float
) -> tuple[Tensor, Tensor, Tensor]:
    """A rolling shutter: the camera turned by skew of the width from the first row to the last,
    and shook by wave of it, so many turns; the image is a little larger, so that no pixel comes
    from outside. Labels move with it."""
    high, wide = inst.shape
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, high, device=inst.device),
        torch.linspace(-1, 1, wide, device=inst.device),
        indexing="ij",
    )
    most = min(abs(skew) + 2 * abs(wave), 0.5)
    aside = skew * y + 2 * wave * torch.sin(torch.pi * turns * y)
    grid = torch.stack([x * (1 - most) + aside, y * (1 - most / 2)], -1)[None]
    moved = F.grid_sample(image.permute(2, 0, 1)[None], grid, align_corners=True)[0]
    both = torch.cat([shares, inst[..., None].to(shares.dtype)], -1).permute(2, 0, 1)[None]
    both = F.grid_sample(both, grid, mode="nearest", align_corners=True)[0].permute(1, 2, 0)
    return moved.permute(1, 2, 0), both[..., :3], both[..., 3].round().long()
