"""Results check themselves when they are made."""

import pytest

from tvm_vision.models.results import Classification


def test_iterates_over_labels_and_probabilities():
    result = Classification((3, 1), ("cat", "dog"), (0.75, 0.25))
    assert len(result) == 2
    assert list(result) == [("cat", 0.75), ("dog", 0.25)]


def test_may_be_empty():
    assert list(Classification((), (), ())) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((1, 2), ("a",), (0.5, 0.5)), "expected 2 labels, one for each class_id, got 1"),
        (((1,), ("a",), (0.5, 0.5)), "expected 1 probabilities, one for each class_id, got 2"),
        (((-1,), ("a",), (0.5,)), "expected class_ids of at least 0, got -1"),
        (((1, 1), ("a", "b"), (0.5, 0.5)), r"without repetition, got \(1, 1\)"),
        (((1,), ("a",), (1.5,)), r"expected probabilities in 0\.\.1, got 1.5"),
        (((1,), ("a",), (float("nan"),)), r"expected probabilities in 0\.\.1, got nan"),
        (((1, 2), ("a", "b"), (0.2, 0.8)), "expected falling probabilities"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        Classification(*fields)
