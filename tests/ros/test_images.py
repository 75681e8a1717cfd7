"""Every encoding, step and byte order against OpenCV, and what is no image."""

from array import array
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision_ros.images import (
    ENCODINGS,
    UnknownEncodingError,
    any_image,
    image_from,
    image_from_compressed,
)

BGR = np.random.default_rng(0).integers(0, 256, (6, 10, 3), np.uint8)
# Smooth, so that a pattern read wrongly is far off and interpolation is not.
SMOOTH = np.dstack(
    [
        np.tile(np.linspace(30, 60, 32, dtype=np.uint8), (32, 1)),
        np.full((32, 32), 120, np.uint8),
        np.full((32, 32), 220, np.uint8),
    ]
)


def message(pixels, encoding, *, pad=0, big=0, height=None, width=None, **changes):
    """Rows with ``pad`` bytes behind each; pixels: rows of any type."""
    kind = pixels.dtype.newbyteorder(">" if big else "<")
    rows = pixels.astype(kind).reshape(len(pixels), -1).view(np.uint8)
    padded = np.pad(rows, ((0, 0), (0, pad)), constant_values=77)
    fields = {
        "encoding": encoding,
        "height": pixels.shape[0] if height is None else height,
        "width": pixels.shape[1] if width is None else width,
        "step": padded.shape[1],
        "is_bigendian": big,
        "data": array("B", padded.tobytes()),
    }
    return SimpleNamespace(**{**fields, **changes})


def sixteen(pixels):
    """Values whose upper byte is the pixel."""
    return pixels.astype(np.uint16) << 8 | 0x5A


def mosaic(pattern, bgr=SMOOTH):
    """What a sensor with this pattern sees; the pattern is its first two rows."""
    channels = {"b": 0, "g": 1, "r": 2}
    result = np.zeros(bgr.shape[:2], np.uint8)
    for index, letter in enumerate(pattern):
        row, column = divmod(index, 2)
        result[row::2, column::2] = bgr[row::2, column::2, channels[letter]]
    return result


GRAY = cv2.cvtColor(BGR, cv2.COLOR_BGR2GRAY)
FROM_GRAY = cv2.cvtColor(GRAY, cv2.COLOR_GRAY2BGR)
BGRA = cv2.cvtColor(BGR, cv2.COLOR_BGR2BGRA)
UYVY = BGR[..., :2].copy()
NV12 = np.random.default_rng(1).integers(0, 256, (9, 10), np.uint8)

TABLE = {
    "bgr8": (BGR, BGR),
    "8UC3": (BGR, BGR),
    "rgb8": (BGR[..., ::-1], BGR),
    "mono8": (GRAY, FROM_GRAY),
    "8UC1": (GRAY, FROM_GRAY),
    "bgra8": (BGRA, BGR),
    "8UC4": (BGRA, BGR),
    "rgba8": (BGRA[..., [2, 1, 0, 3]], BGR),
    "mono16": (sixteen(GRAY), FROM_GRAY),
    "bgr16": (sixteen(BGR), BGR),
    "16UC3": (sixteen(BGR), BGR),
    "rgb16": (sixteen(BGR[..., ::-1]), BGR),
    "yuv422": (UYVY, cv2.cvtColor(UYVY, cv2.COLOR_YUV2BGR_UYVY)),
    "uyvy": (UYVY, cv2.cvtColor(UYVY, cv2.COLOR_YUV2BGR_UYVY)),
    "yuv422_yuy2": (UYVY, cv2.cvtColor(UYVY, cv2.COLOR_YUV2BGR_YUYV)),
    "yuyv": (UYVY, cv2.cvtColor(UYVY, cv2.COLOR_YUV2BGR_YUYV)),
    "nv12": (NV12, cv2.cvtColor(NV12, cv2.COLOR_YUV2BGR_NV12)),
    "nv21": (NV12, cv2.cvtColor(NV12, cv2.COLOR_YUV2BGR_NV21)),
    "bayer_rggb8": (mosaic("rggb"), cv2.cvtColor(mosaic("rggb"), cv2.COLOR_BayerBG2BGR)),
    "bayer_bggr8": (mosaic("bggr"), cv2.cvtColor(mosaic("bggr"), cv2.COLOR_BayerRG2BGR)),
    "bayer_gbrg8": (mosaic("gbrg"), cv2.cvtColor(mosaic("gbrg"), cv2.COLOR_BayerGR2BGR)),
    "bayer_grbg8": (mosaic("grbg"), cv2.cvtColor(mosaic("grbg"), cv2.COLOR_BayerGB2BGR)),
}
TABLE |= {
    f"bayer_{name}16": (sixteen(TABLE[f"bayer_{name}8"][0]), TABLE[f"bayer_{name}8"][1])
    for name in ("rggb", "bggr", "gbrg", "grbg")
}


