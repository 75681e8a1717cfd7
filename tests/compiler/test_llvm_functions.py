"""Functions on a processor have all digits, of small numbers as well, and call no library."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import tirx

from support.interpreter import run
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.tvm_compat.llvm_functions import exact_functions


def computed(operator: str, x: np.ndarray) -> np.ndarray:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(x.shape)) for n in "xy"]
    node = helper.make_node(operator, ["x"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = run(compile_model(*import_onnx(model), target="llvm"), [x])
    return found


@pytest.mark.parametrize(("operator", "exact"), [("Tanh", np.tanh), ("Atanh", np.arctanh)])
def test_all_digits(operator: str, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    most = 0.9 if operator == "Atanh" else 20.0
    sizes = np.concatenate([np.geomspace(1e-30, most, 997), np.linspace(0.2, 0.3, 2003)])
    x = np.concatenate([sizes, -sizes, [0.0]]).astype("float32")
    np.testing.assert_allclose(computed(operator, x), exact(x.astype("float64")), rtol=1e-6)


def test_exp_is_right_to_the_last_digit() -> None:
    """Its smallest results have fewer digits, beyond them it is 0 and infinite."""
    ends = [0.0, -0.0, 88.72283, 88.72284, -87.3, -103.2, -103.9, -104.1, 1e30, -1e30]
    x = np.concatenate([np.linspace(-110, 95, 40001), np.geomspace(1e-38, 1, 301), ends])
    x = x.astype("float32")
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype("float64"))
        rounded = exact.astype("float32")
    found = computed("Exp", x)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    normal = np.isfinite(rounded) & (rounded >= 2.0**-126)
    np.testing.assert_allclose(found[normal], exact[normal], rtol=1e-7)
    np.testing.assert_allclose(found[~normal & np.isfinite(found)],
                               exact[~normal & np.isfinite(found)], atol=2.0**-149)  # fmt: skip


def test_log_is_right_to_the_last_digit() -> None:
    """Of the smallest numbers, and near 1, where it is small."""
    x = np.concatenate([np.geomspace(1e-45, 3e38, 40001), np.linspace(0.4, 2.5, 20001), [1.0]])
    x = x.astype("float32")
    np.testing.assert_allclose(computed("Log", x), np.log(x.astype("float64")), rtol=3e-7)


def test_erf_has_all_digits() -> None:
    x = np.concatenate([np.linspace(-6, 6, 20001), np.geomspace(1e-38, 1, 301)]).astype("float32")
    exact = [math.erf(value) for value in x.astype("float64")]
    np.testing.assert_allclose(computed("Erf", x), exact, rtol=3e-7)


@pytest.mark.parametrize(("operator", "exact"), [("Sin", np.sin), ("Cos", np.cos)])
def test_sine_and_cosine_of_large_numbers(
    operator: str, exact: Callable[[np.ndarray], np.ndarray]
) -> None:
    """As positions and frequencies make them; a sine has all digits where it is small, too."""
    sizes = np.concatenate([np.linspace(0, 40, 20001), np.geomspace(1e-38, 1e8, 5001)])
    x = np.concatenate([sizes, -sizes]).astype("float32")
    found, expected = computed(operator, x), exact(x.astype("float64"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-7)
    if operator == "Sin":
        np.testing.assert_allclose(found, expected, rtol=4e-7)
    beyond = computed(operator, np.array([1e12, -1e20, 3e38], np.float32))
    assert (np.abs(beyond) <= 1).all()


@pytest.mark.parametrize(
    ("operator", "of_infinity", "of_minus_infinity"),
    [
        ("Exp", np.inf, 0.0), ("Log", np.inf, np.nan), ("Erf", 1.0, -1.0), ("Sigmoid", 1.0, 0.0),
        ("Sin", np.nan, np.nan), ("Cos", np.nan, np.nan),
    ],
)  # fmt: skip
def test_what_is_no_number(operator: str, of_infinity: float, of_minus_infinity: float) -> None:
    x = np.array([np.inf, -np.inf, np.nan] * 5, np.float32)
    expected = np.array([of_infinity, of_minus_infinity, np.nan] * 5, np.float32)
    np.testing.assert_array_equal(computed(operator, x), expected)


def test_log_of_0_and_below() -> None:
    x = np.array([0.0, -0.0, -1.0, -1e-40], np.float32)
    expected = np.array([-np.inf, -np.inf, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(computed("Log", x), expected)


@pytest.mark.parametrize(
    "operator", ["Exp", "Log", "Erf", "Sigmoid", "Softplus", "Tanh", "Sin", "Cos"]
)
def test_no_function_of_the_c_library_is_called(operator: str) -> None:
    """Which takes one number at a time."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 64]) for n in "xy"]
    node = helper.make_node(operator, ["x"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    source = compile_model(*import_onnx(model), target="llvm").library.source()
    calls = [line for line in source.splitlines() if " call " in line and "float" in line]
    for function in ("exp", "log", "erf", "tanh", "sin", "cos"):
        assert not any(f"llvm.{function}." in line or f"@{function}f" in line for line in calls)


@pytest.mark.parametrize(
    ("function", "most"), [("exp", 30), ("erf", 25), ("log", 200), ("sin", 30), ("cos", 30)]
)
def test_what_a_function_is_made_of_is_small(function: str, most: int) -> None:
    """TVM goes through it as a tree, for each vector of a kernel: what reads a value in more places
    than it needs to takes as much longer to compile, and what is made of that again as often."""
    exact_functions()
    x = tirx.decl_buffer((1,), "float32x16", name="x")
    value = getattr(tirx, function)(tirx.BufferLoad(x, [0]))
    store = tirx.BufferStore(x, value, [0])
    kernel = tirx.PrimFunc([x], store).with_attr("target", tvm.target.Target({"kind": "llvm"}))
    lowered = tirx.transform.LowerIntrin()(tvm.IRModule({"f": kernel}))["f"]
    found = len(re.findall(r"\bx\b", lowered.script())) - 2  # the parameter, and what is stored
    assert 0 < found <= most
