"""Inputs from files and fill modes, checked against what a network wants."""

import numpy as np
import pytest

from tvm_vision.errors import InputError
from tvm_vision.package import TensorInfo
from tvm_vision.runtime.inputs import check_inputs, filled, load_arrays, save_arrays

SPECS = [
    TensorInfo("image", (1, 3, 2, 2), "float32", "NCHW"),
    TensorInfo("index", (4,), "int64"),
    TensorInfo("mask", (4,), "bool"),
    TensorInfo("half", (), "float16"),
    TensorInfo("brain", (2,), "bfloat16"),
]


@pytest.mark.parametrize("mode", ["random", "zeros", "ones"])
def test_filled_arrays_fit(mode):
    arrays = filled(SPECS, mode)
    assert check_inputs(arrays, SPECS) == []
    if mode != "random":
        assert {float(array.min()) for array in arrays.values()} == {float(mode == "ones")}


def test_random_values_stay_in_range_and_are_always_the_same():
    arrays = filled([TensorInfo("x", (1000,), "float32")], "random")
    assert 0 <= arrays["x"].min() < 0.1
    assert 0.9 < arrays["x"].max() < 1
    again = filled([TensorInfo("x", (1000,), "float32")], "random")
    np.testing.assert_array_equal(arrays["x"], again["x"])


def test_an_unknown_fill_mode():
    with pytest.raises(InputError, match="a fill mode of random, zeros, ones is needed"):
        filled(SPECS, "noise")


def test_all_problems_are_in_one_line():
    arrays = filled(SPECS[:2], "zeros") | {"extra": np.zeros(1)}
    arrays["index"] = np.zeros(3, np.int32)
    with pytest.raises(InputError) as caught:
        check_inputs(arrays, SPECS[:3])
    assert str(caught.value) == (
        "the inputs image: float32[1, 3, 2, 2]; index: int64[4]; mask: bool[4] are needed, and "
        "'extra' is not among them, 'index' is int32[3], 'mask' is missing"
    )


def test_nan_and_infinity_are_noted():
    arrays = filled(SPECS, "zeros")
    arrays["image"][0, 0] = [[np.nan, np.inf], [-np.inf, 0]]
    assert check_inputs(arrays, SPECS) == [
        "input 'image' has 3 values that are NaN or infinite of 12"
    ]


def test_arrays_come_back_from_a_file(tmp_path):
    arrays = {"a/b": np.arange(3), "c": np.array([1.5], np.float16)}
    save_arrays(tmp_path / "new" / "x.npz", arrays)
    loaded = load_arrays(tmp_path / "new" / "x.npz")
    assert sorted(loaded) == ["a/b", "c"]
    np.testing.assert_array_equal(loaded["c"], arrays["c"])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.npz"]


def test_a_single_array_needs_a_name(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(InputError, match="has one unnamed array"):
        load_arrays(tmp_path / "x.npy")
