"""Scatters as gathers, against onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from support.compiled import executor_of
from support.covering import covering
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax import scatters
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")
OPSET = 18  # the first with every reduction
TARGETS = ("vulkan", "llvm")


def model_of(
    operator: str, data: Any, indices: Any, updates: Any, *, fixed: bool, **attributes: Any
) -> onnx.ModelProto:
    """One scatter; fixed: whether its indices are numbers in the file."""
    element = helper.np_dtype_to_tensor_dtype(data.dtype)
    inputs = [
        helper.make_tensor_value_info("data", element, data.shape),
        helper.make_tensor_value_info("updates", element, updates.shape),
    ]
    weights = [numpy_helper.from_array(indices, "indices")]
    if not fixed:
        weights = []
        inputs.append(helper.make_tensor_value_info("indices", TensorProto.INT64, indices.shape))
    node = helper.make_node(operator, ["data", "indices", "updates"], ["y"], **attributes)
    output = helper.make_tensor_value_info("y", element, data.shape)
    graph = helper.make_graph([node], "g", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def kernels_and_result(model: onnx.ModelProto, target: str, **inputs: Any) -> Any:
    compiled = compile_model(*import_onnx(model), target=target)
    executor = executor_of(compiled, tvm.device("vulkan" if target == "vulkan" else "cpu"))
    executor.run(**inputs)
    names = [kernel["function"] for kernel in compiled.graph["kernels"]]
    return names, executor.get_output(0).numpy()


def given_to(model: onnx.ModelProto, data: Any, indices: Any, updates: Any) -> dict[str, Any]:
    found = {"data": data, "updates": updates, "indices": indices}
    return {each.name: found[each.name] for each in model.graph.input}


def points(random: Any, places: list[int], repeated: bool) -> Any:
    """Indices of ScatterND: a grid, all places in some order, or some of them."""
    kind, count = random.choice(["grid", "all", "some"]), int(np.prod(places))
    if kind == "grid" and not repeated:
        axes = []
        for size in places:
            step, first = int(random.integers(1, 3)), int(random.integers(size))
            most = (size - 1 - first) // step + 1
            axes.append(first + step * np.arange(random.integers(1, most + 1)))
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    many = count if kind == "all" else int(random.integers(1, count + 1))
    flat = random.integers(0, count, many) if repeated else random.permutation(count)[:many]
    return np.stack(np.unravel_index(flat, places), -1)


def along(random: Any, shape: list[int], axis: int, repeated: bool) -> Any:
    """Indices of ScatterElements."""
    many = int(random.integers(1, shape[axis] + 1))
    rows = np.empty([*shape[:axis], *shape[axis + 1 :], many], np.int64)
    for row in np.ndindex(rows.shape[:-1]):
        draw = random.integers(0, shape[axis], many)
        rows[row] = draw if repeated else random.permutation(shape[axis])[:many]
    return np.moveaxis(rows, -1, axis)


def drawn(seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A scatter and what it is given. Updates of one place that replace each other are not drawn:
    ONNX leaves open which counts."""
    random = np.random.default_rng(seed)
    operator = random.choice(["ScatterND", "ScatterElements"])
    reduction = random.choice(["none", "none", "add", "mul", "min", "max"])
    repeated = reduction != "none" and random.random() < 0.4
    shape = [int(n) for n in random.integers(1, 7, random.integers(1, 5))]
    shape[int(random.integers(len(shape)))] = int(random.integers(1, 40))
    attributes: dict[str, Any] = {}
    if operator == "ScatterND":
        axes = int(random.integers(1, len(shape) + 1))
        indices, sizes = points(random, shape[:axes], repeated), np.array(shape[:axes])
        updates = [*indices.shape[:-1], *shape[axes:]]
    else:
        axis = int(random.integers(len(shape)))
        indices, sizes = along(random, shape, axis, repeated), np.array(shape[axis])
        updates, attributes["axis"] = list(indices.shape), axis
    if random.random() < 0.3:
        indices = np.where(random.random(indices.shape) < 0.5, indices - sizes, indices)
    if reduction != "none":
        attributes["reduction"] = str(reduction)
    dtype = random.choice(["float32", "int32"])
    numbers = [(3 * random.standard_normal(size)).astype(dtype) for size in (shape, updates)]
    data, indices = numbers[0], np.ascontiguousarray(indices, np.int64)
    fixed = bool(random.random() < 0.6)
    model = model_of(str(operator), data, indices, numbers[1], fixed=fixed, **attributes)
    return model, given_to(model, data, indices, numbers[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_any_scatter(seed: int, target: str) -> None:
    for number in range(3 * seed, 3 * seed + 3):
        model, inputs = drawn(number)
        expected = Reference(model).run(inputs)["y"]
        _, found = kernels_and_result(model, target, **inputs)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{number}")


@pytest.mark.parametrize(
    ("reduction", "fixed", "axis", "target"),
    covering(["none", "mul"], [True, False], [0, 1, 2], TARGETS),
)
def test_elements_of_a_part_of_the_rows(
    reduction: str, fixed: bool, axis: int, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As any others, without TVM's kernel, of which one thread writes all."""
    random = np.random.default_rng(axis)
    shape, part = [5, 16, 7], [3, 12, 4]
    indices = along(random, part, axis, repeated=reduction != "none")
    indices = indices - np.where(random.random(indices.shape) < 0.3, shape[axis], 0)
    data, updates = (random.standard_normal(s).astype("float32") for s in (shape, indices.shape))
    model = model_of(
        "ScatterElements", data, indices, updates, fixed=fixed, axis=axis, reduction=reduction
    )
    inputs = given_to(model, data, indices, updates)
    names, found = kernels_and_result(model, target, **inputs)
    np.testing.assert_allclose(found, Reference(model).run(inputs)["y"], rtol=1e-5, atol=1e-6)
    assert "scatter_elements" not in names
    assert "Warning" not in capfd.readouterr().err


@pytest.mark.parametrize("target", TARGETS)
def test_a_slice_that_is_assigned_needs_no_indices(target: str) -> None:
    data, updates = np.zeros((6, 9, 4), np.float32), np.ones((3, 4, 4), np.float32)
    indices = np.stack(np.meshgrid([1, 3, 5], [0, 1, 2, 3], indexing="ij"), -1).astype(np.int64)
    model = model_of("ScatterND", data, indices, updates, fixed=True)
    names, found = kernels_and_result(model, target, data=data, updates=updates)
    assert names == ["scatter_grid"]
    data[1::2, :4] = updates
    assert (found == data).all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_that_is_replaced_is_not_touched(target: str) -> None:
    """As exporters write ``scores[:, :] = others``: no kernel but the copy of what was given."""
    data, updates = np.zeros((40, 50), np.float32), np.ones((40, 50), np.float32)
    indices = np.stack(np.meshgrid(range(40), range(50), indexing="ij"), -1).astype(np.int64)
    model = model_of("ScatterND", data, indices, updates, fixed=True)
    names, found = kernels_and_result(model, target, data=data, updates=updates)
    assert not [name for name in names if "scatter" in name]
    assert (found == updates).all()


def test_indices_may_be_made_of_constants() -> None:
    """Of two ranges, spread over a grid that the file does not hold."""
    names = ["rows", "columns"]
    nodes = [helper.make_node("Expand", [name, "shape"], [f"all_{name}"]) for name in names]
    nodes.append(helper.make_node("Concat", ["all_rows", "all_columns"], ["indices"], axis=2))
    data, indices = np.zeros((40, 50), np.float32), np.zeros((40, 50, 2), np.int64)
    model = model_of("ScatterND", data, indices, data, fixed=True)
    graph = model.graph
    del graph.initializer[:]
    shape = np.array([40, 50, 1], np.int64)
    rows = np.arange(40, dtype=np.int64).reshape(40, 1, 1)
    columns = np.arange(50, dtype=np.int64).reshape(1, 50, 1)
    for name, numbers in (("shape", shape), ("rows", rows), ("columns", columns)):
        graph.initializer.append(numpy_helper.from_array(numbers, name))
    scatter = graph.node.pop()
    graph.node.extend([*nodes, scatter])
    updates = np.random.default_rng(0).random((40, 50), "float32")
    names, found = kernels_and_result(model, "llvm", data=0 * updates, updates=updates)
    assert not [name for name in names if "scatter" in name]
    assert (found == updates).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fixed", [True, False])
def test_the_last_update_of_a_place_counts(target: str, fixed: bool) -> None:
    """ONNX leaves it open; ours stays the same from run to run."""
    data, indices = np.zeros(5, np.float32), np.array([[1], [3], [1], [0], [3]] * 4, np.int64)
    updates = np.arange(20, dtype=np.float32)
    model = model_of("ScatterND", data, indices, updates, fixed=fixed)
    _, found = kernels_and_result(model, target, **given_to(model, data, indices, updates))
    assert found.tolist() == [18, 17, 0, 19, 0]


OUTSIDE = [[0, 0], [0, 4], [0, 9], [3, 0], [2, 3], [7, -40]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("many", [1, 2], ids=["few", "many"])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_an_update_outside_is_left_out(target: str, many: int, reduction: str) -> None:
    """Also one that would be inside if its axes were counted through."""
    data, updates = np.zeros((3, 4), np.float32), np.ones(6 * many, np.float32)
    indices = np.array(OUTSIDE * many, np.int64)
    model = model_of("ScatterND", data, indices, updates, fixed=False, reduction=reduction)
    _, found = kernels_and_result(model, target, data=data, updates=updates, indices=indices)
    expected = np.zeros((3, 4), np.float32)
    expected[0, 0] = expected[2, 3] = 1 if reduction == "none" else many
    assert (found == expected).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(5, 3), (12, 3), (12, 4100)], ids=str)
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_an_element_outside_is_left_out(
    target: str, shape: tuple[int, int], reduction: str
) -> None:
    """Of few updates, of many, and of many rows, which a GPU has a thread each for."""
    random = np.random.default_rng(3)
    data = random.random((9, shape[1]), np.float32)
    indices, updates = random.integers(-30, 30, shape), random.random(shape, np.float32)
    model = model_of("ScatterElements", data, indices, updates, fixed=False, reduction=reduction)
    _, found = kernels_and_result(model, target, data=data, updates=updates, indices=indices)
    expected = data.copy()
    for row, column in np.ndindex(shape):
        place, update = indices[row, column], updates[row, column]
        if -9 <= place < 9:
            expected[place, column] = update + expected[place, column] * (reduction == "add")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


MANY = 80_000  # more than a thread takes one after another on lavapipe, whose loops end before
REDUCED = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum}


MANY_TYPES = ("float32", "float16", "int32", "int8")


@pytest.mark.parametrize(
    ("reduction", "dtype"),
    [
        # Of one type each, where all are sorted and then added up alike.
        pytest.param(reduction, dtype, marks=[] if number in (0, place) else pytest.mark.slow)
        for number, reduction in enumerate(REDUCED)
        for place, dtype in enumerate(MANY_TYPES)
    ],
)
def test_many_updates_of_many_places(reduction: str, dtype: str) -> None:
    """As MaxUnpool of an image has them, or the points of a cloud that are put in a grid. Of all
    types whose elements a thread writes beside another's."""
    random = np.random.default_rng(5)
    data = random.integers(-3, 3, (30_000, 3)).astype(dtype)
    updates = random.integers(-1 if reduction == "mul" else -3, 2, (MANY, 3)).astype(dtype)
    indices = random.integers(0, len(data), (MANY, 1))
    indices[::7] = len(data)  # left out
    model = model_of("ScatterND", data, indices, updates, fixed=False, reduction=reduction)
    given = {"data": data, "updates": updates, "indices": indices}
    names, found = kernels_and_result(model, "vulkan", **given)
    assert ("scatter_latest" if reduction == "none" else "sort") in " ".join(names)
    expected, inside = data.astype("float64"), indices[:, 0] < len(data)
    places, values = indices[inside, 0], updates[inside].astype("float64")
    if reduction == "none":
        expected[places] = values
    else:
        REDUCED[reduction].at(expected, places, values)
    assert (found == expected).all()


def test_all_updates_of_one_place() -> None:
    data, updates = np.zeros((2, 9), np.float32), np.ones((2, 600_000), np.float32)
    indices = np.full(updates.shape, -7)
    model = model_of("ScatterElements", data, indices, updates, fixed=False, axis=1)
    updates[:, -1] = [5, 6]
    _, found = kernels_and_result(model, "vulkan", **given_to(model, data, indices, updates))
    assert found.tolist() == [[0, 0, 5, *[0] * 6], [0, 0, 6, *[0] * 6]]


@pytest.mark.parametrize("reduction", ["add", "max"])
def test_most_updates_of_one_place(reduction: str) -> None:
    """As points that are filled up have the first place: one thread would add them all."""
    random = np.random.default_rng(6)
    data = random.integers(-3, 3, (3000, 2)).astype(np.float32)
    updates = random.integers(-3, 9, (100_001, 2)).astype(np.float32)
    indices = np.zeros((len(updates), 1), np.int64)
    indices[::50] = random.integers(0, len(data), indices[::50].shape)
    model = model_of("ScatterND", data, indices, updates, fixed=False, reduction=reduction)
    given = given_to(model, data, indices, updates)
    names, found = kernels_and_result(model, "vulkan", **given)
    assert any("sort" in name for name in names)
    REDUCED[reduction].at(data, indices[:, 0], updates)
    assert (found == data).all()


@pytest.mark.parametrize("seed", range(6))
def test_any_scatter_that_is_sorted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatters, "MOST_COMPARED", 0)
    test_any_scatter(100 + seed, "vulkan")


