"""The letterbox against one in the test's own words, and where things go on the way back."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_vision.errors import InputError
from tvm_vision.models.frames import Letterbox, Preprocessor
from tvm_vision.package import Preprocessing

UNIT = Preprocessing((96, 96), letterbox=True, interpolation="linear", std=(255.0,) * 3)
side = st.one_of(st.integers(1, 12), st.integers(1, 700))


def preprocessor(**changes):
    return Preprocessor(replace(UNIT, **changes))


def smooth(height, width, channels=3):
    """An image that bends slowly, so that interpolations agree on it."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [np.sin(x / 40 + c) * np.cos(y / 50 - c) for c in range(channels)]
    return np.clip(127 + 100 * np.stack(waves, axis=-1), 0, 255).astype(np.uint8)


def original_letterbox(image, size):
    """Pad to a square with zeros, centred, then resize, divide by 255, RGB planes."""
    height, width = image.shape[:2]
    longest = max(height, width)
    square = np.zeros((longest, longest, 3), np.uint8)
    top, left = (longest - height) // 2, (longest - width) // 2
    square[top : top + height, left : left + width] = image
    resized = cv2.resize(square, (size, size), interpolation=cv2.INTER_LINEAR)
    return resized[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32) / 255


@pytest.mark.parametrize("shape", [(480, 640), (640, 480), (720, 1280), (96, 96), (50, 50)])
def test_is_the_original_letterbox_but_for_rounding(shape):
    image = smooth(*shape)
    prepare = preprocessor()
    box = prepare(image)
    expected = original_letterbox(image, 96)
    difference = np.abs(prepare.tensor - expected)
    inside = np.zeros((96, 96), bool)
    inside[box.top + 1 : box.top + box.height - 1, box.left + 1 : box.left + box.width - 1] = True
    # Half a pixel of the input, at the slope of the image; rows at the border mix with black.
    assert difference[..., inside].max() < 0.05
    outside = ~inside
    outside[max(box.top - 1, 0) : box.top + box.height + 1] &= box.width < 96
    outside[:, max(box.left - 1, 0) : box.left + box.width + 1] &= box.height < 96
    assert (prepare.tensor[..., outside & (expected.sum(axis=(0, 1)) == 0)] == 0).all()


def test_channels_and_range():
    image = np.zeros((96, 96, 3), np.uint8)
    image[..., 0], image[..., 1], image[..., 2] = 255, 51, 0
    prepare = preprocessor()
    prepare(image)
    assert [float(plane[40, 40]) for plane in prepare.tensor[0]] == pytest.approx([0, 0.2, 1])
    same = preprocessor(color_order="bgr", mean=(51.0, 0.0, 0.0), std=(102.0, 255.0, 255.0))
    same(image[:48])
    assert [float(plane[40, 40]) for plane in same.tensor[0]] == pytest.approx([2, 0.2, 0])
    assert [float(plane[0, 0]) for plane in same.tensor[0]] == pytest.approx([-0.5, 0, 0])


def test_another_size_leaves_nothing_of_the_frame_before():
    prepare = preprocessor()
    prepare(np.full((96, 96, 3), 255, np.uint8))
    prepare(np.full((48, 96, 3), 255, np.uint8))
    assert prepare.tensor[0, :, :24].max() == 0 and prepare.tensor[0, :, 72:].max() == 0
    assert (prepare.tensor[0, :, 24:72] == 1).all()


def test_grey_alpha_and_views():
    color = smooth(60, 80)
    prepare = preprocessor()
    prepare(color)
    expected = prepare.tensor.copy()
    alpha = np.dstack([color, np.full((60, 80), 7, np.uint8)])
    for same in (alpha, np.asfortranarray(color), np.flip(np.flip(color, 1).copy(), 1)):
        prepare(same)
        assert np.array_equal(prepare.tensor, expected)
    grey = smooth(60, 80, 1)
    prepare(np.repeat(grey, 3, axis=2))
    expected = prepare.tensor.copy()
    for same in (grey, grey[..., 0]):
        prepare(same)
        assert np.array_equal(prepare.tensor, expected)


