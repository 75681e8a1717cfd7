"""The subgroup size that a kernel is best with: asked for where a device has it, nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.script import tirx as T
from tvm.target import Target

from support import lowering
from support.schedule_runs import fused
from tvm_vision.devices import known_devices
from tvm_vision.options import CompileOptions
from tvm_vision.schedules import TargetLimits
from tvm_vision.schedules.gpu.kernel_marks import KEEP_LOOPS, SUBGROUP, with_marks
from tvm_vision.schedules.module import schedule_function
from tvm_vision.vulkan.codegen.glsl.kernel import FLAG_PREFERRED_SUBGROUP, SUBGROUP_SHIFT


@T.prim_func(s_tir=True)
def doubled(a: T.Buffer((96,), "float32"), b: T.Buffer((96,), "float32")):
    for g in T.thread_binding(3, "blockIdx.x"):
        for i in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("b"):
                x = T.axis.spatial(96, g * 32 + i)
                b[x] = a[x] * T.float32(2)


@T.prim_func(s_tir=True)
def pooled(a: T.Buffer((64, 4), "float32"), b: T.Buffer((64,), "float32")):
    for i, j in T.grid(64, 4):
        with T.sblock("b"):
            x, k = T.axis.remap("SR", [i, j])
            with T.init():
                b[x] = T.float32(0)
            b[x] = T.max(b[x], a[x, k])


@T.prim_func(s_tir=True)
def multiplied(
    a: T.Buffer((64, 64), "float32"),
    b: T.Buffer((64, 64), "float32"),
    c: T.Buffer((64, 64), "float32"),
):
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("c"):
            x, y, z = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[x, y] = T.float32(0)
            c[x, y] = c[x, y] + a[x, z] * b[z, y]


@T.prim_func(s_tir=True)
def multiplied_halves(
    a: T.Buffer((512, 512), "float16"),
    b: T.Buffer((512, 512), "float16"),
    c: T.Buffer((512, 512), "float32"),
):
    for i, j, k in T.grid(512, 512, 512):
        with T.sblock("c"):
            x, y, z = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[x, y] = T.float32(0)
            c[x, y] = c[x, y] + T.Cast("float32", a[x, z]) * T.Cast("float32", b[z, y])


def flags_of(function: Any) -> tuple[int, bool]:
    """Lanes, and whether they are only preferred."""
    (kernel,) = lowering.kernels(function)
    return kernel.flags >> SUBGROUP_SHIFT, bool(kernel.flags & FLAG_PREFERRED_SUBGROUP)


def test_the_mark_becomes_a_flag() -> None:
    assert flags_of(doubled) == (0, False)
    assert flags_of(with_marks(doubled, {SUBGROUP: 32})) == (32, True)


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("lanes", [1, 8, 32, 128])
def test_a_device_without_it_runs_the_kernel_all_the_same(lanes: int) -> None:
    data = np.arange(96, dtype="float32")
    marked = with_marks(doubled, {SUBGROUP: lanes})
    _, found = lowering.execute(marked, data, np.zeros_like(data))
    np.testing.assert_array_equal(found, 2 * data)


@pytest.mark.parametrize(
    ("device", "function", "kind", "lanes"),
    [
        ("tgl", pooled, "window", 32),
        # Its tiles are as many registers as narrow subgroups have.
        ("tgl", multiplied, "contraction", 0),
        # Where there is no choice, or one that nobody found to be of use.
        ("renoir", pooled, "window", 0),
        ("lavapipe", pooled, "window", 0),
    ],
)
def test_kernels_of_few_registers_ask_for_it_where_the_driver_chooses(
    device: str, function: Any, kind: str, lanes: int
) -> None:
    target = Target(known_devices()[device].target_config())
    for option, expected in ((True, lanes), (False, 0)):
        limits = TargetLimits.of(target, CompileOptions(wide_subgroups=option))
        scheduled, found = schedule_function(function, limits)
        assert found == kind
        assert (str(SUBGROUP) in str(scheduled)) == bool(expected)
        assert limits.wide_subgroup == (32 if option and device == "tgl" else 0)


@pytest.mark.parametrize(
    ("device", "packed", "lanes"),
    [("tgl", "auto", 16), ("arc", "auto", 16), ("tgl", "off", 0), ("renoir", "auto", 0)],
)
def test_packed_products_ask_for_lanes_that_fill_a_register(
    device: str, packed: str, lanes: int
) -> None:
    """Of 16 bits each, and twice the narrowest subgroup; their loop over tiles stays a loop."""
    target = Target(known_devices()[device].target_config())
    limits = TargetLimits.of(target, CompileOptions(packed_fp16=packed))
    scheduled, found = schedule_function(multiplied_halves, limits)
    assert found == "contraction"
    (kernel,) = lowering.kernels(scheduled, target)
    assert kernel.flags >> SUBGROUP_SHIFT == lanes
    assert ("[[dont_unroll]]" in kernel.source) == (KEEP_LOOPS in str(scheduled)) == bool(lanes)


@pytest.mark.parametrize(("terms", "wide"), [(197, True), (768, False)])
def test_rows_that_are_kept_need_room(terms: int, wide: bool) -> None:
    """Of a softmax, as a thread goes through its terms again."""
    target = Target(known_devices()["tgl"].target_config())
    build = fused(relax.op.nn.softmax, [(197, terms)], "float16")
    (function,) = (f for f in build.functions.values() if isinstance(f, tirx.PrimFunc))
    scheduled, found = schedule_function(function, TargetLimits.of(target))
    assert found == "reduction"
    assert (str(SUBGROUP) in str(scheduled)) is wide


def test_outputs_with_much_in_common_need_room() -> None:
    target = Target(known_devices()["tgl"].target_config())

    def enlarged(a: Any) -> Any:
        return relax.op.image.resize2d(a, relax.ShapeExpr([80, 96]), layout="NCHW", method="linear")

    for build, wide in ((enlarged, False), (relax.op.nn.relu, True)):
        made = fused(build, [(1, 16, 20, 24)], "float16").functions.values()
        (function,) = (f for f in made if isinstance(f, tirx.PrimFunc))
        scheduled, found = schedule_function(function, TargetLimits.of(target))
        assert found == "elementwise"
        assert (str(SUBGROUP) in str(scheduled)) is wide
