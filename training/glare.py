"""What a lens makes of too much light."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

COARSE = 16  # pixels of the image for one of the light that spreads


def glow(image: Tensor, strength: float, veil: float) -> Tensor:
    """An image float [h,w,3] (0 to 1, not clipped), of which what is brighter than 1 lights up its
    surroundings. strength: how much of it spreads; veil: how much of it lies over all."""
    high, wide = image.shape[:2]
    over = (image - 1).clamp(0, 3).permute(2, 0, 1)[None]
    small = F.interpolate(over, size=(high // COARSE, wide // COARSE), mode="area")
    for _ in range(3):
        small = F.avg_pool2d(small, 5, 1, 2, count_include_pad=False)
    near = F.interpolate(small, size=(high, wide), mode="bilinear", align_corners=False)
    spread = strength * near + veil * over.mean((2, 3), keepdim=True)
    return image + spread[0].permute(1, 2, 0)
