"""Drawn results: sizes, bars as long as the probabilities, text inside its column."""

import numpy as np

from tvm_vision.models import draw
from tvm_vision.models.results import Classification

RESULT = Classification((0, 1), ("half", "nothing"), (0.5, 0.0))


def bar_pixels(picture, row):
    line = picture[draw.MARGIN + row * draw.ROW + 35]
    return int((line == draw.BAR).all(axis=-1).sum())


def test_size_and_bars():
    image = np.zeros((210, 100, 3), np.uint8)
    picture = draw.draw_classification(image, RESULT, caption="a device")
    assert picture.shape == (draw.HEIGHT, 200 + draw.PANEL_WIDTH, 3)
    full = draw.PANEL_WIDTH - 2 * draw.MARGIN
    assert abs(bar_pixels(picture, 0) - full / 2) <= 1
    assert bar_pixels(picture, 1) == 0


def test_a_long_label_stays_in_its_column():
    image = np.zeros((draw.HEIGHT, 10, 3), np.uint8)
    long = Classification((0,), ("a very long name of a class " * 4,), (1.0,))
    picture = draw.draw_classification(image, long)
    assert (picture[:, -draw.MARGIN + 2 :] == draw.PAPER).all()
    assert (picture[: draw.MARGIN + 25, 10 : 10 + draw.MARGIN - 2] == draw.PAPER).all()


def test_the_picture_given_is_not_changed():
    image = np.zeros((draw.HEIGHT, 50, 3), np.uint8)
    draw.draw_classification(image, RESULT)
    assert not image.any()
