"""Variation on the GPU: crops, mosaics, and what cameras do to images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

CANVAS = 512


def uniform(count: int, low: float, high: float, device: torch.device) -> Tensor:
    return torch.rand(count, device=device) * (high - low) + low


def crop(
    images: Tensor,
    masks: Tensor,
    boxes: Tensor,
    size: int,
    plain: bool = False,
    whole: float = 0.35,
) -> tuple[Tensor, Tensor, Tensor]:
    """Random part of each image at a random scale, perhaps mirrored, as size x size.

    images uint8 [b,512,512,3], masks uint8 [b,512,512], boxes [b,m,5] -> float [b,3,size,size]
    (0 to 1), int64 [b,size,size], boxes in the new pixels. plain: the whole image as it is.
    whole: the share of images that are only mirrored.
    """
    count, device = len(images), images.device
    zoom = torch.exp(uniform(count, math.log(0.8), math.log(2.0), device))
    keep = torch.rand(count, device=device) < whole
    zoom = torch.where(keep | torch.tensor(plain, device=device), torch.ones_like(zoom), zoom)
    slack = (1 - 1 / zoom).abs()
    shift = (torch.rand(count, 2, device=device) * 2 - 1) * slack[:, None]
    mirror = torch.where(torch.rand(count, device=device) < 0.5, -1.0, 1.0)
    if plain:
        mirror = torch.ones_like(mirror)
    stretch = torch.where(
        keep | torch.tensor(plain, device=device), 1.0, uniform(count, 0.9, 1.1, device)
    )
    theta = torch.zeros(count, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 1, 1] = mirror / zoom, stretch / zoom
    theta[:, :, 2] = shift
    grid = F.affine_grid(theta, [count, 3, size, size], align_corners=False)
    image = images.permute(0, 3, 1, 2).float() / 255
    image = F.grid_sample(image, grid, align_corners=False)
    mask = (
        F.grid_sample(masks[:, None].float() + 1, grid, mode="nearest", align_corners=False)[:, 0]
        .round()
        .long()
        - 1
    )
    mask[mask < 0] = 255
    # corners: source = theta * target, both from -1 to 1
    corner = boxes[..., 1:] / CANVAS * 2 - 1
    x = (corner[..., 0::2] - theta[:, 0, 2, None, None]) / theta[:, 0, 0, None, None]
    y = (corner[..., 1::2] - theta[:, 1, 2, None, None]) / theta[:, 1, 1, None, None]
    x, y = (x + 1) / 2 * size, (y + 1) / 2 * size
    moved = torch.stack([x.amin(-1), y.amin(-1), x.amax(-1), y.amax(-1)], -1)
    return image, mask, clip(moved, boxes[..., :1], size)


def clip(whole: Tensor, label: Tensor, size: int) -> Tensor:
    """Boxes cut at the edges: what is nearly gone is dropped, small rests are doubtful."""
    cut = whole.clamp(0, size)
    side = cut[..., 2:] - cut[..., :2]
    share = side.prod(-1) / ((whole[..., 2:] - whole[..., :2]).prod(-1) + 1e-6)
    label = label[..., 0]
    gone = (side.amin(-1) < 1) | (label < 0)
    doubt = (share < 0.2) | (side.amax(-1) < 4)
    label = torch.where(gone, -1.0, torch.where(doubt, 9.0, label))
    return torch.cat([label[..., None], cut], -1)


def mosaic(
    images: Tensor, masks: Tensor, boxes: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Four images in one of size x size, each at half of that: [4b,...] -> [b,...]."""
    half = size // 2
    image, mask, box = crop(images, masks, boxes, half)
    count = len(image) // 4
    image = (
        image.view(count, 2, 2, 3, half, half)
        .permute(0, 3, 1, 4, 2, 5)
        .reshape(count, 3, size, size)
    )
    mask = mask.view(count, 2, 2, half, half).permute(0, 1, 3, 2, 4).reshape(count, size, size)
    offset = torch.tensor(
        [[0, 0], [half, 0], [0, half], [half, half]], device=box.device, dtype=box.dtype
    )
    box = box.view(count, 4, -1, 5).clone()
    box[..., 1:3] += offset[:, None]
    box[..., 3:5] += offset[:, None]
    return image, mask, box.reshape(count, -1, 5)


