"""Products of fp16 that are added up in fp16 within a tile: their errors, and who has them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, topi
from tvm.target import Target

from support.compiled import executor_of
from support.covering import covering
from support.lowering import HOST
from support.networks import NETWORKS, Builder, reference
from tvm_vision.compiler import compile_model
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import ScheduleConfig, TargetLimits, schedule_with
from tvm_vision.schedules.cost import gemm
from tvm_vision.schedules.cost.gemm_tile import GemmTile, Product
from tvm_vision.schedules.gpu.packed_fp16 import MOST_TERMS

HALF = 2.0**-11  # of the last place: the error of one rounding
ON = CompileOptions(packed_fp16="on")
SUMS = re.compile(r"^  f16vec4 \w+_rf_local_v4", re.M)


def product(m: int, n: int, k: int) -> Any:
    """C[m, n] in float32 of A[m, k] and B[k, n] in float16."""
    a, b = te.placeholder((m, k), "float16"), te.placeholder((k, n), "float16")
    along = te.reduce_axis((0, k))
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(
            a[i, along].astype("float32") * b[along, j].astype("float32"), axis=along
        ),
    )
    return te.create_prim_func([a, b, c])


def device() -> Target:
    return Target({"kind": "vulkan", "from_device": 0}, Target(HOST))


def run(
    tile: GemmTile, a: np.ndarray, b: np.ndarray, packed_lanes: int = 0
) -> tuple[np.ndarray, str]:
    """The product on the device, and its GLSL."""
    (m, k), n = a.shape, b.shape[1]
    limits = TargetLimits.of(device(), ON)
    limits = replace(limits, device=replace(limits.device, packed_lanes=packed_lanes))
    function = schedule_with(product(m, n, k), limits, ScheduleConfig("contraction", tile))
    library = tvm.tirx.build(
        tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), device()
    )
    result = np.zeros((m, n), "float32")
    on_device = [tvm.runtime.tensor(x, tvm.vulkan(0)) for x in (a, b, result)]
    library["main"](*on_device)
    return on_device[2].numpy(), str(library.imports[0].inspect_source("glsl"))


@pytest.fixture(autouse=True)
def fp16(device_info: Any) -> None:
    if not (device_info.supports_float16 and device_info.supports_16bit_buffer):
        pytest.skip("the device has no float16")


@pytest.mark.parametrize(
    ("tile", "k", "positive"),
    covering(
        [GemmTile(16, 64, 16), GemmTile(16, 32, 32, 2, 4), GemmTile(32, 32, 32, 4, 4, slice_k=4)],
        [64, 100, 4608],
        [False, True],
    ),
)
def test_errors_are_within_their_bound(tile: GemmTile, k: int, positive: bool) -> None:
    """In the worst case a rounding for each term of a tile; signs that change make it less."""
    random = np.random.default_rng(k)
    low = 0.0 if positive else -1.0
    a = random.uniform(low, 1, (32, k)).astype("float16")
    b = random.uniform(low, 1, (k, 64)).astype("float16")
    found, source = run(tile, a, b)
    assert SUMS.search(source)
    exact = a.astype("float64") @ b.astype("float64")
    sizes = np.abs(a).astype("float64") @ np.abs(b).astype("float64")
    terms = tile.k // tile.slice_k
    assert terms <= MOST_TERMS
    assert np.all(np.abs(found - exact) <= terms * HALF * sizes)
    # As a rule roundings cancel out: what a result of fp16 is rounded by, four times at most.
    assert np.sqrt(np.mean((found - exact) ** 2)) <= 4 * HALF * np.sqrt(np.mean(exact**2))


@pytest.mark.parametrize("k", [64, 100, 4608])
def test_lanes_that_are_asked_for_change_no_result(k: int) -> None:
    """Intel's tiles, in subgroups of whatever width this device has, and of one tile and many."""
    random = np.random.default_rng(k)
    a, b = (random.uniform(-1, 1, shape).astype("float16") for shape in ((32, k), (k, 64)))
    tile = GemmTile(32, 64, 32)
    (plain, _), (asked, source) = (run(tile, a, b, lanes) for lanes in (0, 16))
    np.testing.assert_array_equal(asked, plain)
    assert "[[dont_unroll]]" in source


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 3000), st.integers(1, 5000))
def test_no_tile_has_more_terms_than_the_bound_is_for(m: int, n: int, k: int) -> None:
    limits = TargetLimits.of(Target({"kind": "vulkan", "supports_float16": True}, Target(HOST)), ON)
    for tile in gemm.candidates(Product(1, m, n, k, fp16=True), limits):
        assert tile.k // tile.slice_k <= MOST_TERMS


