"""What YOEO learns from: boxes, objectness, classes and pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
IGNORED_BOX, IGNORED_PIXEL = 9, 255
# An anchor takes a box whose sides are at most this many times longer or shorter.
RATIO = 3.0
# Weights of the heads' objectness, by stride: small grids have few places and few mistakes.
BALANCE = {8: 4.0, 16: 1.0, 32: 0.4}
BOX, OBJECT, CLASS, PIXEL = 0.06, 1.0, 0.3, 0.8
LINE_WEIGHT = 1.8


@dataclass(frozen=True)
class Head:
    """A yolo layer: its stride and anchors [n,2], in pixels."""

    stride: int
    anchors: Tensor


def complete_iou(a: Tensor, b: Tensor) -> Tensor:
    """CIoU of boxes [n,4] (centre and size) pair by pair: IoU less the distance of the centres and
    the difference of the aspects (Zheng et al., 2020)."""
    a1, a2, b1, b2 = (
        a[:, :2] - a[:, 2:] / 2,
        a[:, :2] + a[:, 2:] / 2,
        b[:, :2] - b[:, 2:] / 2,
        b[:, :2] + b[:, 2:] / 2,
    )
    inter = (torch.minimum(a2, b2) - torch.maximum(a1, b1)).clamp(min=0).prod(1)
    iou = inter / (a[:, 2:].prod(1) + b[:, 2:].prod(1) - inter + 1e-6)
    hull = torch.maximum(a2, b2) - torch.minimum(a1, b1)
    far = ((a[:, :2] - b[:, :2]) ** 2).sum(1) / ((hull**2).sum(1) + 1e-6)
    aspect = (
        4
        / torch.pi**2
        * (torch.atan(b[:, 2] / b[:, 3]) - torch.atan(a[:, 2] / (a[:, 3] + 1e-6))) ** 2
    )
    with torch.no_grad():
        share = aspect / (1 - iou + aspect + 1e-6)
    return iou - far - share * aspect


def best_iou(boxes: Tensor, truth: Tensor) -> Tensor:
    """For each of boxes [b,n,4] the largest IoU with truth [b,m,4]; all as corners."""
    one, all_ = boxes[:, :, None], truth[:, None]
    wide = torch.minimum(one[..., 2], all_[..., 2]) - torch.maximum(one[..., 0], all_[..., 0])
    high = torch.minimum(one[..., 3], all_[..., 3]) - torch.maximum(one[..., 1], all_[..., 1])
    inter = wide.clamp(min=0) * high.clamp(min=0)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)
    other = (truth[..., 2:] - truth[..., :2]).clamp(min=0).prod(-1)
    return (inter / (area[:, :, None] + other[:, None] - inter + 1e-6)).amax(-1)


def detection_loss(values: list[Tensor], heads: list[Head], boxes: Tensor) -> Tensor:
    """values: of each head [b, anchors * (5 + classes), y, x]. boxes [b,m,5]: class, corners."""
    total = values[0].new_zeros(())
    # Rows without a box are most of them; the time goes with their number.
    boxes = boxes.gather(1, (-boxes[..., :1]).argsort(dim=1, stable=True).expand_as(boxes))
    boxes = boxes[:, : max(1, int((boxes[..., 0] >= 0).sum(1).max()))]
    label, corner = boxes[..., 0].long(), boxes[..., 1:]
    real = (label >= 0) & (label != IGNORED_BOX)
    centre, size = (
        (corner[..., :2] + corner[..., 2:]) / 2,
        (corner[..., 2:] - corner[..., :2]).clamp(min=1),
    )
    fits = []
    for head in heads:
        ratio = size[:, :, None] / head.anchors
        fits.append(torch.maximum(ratio, 1 / ratio).amax(-1))
    joined = torch.cat(fits, -1)
    best = F.one_hot(joined.argmin(-1), joined.shape[-1]).bool()
    taken = (((joined < RATIO) | best) & real[..., None]).split([len(h.anchors) for h in heads], -1)
    for value, head, chosen in zip(values, heads, taken, strict=True):
        count, _, high, wide = value.shape
        value = value.float().view(count, len(head.anchors), -1, high, wide).permute(0, 1, 3, 4, 2)
        device = value.device
        y, x = torch.meshgrid(
            torch.arange(high, device=device), torch.arange(wide, device=device), indexing="ij"
        )
        image, which, anchor = chosen.nonzero(as_tuple=True)
        place = (centre[image, which] / head.stride).long()
        column, row = place[:, 0].clamp(0, wide - 1), place[:, 1].clamp(0, high - 1)
        target = torch.zeros(value.shape[:-1], device=device)
        if len(image):
            picked = value[image, anchor, row, column]
            xy = (picked[:, :2].sigmoid() + torch.stack([column, row], 1)) * head.stride
            wh = picked[:, 2:4].clamp(max=6).exp() * head.anchors[anchor]
            wanted = torch.cat([centre[image, which], size[image, which]], 1)
            overlap = complete_iou(torch.cat([xy, wh], 1), wanted)
            total = total + BOX * (1 - overlap).mean() * len(heads)
            kinds = F.one_hot(label[image, which], value.shape[-1] - 5).float()
            total = total + CLASS * F.binary_cross_entropy_with_logits(
                picked[:, 5:], kinds * 0.98 + 0.01
            )
            target[image, anchor, row, column] = 0.6 + 0.4 * overlap.detach().clamp(0, 1)
        with torch.no_grad():
            xy = (value[..., :2].sigmoid() + torch.stack([x, y], -1)) * head.stride
            wh = value[..., 2:4].clamp(max=6).exp() * head.anchors[:, None, None]
            corners = torch.cat([xy - wh / 2, xy + wh / 2], -1).reshape(count, -1, 4)
            near = best_iou(corners, corner * real[..., None]).view(target.shape) > 0.7
            cell = torch.stack([x + 0.5, y + 0.5], -1).reshape(-1, 2) * head.stride
            doubt = corner[:, :, None]
            inside = ((cell >= doubt[..., :2]) & (cell <= doubt[..., 2:])).all(-1) & (
                label == IGNORED_BOX
            )[..., None]
            skip = inside.any(1).view(count, 1, high, wide) | near
            weight = (~skip | (target > 0)).float()
        objects = F.binary_cross_entropy_with_logits(value[..., 4], target, reduction="none")
        total = total + OBJECT * BALANCE[head.stride] * (objects * weight).mean()
    return total


def pixel_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy and Dice over the classes. logits [b,c,h,w], classes int64 [b,h,w]."""
    logits = logits.float()
    weight = torch.ones(logits.shape[1], device=logits.device)
    weight[1] = LINE_WEIGHT
    entropy = F.cross_entropy(logits, classes, weight=weight, ignore_index=IGNORED_PIXEL)
    seen = (classes != IGNORED_PIXEL)[:, None].float()
    truth = (
        F.one_hot(classes.clamp(max=logits.shape[1]) % logits.shape[1], logits.shape[1]).permute(
            0, 3, 1, 2
        )
        * seen
    )
    guess = logits.softmax(1) * seen
    both, either = (truth * guess).sum((0, 2, 3)), (truth + guess).sum((0, 2, 3))
    return PIXEL * (entropy + (1 - (2 * both + 1) / (either + 1)).mean())
