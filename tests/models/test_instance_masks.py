"""Masks of objects are kept in parts, and are whole to who looks at them."""

import numpy as np
import pytest

from tvm_vision.models.instance_masks import InstanceMasks


@pytest.fixture
def dense():
    masks = np.random.default_rng(0).random((5, 20, 30)) > 0.7
    masks[0] = False
    masks[1] = True
    masks[2, :, :12] = masks[2, :15] = False
    return masks


def test_whole_masks_are_what_they_were_made_of(dense):
    masks = InstanceMasks.from_dense(dense)
    assert len(masks) == 5 and masks.shape == (20, 30)
    assert np.array_equal(np.asarray(masks), dense)
    assert all(np.array_equal(masks[index], dense[index]) for index in range(-5, 5))
    assert [np.array_equal(mask, same) for mask, same in zip(masks, dense, strict=True)] == 5 * [1]
    # Only what can be set is kept.
    assert masks.crops[0].size == 0 and masks.crops[2].shape[0] <= 5
    assert np.asarray(masks, np.uint8).dtype == np.uint8


def test_a_selection(dense):
    masks = InstanceMasks.from_dense(dense)
    assert np.array_equal(np.asarray(masks.select([3, 1])), dense[[3, 1]])
    assert np.asarray(masks.select([])).shape == (0, 20, 30)


def test_ids_of_the_best(dense):
    ids = InstanceMasks.from_dense(dense).ids()
    # By plain loops: of the masks that hold a pixel the first one.
    for row in range(20):
        for column in range(30):
            holding = [index for index in range(5) if dense[index, row, column]]
            assert ids[row, column] == (holding[0] + 1 if holding else 0)


@pytest.mark.parametrize(
    ("crop", "corner", "message"),
    [
        (np.ones((2, 2), np.uint8), (0, 0), r"crops of bool \[n, n\], got uint8"),
        (np.ones((2, 2), np.bool_), (3, 0), "crops within 4x4, got 2x2 at 3, 0"),
        (np.ones((2, 2), np.bool_), (0, -1), "crops within 4x4"),
        (np.ones((5, 1), np.bool_), (0, 0), "crops within 4x4, got 5x1"),
    ],
)
def test_refuses(crop, corner, message):
    with pytest.raises(ValueError, match=message):
        InstanceMasks((crop,), np.array([corner], np.int32), (4, 4))
    with pytest.raises(ValueError, match=r"corners of int32 \[1, 2\], got int32 \[2, 2\]"):
        InstanceMasks((crop,), np.zeros((2, 2), np.int32), (4, 4))


def test_a_stack_that_is_too_large_is_refused():
    crops = tuple(np.zeros((0, 0), np.bool_) for _ in range(2**12))
    masks = InstanceMasks(crops, np.zeros((2**12, 2), np.int32), (1024, 1024))
    with pytest.raises(ValueError, match="take them one by one"):
        np.asarray(masks)
