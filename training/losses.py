"""What YOEO learns from: boxes, objectness, classes and pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED_BOX, IGNORED_PIXEL = 9, 255
# An anchor takes a box whose sides are at most this many times longer or shorter.
RATIO = 3.0
# Weights of the heads' objectness, by stride: small grids have few places and few mistakes.
BALANCE = {8: 4.0, 16: 1.0, 32: 0.4}
# How much of an object's wanted score depends on how well its box fits: of several boxes of one
# object, suppression keeps the highest score, which then is the best box.
QUALITY = 0.8
NEAR = 0.7  # IoU from which a box of the wrong cell is no mistake
ROWS = 64  # boxes of an image at most, mosaics included
# Objects whose longer side is below this many pixels are small ones.
SMALL = 24.0


@dataclass(frozen=True)
class Weights:
    """Of the parts of the loss, chosen by the gradients at the layers that all share: most for
    boxes, whose places are what fails most often, then objectness (which with 1.0 had a tenth of
    the others' part), then pixels and classes. line: of the pixels of lines beside others; small:
    of the boxes and objectness of small objects beside large ones."""

    box: float = 0.3
    object: float = 6.0
    kind: float = 0.1
    pixel: float = 0.4
    line: float = 1.8
    small: float = 1.0


USUAL = Weights()


@dataclass(frozen=True)
class Head:
    """A yolo layer: its stride and anchors [n,2], in pixels."""

    stride: int
    anchors: Tensor


@dataclass(frozen=True)
class Truths:
    """What images show: classes [b,m], corners [b,m,4], centres and sizes [b,m,4], in pixels."""

    label: Tensor
    corner: Tensor
    box: Tensor


def overlaps(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and CIoU of boxes [...,4] (centre and size) pair by pair. CIoU is the IoU less the
    distance of the centres and the difference of the aspects (Zheng et al., 2020)."""
    a1, a2 = a[..., :2] - a[..., 2:] / 2, a[..., :2] + a[..., 2:] / 2
    b1, b2 = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    inter = (torch.minimum(a2, b2) - torch.maximum(a1, b1)).clamp(min=0).prod(-1)
    iou = inter / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter + 1e-6)
    hull = torch.maximum(a2, b2) - torch.minimum(a1, b1)
    far = ((a[..., :2] - b[..., :2]) ** 2).sum(-1) / ((hull**2).sum(-1) + 1e-6)
    turn = torch.atan(b[..., 2] / b[..., 3]) - torch.atan(a[..., 2] / (a[..., 3] + 1e-6))
    aspect = 4 / torch.pi**2 * turn**2
    with torch.no_grad():
        share = aspect / (1 - iou + aspect + 1e-6)
    return iou, iou - far - share * aspect


def best_iou(boxes: Tensor, truth: Tensor) -> Tensor:
    """For each of boxes [b,n,4] the largest IoU with truth [b,m,4]; all as corners."""
    one, all_ = boxes[:, :, None], truth[:, None]
    wide = torch.minimum(one[..., 2], all_[..., 2]) - torch.maximum(one[..., 0], all_[..., 0])
    high = torch.minimum(one[..., 3], all_[..., 3]) - torch.maximum(one[..., 1], all_[..., 1])
    inter = wide.clamp(min=0) * high.clamp(min=0)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)
    other = (truth[..., 2:] - truth[..., :2]).clamp(min=0).prod(-1)
    return (inter / (area[:, :, None] + other[:, None] - inter + 1e-6)).amax(-1)


def first_rows(boxes: Tensor) -> Tensor:
    """Boxes [b,m,5] as [b,ROWS,5], real ones first: always one shape, and few empty rows."""
    order = (-boxes[..., :1]).argsort(dim=1, stable=True)
    boxes = boxes.gather(1, order.expand_as(boxes))[:, :ROWS]
    return F.pad(boxes, (0, 0, 0, ROWS - boxes.shape[1]), value=-1.0)


def detection_loss(
    values: list[Tensor], heads: list[Head], boxes: Tensor, weights: Weights = USUAL
) -> Tensor:
    """Losses of boxes, objectness and classes, weighted [3]. values: of each head
    [b, anchors * (5 + classes), y, x]. boxes [b,m,5]: class, corners.

    No shape depends on what the boxes hold, so nothing waits for the device and all can be
    compiled.
    """
    label, corner = boxes[..., 0].long(), boxes[..., 1:]
    real = (label >= 0) & (label != IGNORED_BOX)
    size = (corner[..., 2:] - corner[..., :2]).clamp(min=1)
    truth = Truths(label, corner, torch.cat([(corner[..., :2] + corner[..., 2:]) / 2, size], -1))
    fits = []
    for head in heads:
        ratio = size[:, :, None] / head.anchors
        fits.append(torch.maximum(ratio, 1 / ratio).amax(-1))
    joined = torch.cat(fits, -1)
    best = F.one_hot(joined.argmin(-1), joined.shape[-1]).bool()
    taken = (((joined < RATIO) | best) & real[..., None]).split([len(h.anchors) for h in heads], -1)
    parts = [
        _head_loss(value, head, truth, chosen, weights)
        for value, head, chosen in zip(values, heads, taken, strict=True)
    ]
    return torch.stack(parts).sum(0)


