"""Errors between two results, worked out by hand."""

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.evaluate import compare_outputs, tolerance_for
from tvm_vision.evaluate.compare import compare

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("ours", "reference", "max_abs", "max_rel", "equal", "argmax"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, 0.0, 1.0, 1.0),
        ([1.0, 2.5], [1.0, -2.0], 4.5, 2.25, 0.5, 0.0),
        ([[1, 0], [0, 1]], [[1, 0], [1, 0]], 1.0, 1.0, 0.5, 0.5),
        ([0.0, 0.0], [0.0, 0.0], 0.0, 0.0, 1.0, 1.0),
        ([0.5], [0.0], 0.5, 0.5, 0.0, None),
        ([NAN, 1.0], [NAN, 1.0], 0.0, 0.0, 1.0, 1.0),
        ([NAN, 1.0], [1.0, 1.0], INF, INF, 0.5, 1.0),
        ([INF, 1.0], [INF, 1.0], 0.0, 0.0, 1.0, 1.0),
        ([INF, 1.0], [-INF, 1.0], INF, INF, 0.5, 0.0),
        ([], [], 0.0, 0.0, 1.0, None),
    ],
)
def test_compare(ours, reference, max_abs, max_rel, equal, argmax):
    error = compare("y", np.array(ours, np.float32), np.array(reference, np.float32))
    assert (error.max_abs, error.max_rel) == (max_abs, max_rel)
    assert (error.equal, error.argmax_agreement) == (equal, argmax)
    assert error.within(1e-3) is (max_rel <= 1e-3)


def test_integers_are_judged_by_the_share_that_differs():
    ours, reference = np.zeros(1000, np.uint8), np.zeros(1000, np.uint8)
    ours[3] = 200
    error = compare("mask", ours, reference)
    assert error.within(2e-3)
    assert not error.within(1e-4)


def test_other_names_and_shapes_are_refused():
    with pytest.raises(InputError, match="the same outputs are needed of both, found a and b"):
        compare_outputs({"a": np.zeros(1)}, {"b": np.zeros(1)})
    with pytest.raises(InputError, match=r"'a' must be \[2\] as onnxruntime has it, found \[1\]"):
        compare_outputs({"a": np.zeros(1)}, {"a": np.zeros(2)})


def test_halves_may_be_further_off():
    assert tolerance_for("fp16") > tolerance_for("fp32")


def test_numbers_that_devices_flush_to_zero_are_zeros():
    tiny = np.array([1.7e-40, -2e-39], np.float32)
    found = compare("y", np.zeros(2, np.float32), tiny)
    assert (found.error, found.equal) == (0.0, 1.0)
    # The smallest with all bits is none of them.
    normal = np.array([1.2e-38], np.float32)
    assert compare("y", np.zeros(1, np.float32), normal).error == 1.0


def test_real_rows_alone_are_compared_and_their_number():
    """Ours has room for five rows of three, of which two are real."""
    reference = {"y": np.arange(6.0).reshape(2, 3)}
    padded = np.full((5, 3), -7.0)
    padded[:2] = reference["y"]
    right = compare_outputs({"y": padded, "y_count": np.array(2)}, reference)
    assert [(error.name, error.error) for error in right] == [("y", 0.0), ("y_count", 0.0)]
    assert right[0].shape == (2, 3)
    wrong = compare_outputs({"y": padded, "y_count": np.array(3)}, reference)
    assert [error.within(1e-3) for error in wrong] == [True, False]


def test_rows_of_two_axes_are_counted_by_axis():
    reference = {"y": np.ones((2, 1))}
    ours = {"y": np.pad(reference["y"], ((0, 3), (0, 4)))}
    counts = {"y_count_0": np.array(2), "y_count_1": np.array(1)}
    assert all(error.within(0) for error in compare_outputs(ours | counts, reference))


def test_no_rows_at_all():
    reference = {"y": np.ones((0, 4), np.float32)}
    ours = {"y": np.zeros((9, 4), np.float32), "y_count": np.array(0)}
    assert all(error.within(0) for error in compare_outputs(ours, reference))
    assert not compare_outputs(ours | {"y_count": np.array(1)}, reference)[1].within(1e-3)