def colour(image: Tensor) -> Tensor:
    """Exposure, white balance, contrast, saturation, hue, gamma, vignetting; one draw an image."""
    count, device = len(image), image.device

    def some(share: float) -> Tensor:
        return (torch.rand(count, 1, 1, 1, device=device) < share).float()

    gain = torch.exp(torch.randn(count, 1, 1, 1, device=device) * 0.28)
    cast = torch.exp(torch.randn(count, 3, 1, 1, device=device) * 0.13 * some(0.8))
    cast = cast * torch.exp(torch.randn(count, 3, 1, 1, device=device) * 0.3 * some(0.08))
    image = (image * gain * cast).clamp(0, 1)
    pivot = image.mean((1, 2, 3), keepdim=True)
    contrast = torch.exp(torch.randn(count, 1, 1, 1, device=device) * 0.22)
    image = (image - pivot) * contrast + pivot
    grey = (image * torch.tensor([0.3, 0.59, 0.11], device=device)[:, None, None]).sum(
        1, keepdim=True
    )
    saturation = torch.exp(torch.randn(count, 1, 1, 1, device=device) * 0.35) * (1 - some(0.02))
    image = grey + (image - grey) * saturation
    turn = torch.randn(count, device=device) * 0.15
    third, cos, sin = 1 / 3, turn.cos(), turn.sin()
    a, b, c = (
        cos + (1 - cos) * third,
        third * (1 - cos) - third**0.5 * sin,
        third * (1 - cos) + third**0.5 * sin,
    )
    hue = torch.stack(
        [torch.stack([a, b, c], -1), torch.stack([c, a, b], -1), torch.stack([b, c, a], -1)], 1
    )
    mixed = [(hue[:, row, :, None, None] * image).sum(1) for row in range(3)]
    image = torch.stack(mixed, 1).clamp(1e-4, 1)
    image = image ** torch.exp(torch.randn(count, 1, 1, 1, device=device) * 0.28)
    side = torch.linspace(-1, 1, image.shape[-1], device=device)
    square = (side[:, None] ** 2 + side[None] ** 2) / 2
    image = image * (1 - some(0.3) * uniform(count, 0, 0.5, device)[:, None, None, None] * square)
    lift = some(0.2) * uniform(count, 0, 0.2, device)[:, None, None, None]
    return image * (1 - lift) + lift


