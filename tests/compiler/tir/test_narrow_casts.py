"""Places made of real numbers: in 32 bits, and as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.ir import prim
from tvm.target import Target

from support.lowering import HOST, kernels
from support.schedule_runs import fused, scheduled
from tvm_vision.compiler.tir.narrow_casts import narrowed

# As far as int64 goes, on both sides of bounds, whole and between.
NUMBERS = np.array(
    [
        *np.linspace(-40, 40, 321),
        *(sign * 10.0**n for sign in (1, -1) for n in range(2, 19)),
        *(sign * (2.0**n + d) for sign in (1, -1) for n in (23, 24, 30, 31) for d in (-1, 0, 1)),
    ]
)
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def whole(number: int) -> Any:
    return tirx.const(number, "int64")


def place(number: Any, offset: int = 0) -> Any:
    made = prim.Cast("int64", number)
    return made + whole(offset) if offset else made


def function(of: Callable[[Any], Any], dtype: str = "float32") -> tirx.PrimFunc:
    """Writes int64 values of the numbers of its input."""
    x = te.placeholder((len(NUMBERS),), dtype, "x")
    made = te.compute(x.shape, lambda i: of(x[i]), "y")
    return te.create_prim_func([x, made])


def values(func: tirx.PrimFunc, dtype: str = "float32") -> np.ndarray:
    built = tvm.compile(func.with_attr("global_symbol", "f"), target=Target(HOST))
    numbers = NUMBERS[np.abs(NUMBERS) < 6e4] if dtype == "float16" else NUMBERS
    given = np.resize(numbers, len(NUMBERS)).astype(dtype)
    out = tvm.runtime.empty((len(NUMBERS),), "int64")
    built["f"](tvm.runtime.tensor(given), out)
    return np.asarray(out.numpy())


def converts_wide(func: tirx.PrimFunc) -> bool:
    found: list[Any] = []

    def see(cast: Any) -> None:
        if str(cast.ty.dtype) == "int64" and str(cast.value.ty.dtype).startswith("float"):
            found.append(cast)

    tvm_ffi.structural_walk(func.body, (prim.Cast, see))
    return bool(found)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("offset", [0, 1, -2, 7])
@pytest.mark.parametrize("of", [lambda x: x, tirx.floor, tirx.ceil], ids=["any", "floor", "ceil"])
@pytest.mark.parametrize("first", ["min", "max"])
def test_bounded(dtype: str, offset: int, of: Callable[[Any], Any], first: str) -> None:
    def bounded(x: Any) -> Any:
        made = place(of(x), offset)
        if first == "min":
            return tirx.max(tirx.min(made, whole(30)), whole(-3))
        return tirx.min(tirx.max(made, whole(-3)), whole(30))

    before = function(bounded, dtype)
    after = narrowed(before)
    assert converts_wide(before) and not converts_wide(after)
    np.testing.assert_array_equal(values(after, dtype), values(before, dtype))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("bound", "offset"), [(0, 0), (1, 0), (-1, 0), (12, 3), (-7, -2)])
@pytest.mark.parametrize("of", [lambda x: x, tirx.floor, tirx.round], ids=["any", "floor", "round"])
def test_compared(sign: str, side: str, bound: int, offset: int, of: Callable[[Any], Any]) -> None:
    def chosen(x: Any) -> Any:
        sides = place(of(x), offset), whole(bound)
        holds = SIGNS[sign](*(sides if side == "left" else sides[::-1]))
        return tirx.Select(holds, whole(1), whole(0))

    before = function(chosen)
    after = narrowed(before)
    assert converts_wide(before) and not converts_wide(after)
    np.testing.assert_array_equal(values(after), values(before))


@pytest.mark.parametrize(
    "of",
    [
        place,
        lambda x: tirx.min(place(x), whole(30)),
        lambda x: tirx.max(place(x), whole(0)),
        lambda x: tirx.max(tirx.min(place(x), whole(1 << 24)), whole(0)),
        lambda x: tirx.max(tirx.min(place(x), whole(-5)), whole(5)),  # the bounds cross
        lambda x: tirx.Select(place(x) < whole(1 << 40), whole(1), whole(0)),
        lambda x: tirx.Select(place(x) < place(x * 2.0), whole(1), whole(0)),
    ],
    ids=["free", "above", "below", "beyond float32", "crossed", "beyond int32", "two numbers"],
)
def test_what_has_no_bounds_that_both_types_have_stays(of: Callable[[Any], Any]) -> None:
    before = function(of)
    assert tvm_ffi.structural_equal(narrowed(before), before)


def _resized(method: str, mode: str, layout: str) -> Callable[[Any], Any]:
    return lambda x: relax.op.image.resize2d(
        x, relax.ShapeExpr([21, 40]), layout=layout, method=method,
        coordinate_transformation_mode=mode,
        rounding_method="round" if method == "nearest_neighbor" else "",
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.usefixtures("device_info")
def test_resizing_computes_no_place_in_64_bits(method: str, mode: str, layout: str) -> None:
    shape = (1, 12, 9, 13) if layout == "NCHW" else (1, 9, 13, 12)
    _check_narrow(_resized(method, mode, layout), [shape])


@pytest.mark.parametrize("padding", ["zeros", "border"])  # a reflection asks for remainders
@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
@pytest.mark.usefixtures("device_info")
def test_sampling_computes_no_place_in_64_bits(method: str, padding: str) -> None:
    _check_narrow(
        lambda x, grid: relax.op.image.grid_sample(
            x, grid, method=method, padding_mode=padding, align_corners=False
        ),
        [(1, 12, 9, 13), (1, 2, 21, 40)],
    )


def _check_narrow(build: Any, shapes: list[tuple[int, ...]]) -> None:
    module, _ = scheduled(fused(build, shapes, "float32"))
    for func in module.functions.values():
        if isinstance(func, tirx.PrimFunc):
            assert not [k.name for k in kernels(func) if "int64" in k.source]
