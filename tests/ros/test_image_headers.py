"""Sizes by header against OpenCV's decoder, and headers that are cut, damaged or lie."""

from resource import RUSAGE_SELF, getrusage

import cv2
import numpy as np
import pytest

from tvm_vision_ros.image_headers import size_of

PROGRESSIVE = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_RST_INTERVAL, 1]
FILES = [(".png", []), (".jpg", []), (".jpg", PROGRESSIVE)]


def encoded(suffix, options, height=37, width=301, channels=3):
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, channels), np.uint8)
    return cv2.imencode(suffix, pixels, options)[1].tobytes()


def found(data):
    return size_of(memoryview(data))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("suffix", "options"), FILES)
def test_the_size_is_what_the_decoder_says(suffix, options, channels):
    for height, width in ((1, 1), (37, 301), (301, 37)):
        data = encoded(suffix, options, height, width, channels)
        assert found(data) == (width, height)


@pytest.mark.parametrize("before", [b"", b"\xff" * 5, b"\xff\xe1\x00\x08Exif..", b"\xff\x01"])
def test_segments_before_the_size_are_passed(before):
    data = encoded(".jpg", [])
    assert found(data[:2] + b"\xff\xe1\x10\x00" + bytes(0x0FFE) + before + data[2:]) == (301, 37)


@pytest.mark.parametrize(("suffix", "options"), FILES)
def test_cut_anywhere_it_is_the_size_or_none(suffix, options):
    data = encoded(suffix, options, 5, 7)
    sizes = [found(data[:end]) for end in range(len(data) + 1)]
    assert set(sizes) == {None, (7, 5)}
    assert sizes == sorted(sizes, key=bool)


@pytest.mark.parametrize(("suffix", "options"), FILES)
def test_damage_is_no_accident_of_ours(suffix, options):
    """What the decoder makes is as large as it was found to be, and takes no memory beside it."""
    data = encoded(suffix, options, 5, 7)
    random = np.random.default_rng(2)
    before = getrusage(RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        broken = bytearray(data)
        for place in random.integers(2, min(len(data), 200), 3):
            broken[place] = random.integers(256)
        size = found(bytes(broken))
        if size is None or size[0] * size[1] > 1e6:
            continue
        image = cv2.imdecode(np.frombuffer(bytes(broken), np.uint8), cv2.IMREAD_COLOR)
        if image is not None:
            assert image.shape[0] * image.shape[1] == size[0] * size[1]
    # OpenCV has had 2.8 GB for a chunk that claimed them.
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 100e3  # kB


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM" + bytes(60)])
def test_what_is_neither_has_no_size(data):
    assert found(data) is None