def kernels(count: int, device: torch.device, size: int = 21) -> Tensor:
    """A blur or sharpening kernel for each image [b,size,size]."""
    axis = torch.arange(size, device=device) - size // 2
    y, x = torch.meshgrid(axis.float(), axis.float(), indexing="ij")
    angle = uniform(count, 0, math.pi, device)[:, None, None]
    u, v = x * angle.cos() + y * angle.sin(), -x * angle.sin() + y * angle.cos()
    kind = torch.rand(count, device=device)[:, None, None]
    thin = uniform(count, 0.35, 1.5, device)[:, None, None]
    long = torch.where(
        kind < 0.2,
        uniform(count, 1.0, 3.6, device)[:, None, None],
        thin * uniform(count, 1, 1.4, device)[:, None, None],
    )
    # Some move far during the exposure.
    long = torch.where(kind < 0.06, uniform(count, 3.0, 7.0, device)[:, None, None], long)
    blur = torch.exp(-0.5 * ((u / long) ** 2 + (v / thin) ** 2))
    blur = blur / blur.sum((1, 2), keepdim=True)
    point = torch.zeros_like(blur)
    point[:, size // 2, size // 2] = 1
    amount = uniform(count, 0.3, 1.5, device)[:, None, None]
    sharp = point + amount * (point - blur)
    return torch.where(kind > 0.82, sharp, torch.where(kind > 0.55, point, blur))


def filters(image: Tensor, kernel: Tensor) -> Tensor:
    """Each image [b,3,h,w] through its own kernel [b,k,k], by Fourier transform: on a GPU that is
    many times faster than a convolution whose every channel has its own weights."""
    edge = kernel.shape[-1] // 2
    high, wide = image.shape[-2:]
    padded = F.pad(image, [edge] * 4, mode="reflect")
    size = [quick_length(side + 2 * edge) for side in (high, wide)]
    spectrum = torch.fft.rfft2(padded, s=size) * torch.fft.rfft2(kernel, s=size)[:, None]
    # The kernel's corner, not its middle, is the transform's origin: that moves all by an edge.
    whole = torch.fft.irfft2(spectrum, s=size)
    return whole[..., 2 * edge : 2 * edge + high, 2 * edge : 2 * edge + wide]


def quick_length(least: int) -> int:
    """The next number of factors 2, 3 and 5 alone: Fourier transforms of others are slow."""
    for number in itertools.count(least):
        rest = number
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return number
    raise AssertionError


def grain(image: Tensor) -> Tensor:
    """Sensor noise: of single pixels, of blotches, and more of it where it is dark."""
    count, device = len(image), image.device
    level = uniform(count, 0, 0.055, device)[:, None, None, None] * (
        torch.rand(count, 1, 1, 1, device=device) < 0.65
    )
    dark = torch.rand(count, 1, 1, 1, device=device) < 0.08
    level = torch.where(dark, uniform(count, 0.05, 0.1, device)[:, None, None, None], level)
    fine = torch.randn_like(image)
    fine = torch.where(torch.rand(count, 1, 1, 1, device=device) < 0.5, fine, fine[:, :1])
    coarse = F.interpolate(
        torch.randn(count, 3, image.shape[2] // 3, image.shape[3] // 3, device=device),
        size=image.shape[2:],
        mode="bilinear",
    )
    return image + level * (fine + 0.5 * coarse) * (1.2 - 0.5 * image)


def blocks(image: Tensor) -> Tensor:
    """JPEG's loss: each 8 x 8 block's cosine transform, rounded coarsely."""
    count, _, high, wide = image.shape
    device = image.device
    n = torch.arange(8, device=device).float()
    basis = torch.cos((2 * n[None] + 1) * n[:, None] * math.pi / 16) * 0.5
    basis[0] *= 0.5**0.5
    # A block's transform is a product with 64 x 64 values: one large product for all blocks.
    both = torch.kron(basis, basis)
    tiles = image.reshape(count, 3, high // 8, 8, wide // 8, 8).permute(0, 1, 2, 4, 3, 5)
    spectrum = tiles.reshape(count, -1, 64) @ both.T
    step = (0.008 + 0.006 * (n[:, None] + n[None])).reshape(64) * uniform(count, 0.3, 5, device)[
        :, None, None
    ]
    back = ((spectrum / step).round() * step) @ both
    back = back.view(count, 3, high // 8, wide // 8, 8, 8)
    return back.permute(0, 1, 2, 4, 3, 5).reshape(image.shape)


def strange(image: Tensor) -> Tensor:
    """A random small convolution mixed in: colours and textures that no renderer thought of."""
    count, device = len(image), image.device
    weight = torch.randn(count * 3, 3, 3, 3, device=device) / 27**0.5
    flat = image.reshape(1, -1, *image.shape[2:])
    other = F.conv2d(F.pad(flat, [1] * 4, mode="reflect"), weight, groups=count).view_as(image)
    other = (other - other.mean((2, 3), keepdim=True)) / (other.std((2, 3), keepdim=True) + 1e-3)
    other = other * image.std((2, 3), keepdim=True) + image.mean((2, 3), keepdim=True)
    share = uniform(count, 0.1, 0.8, device)[:, None, None, None]
    return image * (1 - share) + other * share


def on_some(image: Tensor, share: float, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Changes this share of the images, drawn anew. Their number is known without asking the
    device, so that nothing waits for it."""
    number = int(len(image) * share + float(torch.rand(())))
    chosen = torch.rand(len(image), device=image.device).argsort()[:number]
    return image.index_copy(0, chosen, change(image[chosen])) if number else image


def coarse(image: Tensor) -> Tensor:
    """Seen through a smaller camera."""
    factor = float(torch.empty(1).uniform_(1.2, 2.4))
    small = F.interpolate(image, scale_factor=1 / factor, mode="area")
    return F.interpolate(
        small, size=image.shape[2:], mode="bilinear" if torch.rand(1) < 0.6 else "nearest"
    )


def shown(image: Tensor) -> Tensor:
    """Where an image [b,3,h,w] is no black border, 1, else 0 [b,1,h,w]; small dark spots are 1."""
    lit = (image.amax(1, keepdim=True) > 0).float()
    return -F.max_pool2d(-F.max_pool2d(lit, 5, 1, 2), 5, 1, 2)


def camera(image: Tensor) -> Tensor:
    """What happens between the scene and the network, [b,3,h,w] in 0 to 1; black stays black."""
    where = shown(image)
    image = on_some(image, 0.08, strange)
    image = colour(image)
    image = filters(image, kernels(len(image), image.device))
    image = on_some(image, 0.12, coarse)
    image = grain(image)
    image = on_some(image, 0.4, blocks)
    return image.clamp(0, 1) * where


# Functions of many small steps over whole batches, each of which reads and writes 200 MB: compiled
# they are few kernels. The others have one large step, or shapes that change.
FUSED = ("colour", "grain", "shown")


def fuse(image: Tensor) -> None:
    """Compiles FUSED for images of this shape, for all calls from now on, and tries them on it.
    Raises what PyTorch's compiler raises, and nothing is changed then."""
    compiled = {name: torch.compile(globals()[name], dynamic=False) for name in FUSED}
    for function in compiled.values():
        function(image)
    globals().update(compiled)
