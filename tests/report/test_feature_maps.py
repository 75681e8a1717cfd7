"""What a layer computes as pictures."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.report.feature_maps import MOST_CHANNELS, pictures_of, write_pictures

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    "shape",
    [(1, 8, 5, 7), (3, 8, 5, 7), (4, 6, 6), (9, 40), (1, 1000), (12,), (), (1, 700, 2, 2)],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_tensors_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    tensor = (RANDOM.random(shape) * 100).astype(dtype)
    found = pictures_of(tensor, tensor)
    assert found.ours.dtype == np.uint8 and found.ours.ndim == 3
    assert found.ours.shape == found.reference.shape == found.difference.shape
    assert np.array_equal(found.ours, found.reference)
    assert max(found.ours.shape) < 4096
    assert "difference 0.00e+00" in found.words


def test_a_place_that_differs_is_seen() -> None:
    ours = RANDOM.random((1, 4, 64, 64))
    reference = ours.copy()
    ours[0, 2, 10, 20] += 5.0
    found = pictures_of(ours, reference)
    changed = np.argwhere((found.difference != found.difference[0, 0]).any(axis=2))
    inner = [(y, x) for y, x in changed if (found.difference[y, x] != 255).any()]
    # Two channels in a row, 64 pixels each and a gap of 2: the third is the first of the second.
    assert inner == [(64 + 2 + 10, 20)]
    assert not np.array_equal(found.ours, found.reference)


def test_a_channel_of_small_values_is_seen_beside_one_of_large_ones() -> None:
    """Each channel has the colours of its own range, but for one that hardly varies."""
    ramp = np.linspace(0, 1, 64 * 64).reshape(64, 64)
    found = pictures_of(*(np.stack([1000 * ramp, 20 * ramp, 1e-3 * ramp, 0 * ramp])[None],) * 2)
    large, small = found.ours[:64, :64], found.ours[:64, 66:]
    assert np.array_equal(large, small)
    for dull in (found.ours[66:, :64], found.ours[66:, 66:]):
        assert len(np.unique(dull.reshape(-1, 3), axis=0)) <= 2
    assert "values from 0 to 1000" in found.words


def test_what_is_no_number_is_white() -> None:
    ours = np.full((1, 1, 64, 64), np.nan)
    found = pictures_of(ours, np.linspace(0, 1, 64 * 64).reshape(ours.shape))
    assert (found.ours == 255).all() and not (found.reference == 255).all()


def test_of_many_channels_the_first() -> None:
    many = pictures_of(*(np.ones((1, 2 * MOST_CHANNELS, 48, 48)),) * 2)
    few = pictures_of(*(np.ones((1, MOST_CHANNELS, 48, 48)),) * 2)
    assert many.ours.shape == few.ours.shape


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (0,)])
def test_what_cannot_be_compared(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="two tensors of one shape"):
        pictures_of(np.ones(shape), np.ones((1, 2, 4, 3) if shape[0] else shape))


def test_pictures_are_written(tmp_path: Path) -> None:
    tensor = RANDOM.random((1, 3, 8, 8))
    found = pictures_of(tensor, tensor + 1)
    paths = write_pictures(found, tmp_path / "new", "layer")
    assert [path.name for path in paths] == [
        "layer-ours.png", "layer-reference.png", "layer-difference.png"
    ]  # fmt: skip
    for path in paths:
        read = cv2.imread(str(path))
        assert read is not None
        assert np.array_equal(read, getattr(found, path.stem.split("-")[1]))