@pytest.mark.parametrize(
    "name",
    ["blocks", *(pytest.param(n, marks=pytest.mark.slow) for n in ("squeezenet1_1", "resnet18"))],
)
def test_networks_are_as_right_as_with_sums_in_float32(name: str) -> None:
    model = NETWORKS[name](64)
    module, signature = import_onnx(model)
    image = np.random.default_rng(2).random((1, 3, 64, 64), "float32")
    expected = reference(model, image)
    off = {}
    for how in ("off", "on"):
        made = compile_model(
            module, signature, target="vulkan", precision="fp16", packed_fp16=how, layout="nchw",
            coopmat=False,
        )  # fmt: skip
        assert bool(SUMS.search(made.library.source())) == (how == "on")
        executor = executor_of(made)
        executor.run(input=image)
        results = list(executor.outputs().values())
        off[how] = max(
            np.abs(one - other).max() / np.abs(other).max()
            for one, other in zip(results, expected, strict=True)
        )
    assert off["on"] < 5e-3 and off["on"] < 4 * off["off"]


@pytest.mark.parametrize(("kernel", "pads"), [(7, True), (3, False)])
def test_first_layers_round_the_image_as_they_fetch_it(kernel: int, pads: bool) -> None:
    """The network's input stays float32; of both factors in fp16 the sums can be in fp16."""
    net = Builder(5)
    x = net.node("Pad", ["input", net.constant(np.array([0, 0, 1, 1] * 2))]) if pads else "input"
    model = net.model(64, [(net.conv(x, 3, 64, kernel, 2, act="relu"), onnx.TensorProto.FLOAT)])
    module, signature = import_onnx(model)
    image = np.random.default_rng(2).random((1, 3, 64, 64), "float32")
    for how in ("off", "on"):
        made = compile_model(
            module, signature, target="vulkan", precision="fp16", packed_fp16=how, layout="nchw",
            coopmat=False, winograd="off",
        )  # fmt: skip
        source = made.library.source()
        assert bool(SUMS.search(source)) == (how == "on")
        assert re.search(r"readonly buffer in0_\w*block \{ (float|vec4) ", source)
        executor = executor_of(made)
        executor.run(input=image)
        (result,), (expected,) = executor.outputs().values(), reference(model, image)
        assert np.abs(result - expected).max() < 5e-3 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("attributes", "option", "packed"),
    [
        ({"device_type": "integrated", "supports_float16": True}, "auto", True),
        ({"device_type": "integrated", "supports_float16": True}, "off", False),
        ({"device_type": "integrated", "supports_float16": False}, "on", False),
        ({"device_type": "discrete", "supports_float16": True}, "auto", False),
        ({"device_type": "discrete", "supports_float16": True}, "on", True),
        ({"device_type": "cpu", "supports_float16": True}, "auto", False),
        ({}, "auto", False),
    ],
)
def test_who_has_them(attributes: dict[str, Any], option: str, packed: bool) -> None:
    target = Target({"kind": "vulkan", **attributes}, Target(HOST))
    limits = TargetLimits.of(target, CompileOptions(packed_fp16=option))
    assert limits.device.packed_fp16 is packed


def test_other_products_are_added_up_as_before() -> None:
    a, b = te.placeholder((32, 64)), te.placeholder((64, 64))
    function = te.create_prim_func([a, b, topi.matmul(a, b)])
    tile = ScheduleConfig("contraction", GemmTile(16, 64, 16))
    made = [
        schedule_with(function, TargetLimits.of(device(), CompileOptions(packed_fp16=how)), tile)
        for how in ("on", "off")
    ]
    tvm.ir.assert_structural_equal(*made)