SORTED_TYPES, SORTED_REDUCTIONS = (
    ("float32", "float16", "int32", "uint8"),
    ("add", "mul", "min", "max"),
)


def each_along_one_axis(reduction: str, dtype: str, axis: int) -> bool:
    """Each reduction, type and axis, and half of the pairs of each two."""
    place = SORTED_REDUCTIONS.index(reduction) + SORTED_TYPES.index(dtype)
    return place % 2 == 0 and place // 2 % 2 == axis


@pytest.mark.parametrize(
    ("axis", "reduction", "dtype"),
    [
        pytest.param(
            *(axis, reduction, dtype),
            marks=[] if each_along_one_axis(reduction, dtype, axis) else pytest.mark.slow,
        )
        for axis, reduction, dtype in product((0, 1), SORTED_REDUCTIONS, SORTED_TYPES)
    ],
)
def test_elements_that_are_sorted(
    axis: int, reduction: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows whose runs begin and end within stretches, at their ends, and in others."""
    monkeypatch.setattr(scatters, "MOST_COMPARED", 0)
    random = np.random.default_rng(axis)
    shape, many = [40, 40], 1200
    shape[1 - axis] = 3
    updates_shape = list(shape)
    updates_shape[axis] = many
    data = random.integers(0, 4, shape).astype(dtype)
    updates = random.integers(0 if dtype == "uint8" else -1, 2, updates_shape).astype(dtype)
    indices = (40 * random.random(updates_shape) ** 3).astype(np.int64)
    indices[np.arange(many) % 7 == 3 if axis == 0 else np.s_[:, 3::7]] = 99
    model = model_of(
        "ScatterElements", data, indices, updates, fixed=False, axis=axis, reduction=reduction
    )
    names, found = kernels_and_result(model, "vulkan", data=data, updates=updates, indices=indices)
    assert any("sort" in name for name in names)
    expected = data.copy()
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[reduction]
    for at in np.ndindex(*updates_shape):
        if indices[at] < 40:
            place = (indices[at], at[1]) if axis == 0 else (at[0], indices[at])
            expected[place] = combine(expected[place], updates[at])
    np.testing.assert_array_equal(found, expected)
