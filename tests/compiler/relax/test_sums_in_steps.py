"""Long sums of few results: those of numpy, whatever axes they go along, by many threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.compiled import MATRIX_GPU
from support.covering import covering
from support.few_threads import LANES, launches_of
from support.interpreter import run
from support.relax_models import module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.sums_in_steps import sums_in_steps
from tvm_vision.compiler.target import parse_target

CASES = [
    ((1, 3, 256, 300), [1, 2, 3]),
    ((1, 3, 256, 300), [2, 3]),
    ((1, 70000), None),
    ((70001,), [0]),  # which no number up to 1,024 divides but 1, 13, and so on
    ((65537, 3), [0]),  # a prime
    ((65600, 3), [0]),
    ((2, 66000, 2), [1]),
    ((260, 1, 260), [0, 2]),
    ((256, 2, 256), [0, 2]),  # an axis between them stays
    ((2, 190, 100, 2, 4), [1, 2, 4]),  # two groups of channels that come last
    ((2, 190, 1, 100, 1, 2, 1), [1, 2, 3, 4, 6]),
    ((8, 100, 100), [1, 2]),  # short, and many
    ((1, 190, 200, 20), [1, 2]),  # channels last
    ((2, 40000, 9), [1]),
]
REDUCED: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
REDUCED["variance"] = np.var


def network(name: str, axes: list[int] | None, keepdims: bool) -> Any:
    return lambda builder, x: builder.emit(getattr(relax.op, name)(x, axes, keepdims))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("case", "name", "keepdims"), covering(CASES, ["mean", "max", "variance"], [False, True])
)
def test_results_are_those_of_numpy(case, name, keepdims) -> None:
    shape, axes = case
    values = np.random.default_rng(1).uniform(-1, 2, shape).astype("float32")
    module, signature = module_of(network(name, axes, keepdims), shape)
    (found,) = run(compile_model(module, signature, target="vulkan"), [values])
    places = None if axes is None else tuple(axes)
    expected = REDUCED[name](values.astype("float64"), axis=places, keepdims=keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# Rows along one axis, before it or behind it others.
ROWS = [
    ((70000,), 0),
    ((1, 70000), -1),
    ((2, 66000, 2), 1),
    ((65537, 3), 0),
    ((1, 1, 65600, 1), 2),
]


def expected_of(name: str, values: np.ndarray, axis: int) -> np.ndarray:
    if name in ("argmax", "argmin"):
        return getattr(np, name)(values, axis=axis)
    shifted = values - values.max(axis=axis, keepdims=True)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return np.exp(shifted) / total if name == "softmax" else shifted - np.log(total)


def along(name: str, axis: int) -> Any:
    operator = getattr(relax.op, name, None) or getattr(relax.op.nn, name)
    return lambda builder, x: builder.emit(operator(x, axis))


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("row", "name", "precision"),
    covering(ROWS, ["argmax", "argmin", "softmax", "log_softmax"], ["fp32", "fp16"]),
)
def test_places_and_softmax_of_long_rows(
    row: tuple[tuple[int, ...], int], name: str, precision: str
) -> None:
    shape, axis = row
    # Of few values many are the largest; the sum of all exponentials is beyond fp16.
    values = np.random.default_rng(2).integers(-3, 4, shape).astype("float32") / 8
    module, signature = module_of(along(name, axis), shape)
    (found,) = run(compile_model(module, signature, target="vulkan", precision=precision), [values])
    expected = expected_of(name, values.astype("float64"), axis)
    assert found.shape == expected.shape
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error <= (0 if name.startswith("arg") else 1e-3 if precision == "fp16" else 1e-5)


def test_the_place_in_all_of_a_tensor_counts_its_axes_as_one() -> None:
    values = np.random.default_rng(3).integers(0, 9, (3, 200, 300)).astype("float32")
    module, signature = module_of(lambda b, x: b.emit(relax.op.argmax(x)), values.shape)
    (found,) = run(compile_model(module, signature, target="vulkan"), [values])
    assert found == values.argmax()


@pytest.mark.parametrize("name", ["argmax", "argmin", "softmax", "log_softmax"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_many_threads_share_places_and_softmax(name: str, precision: str) -> None:
    module, _ = module_of(along(name, 1), (1, 1 << 20))
    found = launches_of(module, parse_target(MATRIX_GPU), precision=precision)
    assert max(launch.threads for launch in found) >= LANES
    assert max(launch.steps for launch in found) < 260


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_variance_far_from_0_keeps_its_digits(precision: str) -> None:
    values = np.random.default_rng(1).normal(40, 1, (1, 1, 1 << 17)).astype("float32")
    module, signature = module_of(network("variance", [2], True), values.shape)
    compiled = compile_model(module, signature, target="vulkan", precision=precision)
    (found,) = run(compiled, [values])
    assert abs(found.item() - values.astype("float64").var()) < 1e-3


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("shape", "axes", "steps", "of_variance"),
    [
        ((1, 3, 1024, 1024), [1, 2, 3], 256, 512),
        # A thread for each channel of each part; 8 channels would share a workgroup otherwise.
        ((1, 512, 512, 32), [1, 2], 260, 1030),
    ],
)
def test_many_threads_share_them(
    name: str, precision: str, shape: Any, axes: list[int], steps: int, of_variance: int
) -> None:
    module, _ = module_of(network(name, axes, False), shape)
    found = launches_of(module, parse_target(MATRIX_GPU), precision=precision)
    assert max(launch.threads for launch in found) >= LANES
    assert max(launch.steps for launch in found) < (of_variance if name == "variance" else steps)


def normalized(builder: Any, x: Any) -> Any:
    mean, variance = (op(x, [1, 2, 3], True) for op in (relax.op.mean, relax.op.variance))
    root = relax.op.sqrt(relax.op.add(variance, relax.const(1e-5, "float32")))
    return builder.emit(relax.op.divide(relax.op.subtract(x, mean), root))


def test_a_normalization_sums_its_parts_once() -> None:
    """The moments of parts, the mean, the root of the variance, and what is made of them."""
    module, _ = module_of(normalized, (1, 64, 56, 56))
    launches = launches_of(module, parse_target(MATRIX_GPU), precision="fp16")
    assert len(launches) == 4
    assert max(launch.threads for launch in launches) >= LANES


def test_more_rows_are_taken_apart_where_they_leave_a_device_idle() -> None:
    module, _ = module_of(network("variance", [2, 3], False), (1, 16, 256, 256))
    assert str(sums_in_steps(module, 32)) == str(module) != str(sums_in_steps(module, 64))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((256, 2, 256), [0, 2]),
        ((8, 100, 100), [1, 2]),
        ((1, 112, 112, 32), [1, 2]),  # over before another launch begins
        ((1, 512, 512, 96), [1, 2]),  # a workgroup for each of enough lines
    ],
)
def test_others_stay_as_they_are(shape, axes) -> None:
    module, _ = module_of(network("sum", axes, False), shape)
    assert str(sums_in_steps(module, 128)) == str(module)
