"""The parts of the training that would go wrong silently: overlaps, filters, boxes after a crop."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "training"))

import augment  # noqa: E402
import losses  # noqa: E402


def test_complete_iou_of_equal_boxes_is_one():
    box = torch.tensor([[5.0, 5.0, 4.0, 2.0]])
    assert losses.complete_iou(box, box).item() == pytest.approx(1, abs=1e-5)


def test_complete_iou_counts_the_distance_of_the_centres():
    first, second = torch.tensor([[1.0, 1.0, 2.0, 2.0]]), torch.tensor([[4.0, 1.0, 2.0, 2.0]])
    # No overlap and equal shapes: less by 3² over the square of the hull's diagonal, 5² + 2².
    assert losses.complete_iou(first, second).item() == pytest.approx(-9 / 29, abs=1e-5)


def test_best_iou_is_the_largest():
    boxes = torch.tensor([[[0.0, 0.0, 2.0, 2.0]]])
    truth = torch.tensor([[[1.0, 0.0, 3.0, 2.0], [1.0, 1.0, 3.0, 3.0], [9.0, 9.0, 9.0, 9.0]]])
    assert losses.best_iou(boxes, truth).item() == pytest.approx(1 / 3, abs=1e-5)


@pytest.mark.parametrize("doubt", [False, True])
def test_what_is_doubtful_costs_nothing(doubt):
    """A confident cell within a doubtful region is not a mistake; elsewhere it is."""
    head = losses.Head(16, torch.tensor([[20.0, 20.0]]))
    values = torch.full((1, 8, 4, 4), -9.0)
    values[0, :4] = 0
    quiet = losses.detection_loss([values], [head], torch.full((1, 1, 5), -1.0))
    values[0, 4, 1, 1] = 9.0
    region = torch.tensor([[[9.0 if doubt else -1.0, 10.0, 10.0, 40.0, 40.0]]])
    loss = losses.detection_loss([values], [head], region)
    assert (loss - quiet < 1e-3) == doubt


def test_fourier_filters_are_convolutions():
    torch.manual_seed(0)
    image, kernel = torch.rand(2, 3, 40, 32), torch.rand(2, 9, 9)
    wide = torch.nn.functional.pad(image, [4] * 4, mode="reflect").reshape(1, 6, 48, 40)
    weight = kernel.flip(1, 2)[:, None].repeat_interleave(3, 0)
    expected = torch.nn.functional.conv2d(wide, weight, groups=6).reshape(image.shape)
    torch.testing.assert_close(augment.filters(image, kernel), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tiled", [False, True])
def test_boxes_move_with_the_picture(tiled):
    """White rectangles on black: after a crop or mosaic each box still holds its white."""
    torch.manual_seed(1)
    count = 8
    pictures = torch.zeros(count, 512, 512, 3, dtype=torch.uint8)
    boxes = torch.full((count, 40, 5), -1.0)
    for row in range(count):
        x, y = 150 + 20 * row, 300 - 15 * row
        pictures[row, y : y + 60, x : x + 80] = 255
        boxes[row, 0] = torch.tensor([1.0, x, y, x + 80, y + 60])
    masks = (pictures[..., 0] > 0).to(torch.uint8)
    change = augment.mosaic if tiled else lambda *parts: augment.crop(*parts, augment.SIZE)
    image, mask, moved = change(pictures, masks, boxes)
    assert image.shape[1:] == (3, 416, 416) and mask.shape[1:] == (416, 416)
    seen = 0
    for row in range(len(image)):
        for label, *corners in moved[row].tolist():
            if label != 1:
                continue
            x1, y1, x2, y2 = (round(value) for value in corners)
            inside = image[row, 0, y1 : y2 + 1, x1 : x2 + 1]
            assert inside.mean() > 0.85
            assert (mask[row, y1 : y2 + 1, x1 : x2 + 1] == 1).float().mean() > 0.85
            seen += 1
    assert seen >= 6


def test_camera_keeps_black_borders_and_range():
    torch.manual_seed(2)
    image = torch.rand(4, 3, 416, 416) * 0.8 + 0.1
    image[:, :, :80] = 0
    result = augment.camera(image)
    assert result.shape == image.shape
    assert np.all((result.numpy() >= 0) & (result.numpy() <= 1))
    assert result[:, :, :76].abs().max() == 0
