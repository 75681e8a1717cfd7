"""Depth in metres as image_transport compresses it, within what its numbers can hold."""

import struct
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision_ros.compressed_depth import depth_from_compressed
from tvm_vision_ros.locator import Locator

# Metres, with what is not known.
SCENE = np.array([[0.5, 1.234, np.nan], [3.0, 7.999, 10.0]], np.float32)
MILLIMETRES = np.nan_to_num(np.round(SCENE * 1000)).astype(np.uint16)


def compressed(whole, form, a=0.0, b=0.0):
    """As compressed_depth_image_transport writes it."""
    png = cv2.imencode(".png", whole)[1].tobytes()
    return SimpleNamespace(format=form, data=struct.pack("<iff", 0, a, b) + png)


@pytest.mark.parametrize("form", ["16UC1; compressedDepth", "16UC1; compressedDepth png"])
def test_millimetres_are_exact(form):
    sent = compressed(MILLIMETRES, form)
    np.testing.assert_allclose(depth_from_compressed(sent), SCENE, atol=6e-4)
    # Where results are placed in space it counts as any depth image.
    sent.header = SimpleNamespace(stamp=SimpleNamespace(sec=1, nanosec=0))
    locator = Locator()
    locator.take_depth(sent)
    np.testing.assert_allclose(locator._depth(sent.header), SCENE, atol=6e-4)


def test_metres_are_of_inverse_depth():
    # quant = 100, farthest 10 m, as the publisher computes them.
    a = 100.0 * 101.0
    b = 1.0 - a / 10.0
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(a / SCENE + b).astype(np.uint16)
    found = depth_from_compressed(compressed(whole, "32FC1; compressedDepth png", a, b))
    # One step of these numbers is a centimetre at ten metres, and finer before.
    np.testing.assert_allclose(found, SCENE, rtol=1.1e-3)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (compressed(MILLIMETRES, "bgr8; jpeg compressed bgr8"), "compressedDepth is needed"),
        (compressed(MILLIMETRES.astype(np.uint8), "16UC1; compressedDepth"), "16 bits is needed"),
        (
            SimpleNamespace(format="16UC1; compressedDepth rvl", data=bytes(40)),
            "a PNG is needed .* set the publisher's format to png",
        ),
        (SimpleNamespace(format="16UC1; compressedDepth png", data=b""), "a PNG is needed"),
    ],
)
def test_what_is_no_depth_is_refused(message, words):
    with pytest.raises(InputError, match=words):
        depth_from_compressed(message)


def test_the_limit_of_pixels_holds_before_decoding():
    with pytest.raises(InputError, match="1 to 5 pixels .* found 3 x 2"):
        depth_from_compressed(compressed(MILLIMETRES, "16UC1; compressedDepth"), 5)