def _head_loss(
    value: Tensor, head: Head, truth: Truths, chosen: Tensor, weights: Weights
) -> Tensor:
    """Of one head [b, anchors * (5 + classes), y, x]: weighted losses [3]. chosen [b,m,anchors]:
    which anchors take which box."""
    count, _, high, wide = value.shape
    anchors = len(head.anchors)
    value = value.float().view(count, anchors, -1, high, wide)
    place = (truth.box[..., :2] / head.stride).long()
    column, row = place[..., 0].clamp(0, wide - 1), place[..., 1].clamp(0, high - 1)
    cell = row * wide + column
    fields = value.shape[2]
    index = cell[:, None, None].expand(-1, anchors, fields, -1)
    picked = value.flatten(3).gather(3, index).permute(0, 3, 1, 2)  # [b,m,anchors,fields]
    xy = (picked[..., :2].sigmoid() + torch.stack([column, row], -1)[:, :, None]) * head.stride
    wh = picked[..., 2:4].clamp(max=6).exp() * head.anchors
    iou, complete = overlaps(torch.cat([xy, wh], -1), truth.box[:, :, None])
    number = chosen.sum().clamp(min=1)
    small = (truth.box[..., 2:].amax(-1) < SMALL).float()[:, :, None]
    matters = 1 + (weights.small - 1) * small
    of_boxes = ((1 - complete) * chosen * matters).sum() / number
    classes = fields - 5
    kinds = F.one_hot(truth.label.clamp(0, classes) % classes, classes).float() * 0.98 + 0.01
    kinds = kinds[:, :, None].expand(-1, -1, anchors, -1)
    wrong = F.binary_cross_entropy_with_logits(picked[..., 5:], kinds, reduction="none").mean(-1)
    of_classes = (wrong * chosen).sum() / number
    good = (1 - QUALITY + QUALITY * iou.detach().clamp(0, 1)) * chosen
    slot = torch.arange(anchors, device=value.device) * (high * wide) + cell[..., None]
    target = torch.zeros(count, anchors * high * wide, device=value.device)
    target = target.scatter_reduce(1, slot.flatten(1), good.flatten(1), "amax")
    objects = F.binary_cross_entropy_with_logits(
        value[:, :, 4].flatten(1), target, reduction="none"
    )
    emphasis = torch.ones_like(target).scatter_reduce(
        1, slot.flatten(1), (1 + (matters - 1) * chosen).flatten(1), "amax"
    )
    counts = ~_undecided(value.detach(), head, truth) | (target > 0)
    of_objects = BALANCE[head.stride] * (objects * counts * emphasis).mean()
    return torch.stack(
        [weights.box * of_boxes, weights.object * of_objects, weights.kind * of_classes]
    )


def _undecided(value: Tensor, head: Head, truth: Truths) -> Tensor:
    """Which cells [b, anchors * y * x] are neither to find nor to leave alone: those whose box
    nearly is an object's though another cell has to find it, and those in doubtful regions."""
    anchors = value.shape[1]
    high, wide = value.shape[3:]
    y, x = torch.meshgrid(
        torch.arange(high, device=value.device),
        torch.arange(wide, device=value.device),
        indexing="ij",
    )
    grid = torch.stack([x, y])
    xy = (value[:, :, :2].sigmoid() + grid) * head.stride
    wh = value[:, :, 2:4].clamp(max=6).exp() * head.anchors[:, :, None, None]
    corners = torch.cat([xy - wh / 2, xy + wh / 2], 2).permute(0, 1, 3, 4, 2).flatten(1, 3)
    real = (truth.label >= 0) & (truth.label != IGNORED_BOX)
    near = best_iou(corners, truth.corner * real[..., None]) > NEAR
    middle = (grid.flatten(1).T + 0.5) * head.stride
    inside = (middle >= truth.corner[:, :, None, :2]) & (middle <= truth.corner[:, :, None, 2:])
    doubt = (inside.all(-1) & (truth.label == IGNORED_BOX)[..., None]).any(1)
    return near | doubt.repeat(1, anchors)


def pixel_loss(logits: Tensor, classes: Tensor, weights: Weights = USUAL) -> Tensor:
    """Cross-entropy and Dice over the classes. logits [b,c,h,w], classes int64 [b,h,w]."""
    logits = logits.float()
    weight = torch.ones(logits.shape[1], device=logits.device)
    weight[1] = weights.line
    entropy = F.cross_entropy(logits, classes, weight=weight, ignore_index=IGNORED_PIXEL)
    seen = (classes != IGNORED_PIXEL)[:, None]
    kinds = torch.arange(logits.shape[1], device=logits.device)
    truth = classes[:, None] == kinds[:, None, None]
    guess = logits.softmax(1) * seen
    both, either = (truth * guess).sum((0, 2, 3)), (truth + guess).sum((0, 2, 3))
    return weights.pixel * (entropy + (1 - (2 * both + 1) / (either + 1)).mean())
