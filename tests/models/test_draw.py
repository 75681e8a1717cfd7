"""Drawn results: sizes, bars as long as the probabilities, text inside its column."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_vision.models import draw
from tvm_vision.models.instance_masks import InstanceMasks
from tvm_vision.models.results import (
    Classification,
    DepthMap,
    Detections,
    SegmentationMask,
    Timing,
    VisionResult,
)

RESULT = Classification((0, 1), ("half", "nothing"), (0.5, 0.0))


def bar_pixels(image, row):
    line = image[draw.MARGIN + row * draw.ROW + 35]
    return int((line == draw.BAR).all(axis=-1).sum())


def test_size_and_bars():
    image = np.zeros((210, 100, 3), np.uint8)
    drawn = draw.draw_classification(image, RESULT, caption="a device")
    assert drawn.shape == (draw.HEIGHT, 200 + draw.PANEL_WIDTH, 3)
    full = draw.PANEL_WIDTH - 2 * draw.MARGIN
    assert abs(bar_pixels(drawn, 0) - full / 2) <= 1
    assert bar_pixels(drawn, 1) == 0


def test_a_long_label_stays_in_its_column():
    image = np.zeros((draw.HEIGHT, 10, 3), np.uint8)
    long = Classification((0,), ("a very long name of a class " * 4,), (1.0,))
    drawn = draw.draw_classification(image, long)
    assert (drawn[:, -draw.MARGIN + 2 :] == draw.PAPER).all()
    assert (drawn[: draw.MARGIN + 25, 10 : 10 + draw.MARGIN - 2] == draw.PAPER).all()


def test_the_image_given_is_not_changed():
    image = np.zeros((draw.HEIGHT, 50, 3), np.uint8)
    draw.draw_classification(image, RESULT)
    assert not image.any()


NAMES = ("ball", "goalpost", "robot")


def detections(*boxes, score=0.9):
    count = len(boxes)
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.full(count, score, np.float32),
        np.arange(count, dtype=np.int32) % 3,
        NAMES,
    )


def colored(image, color):
    """Rows and columns that have a color."""
    rows, columns = np.nonzero((image == color).all(axis=-1))
    return rows, columns


# The smallest has room for the plate in the wider letters of OpenCV 4, too.
@pytest.mark.parametrize("shape", [(480, 640), (1080, 1920), (80, 100), (120, 96)])
def test_a_box_is_where_it_belongs(shape):
    height, width = shape
    box = (0.2 * width, 0.5 * height, 0.9 * width, 0.8 * height)
    drawn = draw.draw_detections(np.zeros((*shape, 3), np.uint8), detections(box))
    rows, columns = colored(drawn, draw.BOXES[0])
    line = max(2, 2 * max(shape) / 640)
    assert drawn.shape == (*shape, 3)
    assert abs(columns.min() - box[0]) <= line and abs(columns.max() + 1 - box[2]) <= line
    assert abs(rows.max() + 1 - box[3]) <= line
    # The plate with the name is above the box.
    assert box[1] - 0.2 * height < rows.min() < box[1]


@pytest.mark.parametrize(
    "box", [(0, 0, 640, 480), (0, 0, 0.5, 0.5), (639.5, 479.5, 640, 480), (0, 479, 640, 480)]
)
def test_boxes_at_the_edges(box):
    drawn = draw.draw_detections(np.zeros((480, 640, 3), np.uint8), detections(box))
    assert len(colored(drawn, draw.BOXES[0])[0]) > 0


def test_names_do_not_hide_each_other():
    boxes = [(100, 100, 200, 200), (102, 100, 200, 200), (104, 101, 200, 200)]
    alone, many = (
        draw.draw_detections(np.zeros((480, 640, 3), np.uint8), detections(*boxes[:count]))
        for count in (1, 3)
    )
    plate = alone[80:100, 100:160]
    assert np.array_equal(many[80:100, 100:160], plate)


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (300, 2), (8, 8)])
def test_tiny_images(shape):
    image = np.zeros((*shape, 3), np.uint8)
    box = (0, 0, shape[1], shape[0])
    mask = SegmentationMask(np.full(shape, 2, np.uint8), NAMES)
    drawn = draw.draw_detections(image, detections(box), segmentation=mask, caption="a caption")
    assert drawn.shape == image.shape


def test_a_mask_colors_all_but_the_first_class():
    image = np.full((40, 60, 3), 100, np.uint8)
    mask = np.zeros((40, 60), np.uint8)
    mask[:10], mask[10:20], mask[20:30] = 1, 2, 255
    drawn = draw.draw_detections(image, None, segmentation=SegmentationMask(mask, NAMES))
    assert (drawn[30:] == 100).all()
    colors = [tuple(int(v) for v in drawn[row, 0]) for row in (5, 15, 25)]
    expected = [round(0.6 * 100 + 0.4 * value) for value in draw.PIXELS[1]]
    assert colors[0] == pytest.approx(expected, abs=1)
    assert len({(100, 100, 100), *colors}) == 4


def test_a_caption_at_the_lower_edge_and_none_where_it_cannot_be_read():
    image = np.full((480, 640, 3), 90, np.uint8)
    drawn = draw.draw_detections(image, None, caption="yoeo, 1.2 ms")
    assert (drawn[:450] == 90).all() and (drawn[-1] == 30).all()
    small = np.full((80, 100, 3), 90, np.uint8)
    assert (draw.draw_detections(small, None, caption="a caption " * 8) == 90).all()


@pytest.mark.parametrize("shape", [(50, 60), (50, 60, 1), (50, 60, 4)])
def test_other_channels(shape):
    drawn = draw.draw_detections(np.zeros(shape, np.uint8), detections((5, 5, 20, 20)))
    assert drawn.shape == (50, 60, 3) and drawn.any()


def test_results_of_any_kind():
    image = np.zeros((100, 100, 3), np.uint8)
    timing = Timing(1, 1, 1)
    found = VisionResult(timing, detections=detections((10, 50, 90, 90)))
    assert draw.draw_result(image, found).shape == image.shape
    panel = draw.draw_result(image, VisionResult(timing, classification=RESULT))
    assert panel.shape == (draw.HEIGHT, draw.HEIGHT + draw.PANEL_WIDTH, 3)
    assert not draw.draw_result(image, VisionResult(timing)).any() and not image.any()


def test_masks_of_objects_cover_their_pixels_alone():
    image = np.full((480, 640, 3), 100, np.uint8)
    dense = np.zeros((2, 480, 640), np.bool_)
    dense[0, 80:240, 80:320] = dense[1, 160:400, 240:560] = True
    boxes = detections((80, 80, 320, 240), (240, 160, 560, 400))
    drawn = draw.draw_detections(image, replace(boxes, masks=InstanceMasks.from_dense(dense)))
    alone, other, both = (drawn[place].tolist() for place in ((120, 200), (360, 500), (200, 280)))
    # The better object lies on top where both are, and two of one class would differ as well.
    assert alone == both != other
    assert [100, 100, 100] not in (alone, other) and (drawn[440, :40] == 100).all()
    empty = InstanceMasks.from_dense(np.zeros((2, 480, 640), np.bool_))
    assert draw.draw_detections(image, replace(boxes, masks=empty)).shape == image.shape


def test_an_oriented_box_takes_the_place_of_the_upright_one():
    """A square on its corner: its outline runs through the middles of the upright box's edges."""
    side = 100 / 2**0.5
    oriented = np.array([[100, 100, side, side, np.pi / 4]], np.float32)
    found = replace(detections((50, 50, 150, 150)), oriented_boxes=oriented)
    drawn = draw.draw_detections(np.zeros((200, 200, 3), np.uint8), found)
    assert drawn[100, 50].any() and drawn[148, 100].any() and drawn[125, 75].any()
    assert not drawn[150, 50].any() and not drawn[150, 150].any() and not drawn[100, 100].any()


