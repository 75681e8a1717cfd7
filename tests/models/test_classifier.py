"""Images to tensors and logits to classes, against numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tvm_vision.errors import InputError
from tvm_vision.models.classifier import (
    EFFICIENTNET_LITE0,
    ClassifierInput,
    classify,
    imagenet_labels,
    prepare,
    softmax,
)


def test_prepare_normalises_each_channel():
    config = ClassifierInput(size=(2, 2), mean=(1.0, 2.0, 3.0), std=(2.0, 4.0, 8.0))
    image = np.full((2, 2, 3), (11, 22, 35), np.uint8)
    tensor = prepare(image, config)
    assert tensor.shape == (1, 3, 2, 2)
    assert tensor.dtype == np.float32
    assert tensor.flags.c_contiguous
    np.testing.assert_array_equal(tensor[0, :, 0, 0], [5.0, 5.0, 4.0])


def test_prepare_turns_the_channels_where_the_orders_differ():
    config = ClassifierInput(size=(1, 1))
    image = np.array([[[1, 2, 3]]], np.uint8)
    assert prepare(image, config, color_order="rgb")[0, :, 0, 0].tolist() == [1, 2, 3]
    assert prepare(image, config, color_order="bgr")[0, :, 0, 0].tolist() == [3, 2, 1]


def test_prepare_crops_the_centre():
    # 8 x 6 image, half of the largest square: rows 3 and 4..5 hold the 3 x 3 in the middle.
    image = np.zeros((8, 6, 3), np.uint8)
    image[3:6, 2:5] = 200
    config = ClassifierInput(size=(3, 3), crop=0.5)
    assert prepare(image, config).min() == 200


def test_prepare_keeps_the_aspect_of_the_tensor():
    # Tensor twice as wide as high: a square image loses rows above and below.
    image = np.zeros((8, 8, 3), np.uint8)
    image[2:6] = 90
    assert prepare(image, ClassifierInput(size=(2, 4))).min() == 90


def test_prepare_averages_what_it_shrinks():
    image = np.zeros((4, 4, 3), np.uint8)
    image[::2] = 100
    np.testing.assert_array_equal(prepare(image, ClassifierInput(size=(2, 2))), 50.0)


def test_efficientnet_lite0_maps_pixels_as_it_was_trained():
    white = prepare(np.full((300, 451, 3), 255, np.uint8), EFFICIENTNET_LITE0)
    assert white.shape == (1, 3, 224, 224)
    assert white.min() == white.max() == 1.0


@given(height=st.integers(1, 40), width=st.integers(1, 40), crop=st.floats(0.01, 1.0))
def test_prepare_takes_every_size_of_image(height, width, crop):
    image = np.full((height, width, 3), 7, np.uint8)
    tensor = prepare(image, ClassifierInput(size=(5, 3), crop=crop))
    np.testing.assert_array_equal(tensor, np.full((1, 3, 5, 3), 7.0, np.float32))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((2, 2, 2), np.uint8),
        np.zeros((1, 2, 2, 3), np.uint8),
        np.zeros((2, 2, 3), np.float32),
        np.zeros((0, 2, 3), np.uint8),
    ],
)
def test_prepare_refuses_other_images(image):
    with pytest.raises(
        InputError, match=r"an image of uint8 \[height, width, 3\] in BGR is needed"
    ):
        prepare(image, EFFICIENTNET_LITE0)


@pytest.mark.parametrize("how", [{}, {"letterbox": True, "pad_value": 9.0}, {"stretch": True}])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHW"])
def test_prepare_in_gray_is_the_luma_of_any_image(layout, how):
    color = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    config = ClassifierInput((6, 8), 1.0, (10.0,), (2.0,), "gray", layout=layout, **how)
    tensor = prepare(color, config)
    assert tensor.shape == {"NCHW": (1, 1, 6, 8), "NHWC": (1, 6, 8, 1), "NHW": (1, 6, 8)}[layout]
    luma = color @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(2 * tensor.reshape(6, 8) + 10, luma, atol=0.51)
    with_alpha = np.dstack([color, np.full((6, 8), 7, np.uint8)])
    for same, order in ((color[..., ::-1], "bgr"), (with_alpha, "rgb"), (with_alpha, "bgr")):
        turned = (
            tensor if order == "rgb" or same.shape[2] == 3 else prepare(color[..., ::-1], config)
        )
        np.testing.assert_array_equal(prepare(same, config, color_order=order), turned)
    gray = color[..., 1]
    expected = (gray.astype(np.float32) - 10) / 2
    for same in (gray, gray[..., np.newaxis], np.repeat(gray[..., np.newaxis], 3, axis=2)):
        np.testing.assert_array_equal(prepare(same, config).reshape(6, 8), expected)


def test_prepare_takes_gray_and_alpha_for_colors():
    config = ClassifierInput((2, 3))
    gray = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for same in (gray, gray[..., np.newaxis]):
        np.testing.assert_array_equal(prepare(same, config)[0], np.stack([gray] * 3))
    alpha = np.dstack([gray, gray + 10, gray + 20, gray + 30])
    np.testing.assert_array_equal(prepare(alpha, config), prepare(alpha[..., :3], config))


def test_prepare_refuses_an_unknown_color_order():
    with pytest.raises(InputError, match="rgb or bgr, got 'yuv'"):
        prepare(np.zeros((2, 2, 3), np.uint8), EFFICIENTNET_LITE0, color_order="yuv")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": (0, 4)}, "expected a size"),
        ({"size": (4, 4), "crop": 0.0}, "expected a crop"),
        ({"size": (4, 4), "crop": 1.1}, "expected a crop"),
        ({"size": (4, 4), "std": (1.0, 0.0, 1.0)}, "3 positive stds"),
        ({"size": (4, 4), "mean": (1.0,)}, "expected 3 means"),
        ({"size": (4, 4), "color_order": "hsv"}, "got 'hsv'"),
        ({"size": (4, 4), "color_order": "gray"}, "expected 1 means"),
        ({"size": (4, 4), "layout": "NHW"}, "a color_order of gray for a layout of NHW"),
        ({"size": (4, 4), "interpolation": "best"}, "got 'best'"),
    ],
)
def test_classifier_input_checks_its_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        ClassifierInput(**fields)


def test_softmax_of_known_values():
    np.testing.assert_allclose(softmax(np.log([1.0, 2.0, 5.0])), [0.125, 0.25, 0.625], rtol=1e-12)


@given(
    hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(-(2.0**100), 2.0**100, width=32))
)
def test_softmax_sums_to_one_without_overflow(logits):
    probabilities = softmax(logits)
    assert np.isclose(probabilities.sum(), 1.0)
    assert (probabilities >= 0).all()


def test_classify_orders_by_probability_and_then_by_index():
    result = classify(np.log([[1.0, 4.0, 1.0, 2.0]]), ["a", "b", "c", "d"], top=3)
    assert result.class_ids == (1, 3, 0)
    assert result.labels == ("b", "d", "a")
    np.testing.assert_allclose(result.probabilities, [0.5, 0.25, 0.125])


def test_classify_gives_no_more_than_there_are():
    assert len(classify([0.0, 1.0], ["a", "b"], top=5)) == 2


@pytest.mark.parametrize(
    ("logits", "labels", "top", "message"),
    [
        (np.zeros((2, 3)), "abc", 5, r"expected logits \[classes\] or \[1, classes\], got \[2, 3"),
        (np.zeros(0), "", 5, "expected logits"),
        (np.zeros(3), "ab", 5, "expected 3 labels, one a class, got 2"),
        (np.zeros(3), "abc", 0, "expected a top of at least 1, got 0"),
        ([0.0, np.nan, 1.0], "abc", 5, "expected finite logits"),
    ],
)
def test_classify_refuses(logits, labels, top, message):
    with pytest.raises(InputError, match=message):
        classify(logits, list(labels), top=top)


def test_imagenet_labels_are_the_thousand_in_order():
    labels = imagenet_labels()
    assert len(labels) == 1000
    assert labels[0] == "tench"
    assert labels[282] == "tiger cat"
    assert labels[967] == "espresso"
    assert labels[999] == "toilet tissue"
    assert all(labels)
