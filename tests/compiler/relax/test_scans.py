"""Running sums and products by rows on a GPU, down columns on a processor, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.compiled import executor_of
from support.covering import covering
from support.relax_models import module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax import scans

pytestmark = pytest.mark.usefixtures("device_info")


def scanned(kind, axis, dtype, exclusive):
    return lambda builder, x: builder.emit(getattr(relax.op, kind)(x, axis, dtype, exclusive))


def found_of(build, x, target="vulkan"):
    module, signature = module_of(build, x.shape, dtype=str(x.dtype))
    device = tvm.vulkan(0) if target == "vulkan" else tvm.cpu()
    executor = executor_of(compile_model(module, signature, target=target), device)
    executor.run(x0=x)
    return executor.get_output(0).numpy()


def wanted(x, kind, axis, dtype, exclusive):
    up_to = getattr(np, kind)(x.astype(dtype), axis=axis, dtype=dtype)
    if not exclusive:
        return up_to
    first = np.full_like(np.take(up_to, [0], axis), kind == "cumprod")
    return np.concatenate([first, np.delete(up_to, -1, axis)], axis)


@pytest.mark.parametrize(
    ("row", "kind", "exclusive"),
    covering(
        [((1,), 0), ((7,), 0), ((3, 255), 1), ((2, 256), -1), ((2, 257), 1), ((1000, 2), 0),
         ((2, 300, 3), 1), ((1, 5000), 1)],
        ["cumsum", "cumprod"], [False, True],
    ),
)  # fmt: skip
def test_scans_are_those_of_numpy(row, kind, exclusive):
    shape, axis = row
    x = np.random.default_rng(1).integers(-2, 3, shape).astype("int32")
    x = x if kind == "cumsum" else np.where(x == 0, 1, np.sign(x))
    build = scanned(kind, axis, "int32", exclusive)
    found, expected = found_of(build, x), wanted(x, kind, axis, "int32", exclusive)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("column", "kind", "exclusive"),
    covering(
        [((7,), 0), ((300, 2), 0), ((1, 5), 0), ((300, 5), 0), ((2, 300, 70), 1),
         ((2, 3, 4, 33), -3), ((200, 130), 0), ((3, 255), 1)],
        ["cumsum", "cumprod"], [False, True],
    ),
)  # fmt: skip
def test_scans_down_columns_are_those_of_numpy(column, kind, exclusive):
    shape, axis = column
    x = np.random.default_rng(1).integers(-2, 3, shape).astype("int32")
    x = x if kind == "cumsum" else np.where(x == 0, 1, np.sign(x)).astype("int32")
    build = scanned(kind, axis, "int32", exclusive)
    found, expected = found_of(build, x, "llvm"), wanted(x, kind, axis, "int32", exclusive)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("given", "made"),
    [("float32", "float32"), ("int8", "int32"), ("int32", "int64"), ("bool", "int32"),
     ("float16", "float16"), ("float32", "float64")],
)  # fmt: skip
def test_scans_down_columns_of_types(given, made):
    x = np.random.default_rng(2).uniform(-1, 1, (30, 70)).astype(given)
    found = found_of(scanned("cumsum", 0, made, False), x, "llvm")
    assert found.dtype == made
    rtol = 1e-2 if made == "float16" else 1e-5
    np.testing.assert_allclose(found, np.cumsum(x, 0, dtype=made), rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("given", "made"), [("float32", "float32"), ("int8", "int32"), ("int32", "int64")]
)
def test_scans_of_types(given, made):
    x = np.random.default_rng(2).uniform(-100, 100, (3, 700)).astype(given)
    found = found_of(scanned("cumsum", 1, made, False), x)
    assert found.dtype == made
    np.testing.assert_allclose(found, np.cumsum(x, 1, dtype=made), rtol=1e-5, atol=1e-2)


def test_longer_rows_stay_with_those_who_share_them(monkeypatch):
    monkeypatch.setattr(scans, "MOST", 10)
    module, _ = module_of(scanned("cumsum", 0, "int32", False), (11,), dtype="int32")
    assert operators_in(scans.scans_by_rows(module, 256)) == operators_in(module)