def test_in_gray():
    """The luma of what is seen, in one plane, with a border of its own."""
    color = smooth(48, 96)
    config = replace(UNIT, mean=(51.0, 51.0, 51.0), pad_value=102.0).in_gray()
    prepare = Preprocessor(config)
    prepare(color)
    assert prepare.tensor.shape == (1, 1, 96, 96)
    luma = color @ np.array([0.114, 0.587, 0.299])
    inside = prepare.tensor[0, 0, 24:72]
    np.testing.assert_allclose(255 * inside + 51, luma, atol=0.51)
    assert prepare.tensor[0, 0, :24] == pytest.approx(0.2)
    gray = smooth(48, 96, 1)
    for same in (gray, gray[..., 0], np.repeat(gray, 3, axis=2), np.repeat(gray, 4, axis=2)):
        prepare(same)
        np.testing.assert_allclose(255 * prepare.tensor[0, 0, 24:72] + 51, gray[..., 0], atol=1e-4)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((0, 5, 3), np.uint8),
        np.zeros((5, 5, 2), np.uint8),
        np.zeros((5, 5, 3), np.float32),
        np.zeros((1, 5, 5, 3), np.uint8),
        np.zeros(5, np.uint8),
        None,
    ],
)
def test_what_is_no_image(image):
    with pytest.raises(InputError, match=r"uint8 \[height, width, 3\] in BGR is needed, found"):
        preprocessor()(image)


def test_a_border_of_grey_and_a_corner():
    prepare = preprocessor(pad_value=114.0, pad_corner=True, mean=(10.0,) * 3)
    box = prepare(np.full((48, 96, 3), 255, np.uint8))
    assert (box.top, box.left, box.height, box.width) == (0, 0, 48, 96)
    assert prepare.tensor[0, :, :48].min() == pytest.approx(245 / 255)
    assert prepare.tensor[0, :, 48:] == pytest.approx(104 / 255)
    middle = preprocessor(pad_value=114.0)
    middle(np.zeros((48, 96, 3), np.uint8))
    assert middle.tensor[0, :, :24] == pytest.approx(114 / 255)
    assert middle.tensor[0, :, 24:72].max() == 0


def test_a_stretched_image_covers_the_input_and_boxes_go_back():
    prepare = preprocessor(letterbox=False, stretch=True)
    box = prepare(np.full((30, 200, 3), 51, np.uint8))
    assert prepare.tensor == pytest.approx(0.2)
    placed = box.to_image(np.array([[0, 0, 96, 96], [48, 24, 72, 48]], np.float32))
    assert placed == pytest.approx(np.array([[0, 0, 200, 30], [100, 7.5, 150, 15]]))
    points = box.points_to_image(np.array([[-48, 192]], np.float32))
    assert points[0] == pytest.approx([-100, 60])


def test_only_letterboxes():
    with pytest.raises(InputError, match="a letterbox or a stretch, without crop"):
        preprocessor(letterbox=False)


@settings(max_examples=200, deadline=None)
@given(side, side, st.sampled_from([(96, 96), (64, 128), (416, 416)]))
def test_any_image_has_its_place(height, width, size):
    box = Letterbox.fit((height, width), size)
    assert 1 <= box.height <= size[0] and 1 <= box.width <= size[1]
    assert 0 <= box.top and box.top + box.height <= size[0]
    assert 0 <= box.left and box.left + box.width <= size[1]
    assert box.height == size[0] or box.width == size[1]
    assert abs(2 * box.top + box.height - size[0]) <= 1
    # The place as a box is the whole image.
    place = np.array([[box.left, box.top, box.left + box.width, box.top + box.height]], np.float32)
    assert box.to_image(place)[0] == pytest.approx([0, 0, width, height], abs=1e-2)


@settings(max_examples=60, deadline=None)
@given(side, side)
def test_a_mask_has_the_size_of_the_image(height, width):
    box = Letterbox.fit((height, width), (96, 96))
    mask = np.zeros((96, 96), np.uint8)
    mask[box.top : box.top + box.height, box.left : box.left + box.width] = 2
    mask[: box.top + box.height // 2] = 1
    scaled = box.mask_to_image(mask)
    assert scaled.shape == (height, width) and scaled.dtype == np.uint8
    # The padding is cut off, and the border between the classes stays where it was.
    assert set(np.unique(scaled)) <= {1, 2}
    if height >= 2:
        share = (box.height // 2) / box.height
        assert abs((scaled == 1).mean() - share) <= 0.5 / height + 0.5 / box.height
