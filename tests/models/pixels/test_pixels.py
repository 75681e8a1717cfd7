"""Classes and depth of each pixel, from outputs of any size to the frame, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support import decoding_reference as reference
from support.fake_executor import FakeExecutor
from tvm_vision.errors import InputError
from tvm_vision.models.pixels.depth import DepthEstimator
from tvm_vision.models.pixels.segmenter import Segmenter
from tvm_vision.package import DepthInfo, ModelInfo, Preprocessing, SegmentationInfo

SIZE = (32, 48)
FRAME = (25, 30)
NAMES = ("background", "field", "line", "goal")
STRETCH = Preprocessing(SIZE, stretch=True, std=(255.0,) * 3)
HOW = {
    "stretch": STRETCH,
    "middle": replace(STRETCH, stretch=False, letterbox=True),
    "corner": replace(STRETCH, stretch=False, letterbox=True, pad_corner=True),
}
IMAGE = np.zeros((*FRAME, 3), np.uint8)


def segmented(info, output, *, names=NAMES, how="stretch"):
    model = ModelInfo("n", "segmenter", names, HOW[how], segmentation=info)
    return Segmenter(FakeExecutor(model, {"y": output}))(IMAGE).segmentation  # type: ignore[arg-type]


def in_frame(plane, how):
    """A plane over the input at each pixel of the frame, one at a time."""
    place = reference.Place(FRAME, SIZE, how)
    rows, columns = plane.shape
    return np.array(
        [
            [
                reference.bilinear(
                    plane,
                    ((x + 0.5) / place.scale[0] + place.left) * columns / SIZE[1] - 0.5,
                    ((y + 0.5) / place.scale[1] + place.top) * rows / SIZE[0] - 0.5,
                )
                for x in range(FRAME[1])
            ]
            for y in range(FRAME[0])
        ]
    )


def smooth(*shape, seed=0):
    """Values that bend slowly over the last two axes."""
    coarse = np.random.default_rng(seed).normal(0, 1, (*shape[:-2], 2, 3))
    rows = np.linspace(0, 1, shape[-2])[:, None]
    columns = np.linspace(0, 2, shape[-1])
    waves = [
        coarse[..., i, j][..., None, None] * np.cos(rows * (i + 1) + columns * j + i)
        for i in range(2)
        for j in range(3)
    ]
    return sum(waves).astype(np.float32)


@pytest.mark.parametrize("how", list(HOW))
@pytest.mark.parametrize("stride", [1, 4, 8])
@pytest.mark.parametrize("channels_last", [False, True])
def test_scores_at_any_stride(how, stride, channels_last):
    scores = smooth(1, 4, SIZE[0] // stride, SIZE[1] // stride)
    output = scores.transpose(0, 2, 3, 1) if channels_last else scores
    found = segmented(SegmentationInfo("y", channels_last=channels_last), output, how=how)
    planes = np.stack([in_frame(plane, how) for plane in scores[0]])
    best = np.sort(planes, axis=0)
    # OpenCV's weights are of 32 steps: where two classes are alike it may decide otherwise.
    clear = best[-1] - best[-2] > 0.05
    assert found.class_names == NAMES and found.mask.shape == FRAME
    assert np.array_equal(found.mask[clear], planes.argmax(axis=0)[clear])
    assert clear.mean() > 0.5 and len(np.unique(found.mask)) > 1


def test_one_class_alone():
    scores = np.zeros((1, 4, 8, 12), np.float32)
    scores[:, 2] = 1
    assert (segmented(SegmentationInfo("y"), scores).mask == 2).all()


@pytest.mark.parametrize("shape", [SIZE, (1, *SIZE), (1, 1, *SIZE), (1, *SIZE, 1), (1, 8, 12)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32"])
def test_indices(shape, dtype):
    plane = np.random.default_rng(1).integers(0, 4, [s for s in shape if s > 1]).astype(dtype)
    found = segmented(SegmentationInfo("y", form="indices"), plane.reshape(shape))
    rows, columns = plane.shape
    for y in range(FRAME[0]):
        for x in range(FRAME[1]):
            row, column = (y + 0.5) * rows / FRAME[0], (x + 0.5) * columns / FRAME[1]
            # In the middle between two, either is the nearest.
            ends = [(int(v - 1e-6), int(v + 1e-6)) for v in (row, column)]
            nearest = {plane[i, j] for i in ends[0] for j in ends[1]}
            assert found.mask[y, x] in nearest


def test_one_value_for_each_pixel():
    plane = smooth(1, 1, 16, 24)
    info = SegmentationInfo("y", form="logit", threshold=0.25)
    found = segmented(info, plane, names=("other", "road"), how="middle")
    values = in_frame(plane[0, 0], "middle")
    clear = np.abs(values - 0.25) > 0.03
    assert np.array_equal(found["road"][clear], (values > 0.25)[clear]) and clear.mean() > 0.8


def test_outputs_that_make_no_sense():
    with pytest.raises(InputError, match="classes of 0 to 3 are needed.*found 0 to 9"):
        segmented(SegmentationInfo("y", form="indices"), np.eye(8, dtype=np.int64)[None] * 9)
    nan = np.full((1, 4, 8, 12), np.nan, np.float32)
    with pytest.raises(InputError, match="found NaN in 96 of 96"):
        segmented(SegmentationInfo("y"), nan)


@pytest.mark.parametrize("how", list(HOW))
@pytest.mark.parametrize("shape", [(1, 16, 24), (1, 1, 16, 24), (1, *SIZE)])
def test_depth(how, shape):
    plane = smooth(*shape)
    info = DepthInfo("y", unit="metres", inverse=True)
    model = ModelInfo("n", "depth", (), HOW[how], depth=info)
    found = DepthEstimator(FakeExecutor(model, {"y": plane}))(IMAGE).depth  # type: ignore[arg-type]
    assert (found.unit, found.inverse) == ("metres", True)
    expected = in_frame(plane.reshape(shape[-2:]), how)
    assert found.values == pytest.approx(expected, abs=0.03)


def test_what_networks_say_of_themselves():
    info = SegmentationInfo("y")
    model = ModelInfo("n", "segmenter", NAMES, STRETCH, segmentation=info)
    ours = Segmenter(FakeExecutor(model, {"y": smooth(1, 4, 8, 12)}))  # type: ignore[arg-type]
    assert (ours.kind, ours.produces) == ("segmenter", ("segmentation",))
    assert ours.segmentation_names == NAMES and ours.class_names == ()