def height_of(encoding, pixels):
    return len(pixels) * 2 // 3 if encoding.startswith("nv") else len(pixels)


def test_the_table_is_complete():
    assert TABLE.keys() == ENCODINGS.keys()


@pytest.mark.parametrize("big", [0, 1])
@pytest.mark.parametrize("pad", [0, 2, 6])
@pytest.mark.parametrize("encoding", TABLE)
def test_every_encoding_step_and_byte_order(encoding, pad, big):
    pixels, expected = TABLE[encoding]
    sent = message(pixels, encoding, pad=pad, big=big, height=height_of(encoding, pixels))
    image = image_from(sent)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("encoding", [name for name in TABLE if name.startswith("bayer")])
def test_bayer_patterns_give_the_colors_of_the_scene(encoding):
    # Against the scene itself: the constants' names are easy to confuse.
    image = image_from(message(TABLE[encoding][0], encoding))
    difference = image[2:-2, 2:-2].astype(int) - SMOOTH[2:-2, 2:-2]
    assert np.abs(difference).max() <= 4


def test_bgr8_is_not_copied():
    sent = message(BGR, "bgr8", pad=3)
    image = image_from(sent)
    sent.data[0] ^= 0xFF
    assert image[0, 0, 0] == BGR[0, 0, 0] ^ 0xFF


@pytest.mark.parametrize("kind", [bytes, lambda data: np.frombuffer(data, np.uint8), bytearray])
def test_data_of_any_kind(kind):
    sent = message(BGR, "bgr8")
    sent.data = kind(sent.data.tobytes())
    np.testing.assert_array_equal(image_from(sent), BGR)


def test_a_step_of_zero_means_rows_without_padding():
    np.testing.assert_array_equal(image_from(message(BGR, "bgr8", step=0)), BGR)


def test_the_last_row_needs_no_padding():
    sent = message(BGR, "bgr8", pad=5)
    sent.data = sent.data[:-5]
    np.testing.assert_array_equal(image_from(sent), BGR)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"height": 0}, "at least 1 x 1 pixel is needed, found 10 x 0"),
        ({"width": 0}, "at least 1 x 1 pixel is needed, found 0 x 6"),
        ({"step": 29}, "rows of at least 30 bytes are needed for 10 pixels of bgr8"),
        ({"data": b""}, "180 bytes are needed for 10 x 6 bgr8 with a step of 30, found 0"),
        ({"data": bytes(179)}, "found 179"),
        ({"height": 2**22}, "bytes are needed"),
        ({"height": 2**31}, r"at most 50000000 pixels \(max_image_pixels\) is needed, found 10 x"),
        ({"encoding": "yuv422", "width": 9, "step": 18}, "yuv422 needs an even width"),
        ({"encoding": "nv12", "height": 5}, "nv12 needs an even height"),
        ({"encoding": "bayer_rggb8", "height": 1}, "bayer_rggb8 needs at least 2 x 2 pixels"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, words):
    with pytest.raises(InputError, match=words) as refused:
        image_from(message(BGR, **{"encoding": "bgr8", "height": 6, "width": 10, **changes}))
    assert not isinstance(refused.value, UnknownEncodingError)


