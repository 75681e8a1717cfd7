"""Products whose results read few neighbours, as images are shrunk, against numpy
and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from tvm import relax

from support.compiled import FIXED, kernels_of
from support.conformance.conformance_worker import executor
from support.covering import covering
from support.onnx_models import make_model
from support.relax_models import module_of, operators_in
from tvm_vision.compiler.relax.banded_products import NAME, Band, banded_products
from tvm_vision.frontend.onnx.load import import_onnx

pytestmark = pytest.mark.usefixtures("device_info")


def band(terms: int, results: int, width: int) -> np.ndarray:
    """Each result is of ``width`` terms, the last ones of fewer, and one of none."""
    matrix = np.zeros((terms, results), np.float32)
    random = np.random.default_rng(3)
    for result in range(results):
        begin = result * terms // results
        part = matrix[begin : begin + width, result]
        part[:] = random.uniform(0.5, 1, len(part))
    matrix[:, results // 2] = 0
    return matrix


def product(shape: tuple[int, ...], matrix: np.ndarray, from_right: bool) -> Any:
    def build(builder: Any, x: Any) -> Any:
        constant = relax.const(matrix)
        left, right = (x, constant) if from_right else (constant, x)
        return builder.emit(relax.op.matmul(left, right))

    return module_of(build, shape)[0]


def test_a_band_holds_the_whole_matrix() -> None:
    matrix = band(160, 30, 7)
    found = Band.of(matrix)
    assert found is not None and found.factors.shape == (7, 30)
    made = np.zeros_like(matrix)
    for result, begin in enumerate(found.begins):
        made[begin : begin + 7, result] = found.factors[:, result]
    np.testing.assert_array_equal(made, matrix)


@pytest.mark.parametrize(
    "matrix",
    [
        np.ones((200, 30), np.float32),
        # One result of the first and the last term.
        np.pad(band(200, 20, 4), ((0, 0), (0, 1))) + np.eye(200, 21, dtype=np.float32)[:, ::-1],
        band(48, 20, 2),
        band(160, 30, 11),
    ],
    ids=["all", "far apart", "small", "wide"],
)
def test_other_matrices_have_none(matrix: np.ndarray) -> None:
    assert Band.of(matrix) is None
    before = product((3, 5, len(matrix)), matrix, True)
    assert operators_in(banded_products(before)) == operators_in(before)


@pytest.mark.parametrize(
    ("case", "before", "from_right", "target"),
    covering(["band", "one of each"], [(), (3,), (2, 3)], [True, False], ["llvm", "vulkan"]),
)
def test_products_are_those_of_the_matrix(
    case: str, before: tuple[int, ...], from_right: bool, target: str
) -> None:
    matrix = band(130, 29, 8)
    if case == "one of each":
        matrix = np.eye(70, dtype=np.float32)[:, np.random.default_rng(0).permutation(70)]
    terms = len(matrix)
    shape = (*before, 17, terms) if from_right else (*before, terms, 17)
    node = helper.make_node("MatMul", ["x", "w"] if from_right else ["w", "x"], ["y"])
    constant = np.ascontiguousarray(matrix if from_right else matrix.T)
    model = make_model([node], [("x", shape)], [("y", None)], [("w", constant)])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    wanted = x @ matrix if from_right else matrix.T @ x
    for options, bound in (({}, 1e-6), ({"precision": "fp16"}, 2e-3)):
        if options and target == "llvm":
            continue
        (found,) = executor(import_onnx(model), target, **options)(x)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "linear"},
        {"mode": "cubic"},
        {"mode": "cubic", "exclude_outside": 1, "coordinate_transformation_mode": "asymmetric"},
    ],
    ids=["linear", "cubic", "cubic within"],
)
def test_images_are_shrunk_as_by_onnxruntime(attributes: dict[str, Any], target: str) -> None:
    shape, sizes = (1, 2, 300, 260), np.array([1, 2, 120, 130], np.int64)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], antialias=1, **attributes)
    model = make_model([node], [("x", shape)], [("y", None)], [("sizes", sizes)], opset=18)
    x = np.random.default_rng(5).uniform(0, 255, shape).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    imported = import_onnx(model)
    made, _ = kernels_of(imported[0], FIXED)
    assert sum(NAME in str(name) for name in made.get_global_vars()) == 2
    (found,) = executor(imported, target)(x)
    assert np.abs(found - wanted).max() <= 1e-5 * 255