@pytest.mark.parametrize("count", [1, 5, 17])
def test_keypoints_that_are_sure(count):
    points = np.zeros((1, count, 3), np.float32)
    points[0, :, 0], points[0, :, 1] = np.linspace(20, 180, count), np.linspace(20, 180, count)
    points[0, :, 2] = 0.9
    points[0, 0, 2] = 0.1
    # Far outside, and what is no number, as networks give it for what they do not see.
    points[0, -1] = (1e30, np.nan, 0.9) if count > 1 else points[0, -1]
    found = replace(detections((0, 0, 200, 200)), keypoints=points)
    blank = np.zeros((200, 200, 3), np.uint8)
    drawn, boxes = draw.draw_detections(blank, found), draw.draw_detections(blank, found[[]])
    assert not drawn[20, 20].any()
    if count > 2:
        x, y = points[0, 1, :2].round().astype(int).tolist()
        assert tuple(drawn[y, x].tolist()) == draw.LIGHT
    assert not boxes.any()


def test_depth_takes_the_place_of_the_image():
    values = np.tile(np.linspace(1, 9, 40, dtype=np.float32), (30, 1))
    image = np.full((30, 40, 3), 7, np.uint8)
    for inverse in (False, True):
        result = VisionResult(Timing(1, 1, 1), depth=DepthMap(values, inverse=inverse))
        drawn = draw.draw_result(image, result)
        brightness = drawn.sum(axis=2)
        near, far = (-1, 0) if inverse else (0, -1)
        assert drawn.shape == image.shape
        assert brightness[0, near] > 400 and brightness[0, far] < 30