@pytest.mark.parametrize("encoding", ["", "BGR8", "jpeg", "16UC", "C1"])
def test_an_unknown_encoding_is_named(encoding):
    with pytest.raises(UnknownEncodingError, match=f"bgr8.*found encoding '{encoding}'"):
        image_from(message(BGR, encoding))


@pytest.mark.parametrize(
    ("encoding", "meaning"),
    [
        ("16UC1", "depth in millimetres"),
        ("32FC1", "depth in metres"),
        *[
            (f"{kind}C{n}", "numbers")
            for kind in ("8S", "16S", "32S", "32F", "64F")
            for n in (2, 4)
        ],
    ],
)
def test_numbers_are_no_picture(encoding, meaning):
    words = f"found encoding '{encoding}', which is {meaning}"
    with pytest.raises(UnknownEncodingError, match=words):
        image_from(message(BGR, encoding))


def compressed(data, form="jpeg"):
    return SimpleNamespace(format=form, data=array("B", data))


@pytest.mark.parametrize("form", ["png", "bgr8; png compressed bgr8"])
def test_png_is_exact(form):
    sent = compressed(cv2.imencode(".png", BGR)[1].tobytes(), form)
    np.testing.assert_array_equal(image_from_compressed(sent), BGR)
    np.testing.assert_array_equal(any_image(sent), BGR)


def test_jpeg_is_what_opencv_reads():
    data = cv2.imencode(".jpg", SMOOTH)[1]
    expected = cv2.imdecode(data, cv2.IMREAD_COLOR)
    sent = compressed(data.tobytes(), "rgb8; jpeg compressed bgr8")
    np.testing.assert_array_equal(image_from_compressed(sent), expected)


def test_gray_images_become_bgr():
    sent = compressed(cv2.imencode(".png", GRAY)[1].tobytes(), "mono8; png compressed mono8")
    np.testing.assert_array_equal(image_from_compressed(sent), FROM_GRAY)


@pytest.mark.parametrize("data", [b"", b"no image", cv2.imencode(".png", BGR)[1].tobytes()[:40]])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(InputError, match=f"JPEG or PNG is needed, found {len(data)} bytes"):
        image_from_compressed(compressed(data))


def test_depth_images_are_refused():
    with pytest.raises(UnknownEncodingError, match="found a depth image"):
        image_from_compressed(compressed(b"", "16UC1; compressedDepth png"))


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_the_limit_of_pixels_is_exact(suffix):
    sent = compressed(cv2.imencode(suffix, BGR)[1].tobytes())
    for seen in (sent, message(BGR, "bgr8")):
        assert any_image(seen, 60).shape == BGR.shape
        with pytest.raises(InputError, match="at most 59 pixels .* found 10 x 6: let the camera"):
            any_image(seen, 59)


def test_what_is_too_large_is_never_decoded(monkeypatch):
    # A bomb: half a megabyte that would take a gigabyte.
    def decode(*_):
        raise AssertionError("decoded")

    data = cv2.imencode(".png", np.zeros((1, 1), np.uint8))[1].tobytes()
    bomb = data[:16] + (20000).to_bytes(4, "big") * 2 + data[24:]
    monkeypatch.setattr(cv2, "imdecode", decode)
    with pytest.raises(InputError, match="found 20000 x 20000"):
        image_from_compressed(compressed(bomb))
    # Whatever says not how large it is, before it is decoded.
    for suffix in (".bmp", ".tiff", ".ppm"):
        other = cv2.imencode(suffix, BGR)[1].tobytes()
        with pytest.raises(InputError, match="a JPEG or PNG is needed"):
            image_from_compressed(compressed(other))
