"""The k largest within a workgroup, by a sort and by digits, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from support.compiled import executor_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax import top_k
from tvm_vision.compiler.relax.top_k import MOST_SORTED
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.topi.radix_sort import BLOCK, MOST_PARTS
from tvm_vision.topi.top_k_in_group import LONGEST, MOST_TAKEN

pytestmark = pytest.mark.usefixtures("device_info")
DTYPES = ("float32", "int32", "uint8")


def of_each_type(shapes):
    """Cases: each shape of one type and one order by default, of all in the full run: lengths and
    types are apart in the kernels."""
    cases = []
    for number, shape in enumerate(shapes):
        for place, dtype in enumerate(DTYPES):
            for largest in (1, 0):
                quick = (place - number) % len(DTYPES) == 0 and largest == number % 2
                marks = [] if quick else [pytest.mark.slow]
                cases.append(pytest.param(*shape, dtype, largest, marks=marks))
    return cases


@pytest.fixture(autouse=True)
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is ranked because there are so many units, as of what the tests run on."""
    monkeypatch.setattr(top_k, "RANKED", 0)


def model_of(shape, k, axis=-1, largest=1, dtype="float32", before=None):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node(before, ["x"], ["s"])] if before else []
    read = "s" if before else "x"
    nodes.append(
        helper.make_node("TopK", [read, "k"], ["v", "i"], axis=axis, largest=largest, sorted=1)
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, shape)],
        [
            helper.make_tensor_value_info("v", element, None),
            helper.make_tensor_value_info("i", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(np.array([k], np.int64), "k")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled_of(model, **options):
    return compile_model(*import_onnx(model), target="vulkan", **options)


def found_of(model, x, **options):
    return results_of(compiled_of(model, **options), x)


def results_of(compiled, x):
    executor = executor_of(compiled, tvm.device("vulkan"))
    executor.run(x=x)
    return [executor.get_output(number).numpy() for number in (0, 1)]


def wanted(x, k, axis, largest):
    """Of equal ones the first come first."""
    order = np.argsort(-x.astype("float64") if largest else x, axis=axis, kind="stable")
    places = np.take(order, range(k), axis=axis)
    return np.take_along_axis(x, places, axis=axis), places


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    axis=st.integers(0, 2),
    share=st.floats(0.01, 1),
    largest=st.booleans(),
    dtype=st.sampled_from(["float32", "int32", "int8", "uint8"]),
    seed=st.integers(0, 2**16),
)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_k_of_any_axis_equals_numpy(shape, axis, share, largest, dtype, seed):
    axis %= len(shape)
    k = max(1, int(share * shape[axis]))
    random = np.random.default_rng(seed)
    x = random.integers(0, 6, shape).astype(dtype)  # many are equal
    if dtype == "float32":
        x = (x - 3) * np.float32(0.7)
    found = found_of(model_of(shape, k, axis, int(largest), dtype), x)
    for one, other in zip(found, wanted(x, k, axis, largest), strict=True):
        np.testing.assert_array_equal(one, other)


def test_long_rows_with_every_kind_of_number():
    x = np.random.default_rng(1).standard_normal((2, 2100)).astype("float32")
    x[:, ::7] = x[:, :1]
    x[0, :6] = [0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45]
    for largest in (1, 0):
        values, places = found_of(model_of((2, 2100), 300, largest=largest), x)
        expected, order = wanted(x, 300, 1, largest)
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(places, order)


def test_a_nan_takes_one_place_and_nothing_else():
    x = np.array([[1, np.nan, 3, 2, np.nan, -1]], "float32")
    values, places = found_of(model_of((1, 6), 6), x)
    assert sorted(places[0]) == list(range(6))
    np.testing.assert_array_equal(values[0][2:], [3, 2, 1, -1])


def test_scores_that_are_one_in_fp16_keep_their_order():
    """Sigmoids near 1: half precision has four numbers between 0.998 and 1."""
    logits = np.random.default_rng(2).uniform(7, 9, (1, 500)).astype("float32")
    _, places = found_of(model_of((1, 500), 100, before="Sigmoid"), logits, precision="fp16")
    scores = 1 / (1 + np.exp(-logits.astype("float64")))
    # The last digits of a float32 may be equal where those of the reference are not.
    np.testing.assert_allclose(
        scores[0][places[0]], np.sort(scores[0])[::-1][:100], rtol=0, atol=2e-7
    )


@pytest.mark.parametrize(
    ("rows", "count", "k", "dtype", "largest"),
    of_each_type(
        [
            (3, 2, 2),
            (2, 63, 9),
            (2, 65, 64),
            (3, 1000, 5),
            (2, 1025, 300),
            (1, 8400, 1000),
            (9, 130, 1),
        ]
    ),
)
def test_a_workgroup_finds_what_numpy_does(rows, count, k, dtype, largest):
    """Many are equal to the k-th, on both sides of the steps of threads and places."""
    random = np.random.default_rng(count)
    x = random.integers(0, 1 + count // 9, (rows, count)).astype(dtype)
    if dtype == "float32":
        x = (x - count // 20) * np.float32(0.37)
        x[:, ::7] *= -1
        x[0, ::5], x[0, 1::9] = np.inf, -np.inf
    if dtype == "int32":
        x[0, ::3], x[0, 1::3] = np.iinfo("int32").min, np.iinfo("int32").max
    found = found_of(model_of((rows, count), k, largest=largest, dtype=dtype), x)
    expected = wanted(x.astype("int64") if dtype == "int32" else x, k, 1, largest)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_longest_row_of_a_workgroup():
    x = np.random.default_rng(4).integers(0, 9000, (1, LONGEST)).astype("float32")
    compiled = compiled_of(model_of((1, LONGEST), MOST_TAKEN))
    assert any("topk_in_group" in each["function"] for each in compiled.graph["kernels"])
    for one, other in zip(results_of(compiled, x), wanted(x, MOST_TAKEN, 1, 1), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("count", "kernel", "calls", "functions"),
    [
        (LONGEST, "topk_in_group", 1, 1),
        (LONGEST + 1, "sort_sorted_by", 8, 2),
        (MOST_SORTED + 1, "topk_counts_of_digits", 8, 1),
    ],
)
def test_long_rows_are_sorted_and_longer_ones_searched_by_digits(count, kernel, calls, functions):
    """By as few functions as differ: of a sort the first digit has no places before."""
    compiled = compiled_of(model_of((1, count), 5))
    called = [each["function"] for each in compiled.graph["kernels"]]
    called = [function for function in called if kernel in function]
    assert (len(called), len(set(called))) == (calls, functions)
    x = np.random.default_rng(3).random((1, count), "float32")
    for one, other in zip(results_of(compiled, x), wanted(x, 5, 1, True), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("rows", "count", "k", "dtype", "largest"),
    of_each_type([(1, 4096, 4096), (2, 4097, 1), (3, 9000, 700), (1, 20000, 3000)]),
)
def test_digits_find_what_numpy_does(rows, count, k, dtype, largest, monkeypatch):
    """Rows whose k-th has many equals, in several parts, of which the first are taken."""
    monkeypatch.setattr(top_k, "MOST_COMPARED", rows * k**2)
    monkeypatch.setattr(top_k.in_group, "fits", lambda count, k: False)
    monkeypatch.setattr(top_k, "MOST_SORTED", 0)
    random = np.random.default_rng(count)
    x = random.integers(0, 200, (rows, count)).astype(dtype)
    if dtype == "float32":
        x = (x - 100) * np.float32(0.37)
        x[:, 5::977] = np.inf
        x[:, 7::1201] = -np.inf
    if dtype == "int32":
        x = x * 10_000_019 - 1_000_000_000
    found = found_of(model_of((rows, count), k, largest=largest, dtype=dtype), x)
    for one, other in zip(found, wanted(x, k, 1, largest), strict=True):
        np.testing.assert_array_equal(one, other)


def numbers(shape, dtype, seed):
    """Many equal ones, on both sides of zero where there is one, and what is no finite number."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 200, shape)
    if dtype != "uint8":
        x = x - 100
    if dtype == "int32":
        x = x * 10_000_019
    x = x.astype(dtype)
    if dtype.startswith("float"):
        x = x * x.dtype.type(0.37)
        for place, value in enumerate([np.inf, -np.inf, 0.0, -0.0, 6e-8]):
            x[:, place::97] = value
    return x


SORTED = [  # a type, a length, and which come first
    *[("float32", count, largest) for count in (1, 1025) for largest in (1, 0)],
    ("float32", 129, 0),
    ("float32", 20_000, 1),
    ("float16", 129, 0),
    ("int32", 129, 1),
    ("int8", 129, 0),
    ("uint8", 129, 0),
]
MORE_SORTED = [
    (dtype, count, largest)
    for dtype in ("float32", "float16", "int32", "int8", "uint8")
    for count in (1, 2, 127, 129, 1024, 1025, 20_000)
    for largest in (1, 0)
    if (dtype, count, largest) not in SORTED
]


@pytest.mark.parametrize(
    ("dtype", "count", "largest"),
    [*SORTED, *[pytest.param(*case, marks=pytest.mark.slow) for case in MORE_SORTED]],
)
def test_a_sort_keeps_the_order_of_equal_ones(dtype, count, largest, monkeypatch):
    monkeypatch.setattr(top_k.in_group, "fits", lambda count, k: False)
    rows = 1 if count > 1025 else 3
    x = numbers((rows, count), dtype, count)
    found = found_of(model_of((rows, count), count, largest=largest, dtype=dtype), x)
    for one, other in zip(found, wanted(x.astype("float64"), count, 1, largest), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sort_of_parts_that_have_several_blocks():
    """Along the first axis, two columns of so many that a workgroup takes more than one block."""
    count = MOST_PARTS * BLOCK + 5000
    x = np.ascontiguousarray(numbers((2, count), "uint8", 4).T)
    values, places = found_of(model_of((count, 2), count, 0, 1, "uint8"), x)
    expected, order = wanted(x, count, 0, True)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, expected)


def test_a_sort_puts_nan_beyond_infinity(monkeypatch):
    monkeypatch.setattr(top_k.in_group, "fits", lambda count, k: False)
    x = np.array([[1, np.nan, np.inf, 2, np.nan, -np.inf]], "float32")
    for largest, order in ((1, [1, 4, 2, 3, 0, 5]), (0, [5, 0, 3, 2, 1, 4])):
        _, places = found_of(model_of((1, 6), 6, largest=largest), x)
        assert places[0].tolist() == order


def test_the_first_of_a_sort_are_taken(monkeypatch):
    monkeypatch.setattr(top_k.in_group, "fits", lambda count, k: False)
    x = numbers((2, 40), "float32", 7)
    compiled = compiled_of(model_of((2, 40), 11))
    assert any("sort" in kernel["function"] for kernel in compiled.graph["kernels"])
    for one, other in zip(results_of(compiled, x), wanted(x, 11, 1, True), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("rows", "count"), [(1, 300), (3, 1000), (2, 4097)])
def test_short_rows_are_ranked_where_there_are_many_units(rows, count, monkeypatch):
    monkeypatch.setattr(top_k, "RANKED", 1 << 30)
    x = numbers((rows, count), "float32", count)
    compiled = compiled_of(model_of((rows, count), 50))
    assert any("ranks" in kernel["function"] for kernel in compiled.graph["kernels"])
    for one, other in zip(results_of(compiled, x), wanted(x, 50, 1, True), strict=True):
        np.testing.assert_array_equal(one, other)
