"""Whole modules: no kernel is left without threads, what has some is left alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import tvm
from tvm import relax, te, tirx
from tvm.script import tirx as T
from tvm.target import Target

from support import networks
from support.lowering import HOST
from support.schedule_runs import fused, target
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.frontend.onnx.load import import_onnx
from tvm_vision.schedules import (
    TEMPLATES,
    TUNED,
    ScheduleConfig,
    choices,
    schedule_function,
    schedule_module,
    schedule_with,
)
from tvm_vision.schedules.common import (
    NotThisKind,
    TargetLimits,
    can_schedule,
    left_to_host,
)
from tvm_vision.schedules.module import NONE, is_scheduled

# Of subgroups of 8, 32 and 64; the first has only what every Vulkan device has.
TARGETS = [
    {"max_threads_per_block": 128, "max_shared_memory_per_block": 16384, "thread_warp_size": 8},
    {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32},
    {"max_threads_per_block": 1024, "max_shared_memory_per_block": 65536, "thread_warp_size": 64},
]


def kernels_of(name: str, size: int, target: Target) -> tvm.IRModule:
    """The kernels of a network, fused but without schedules."""
    module, _ = import_onnx(networks.NETWORKS[name](size))
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(
            [
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FuseOps(),
                relax.transform.FuseTIR(),
                relax.transform.DeadCodeElimination(),
            ]
        )(module)


@pytest.mark.parametrize("name", networks.mainly("blocks", "yoeo_like"))
def test_no_kernel_of_a_network_is_left_unscheduled(name: str) -> None:
    target = Target({"kind": "vulkan", **TARGETS[1]}, host=Target(HOST))
    for function in kernels_of(name, 96, target).functions.values():
        if isinstance(function, tirx.PrimFunc):
            result, kind = schedule_function(function, TargetLimits.of(target))
            assert kind != NONE
            assert "threadIdx.x" in result.script()


@pytest.mark.parametrize(
    "attributes",
    [TARGETS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in TARGETS[1:])],
    ids=lambda a: str(a["thread_warp_size"]),
)
def test_kernels_build_for_other_devices(attributes: dict[str, int]) -> None:
    target = Target({"kind": "vulkan", "supports_int64": True, **attributes}, host=Target(HOST))
    mod = schedule_module(kernels_of("shufflenet_v2", 64, target), target)
    with target:
        relax.build(mod, target=target)  # refuses too many threads, too much shared memory


def doubled(size: int) -> tirx.PrimFunc:
    source = te.placeholder((size,), name="source")
    return te.create_prim_func([source, te.compute((size,), lambda i: source[i] * 2)])


def test_kernel_gets_threads_of_the_target() -> None:
    target = Target({"kind": "vulkan", **TARGETS[0]}, host=Target(HOST))
    scheduled = schedule_module(tvm.IRModule({"kernel": doubled(70000)}), target)["kernel"]
    assert is_scheduled(scheduled)
    assert "threadIdx.x" in scheduled.script()


def test_scheduled_kernels_stay_as_they_are() -> None:
    target = Target({"kind": "vulkan", **TARGETS[0]}, host=Target(HOST))
    once = schedule_module(tvm.IRModule({"kernel": doubled(9)}), target)
    assert schedule_module(once, target)["kernel"].same_as(once["kernel"])


def _always(choice: ScheduleConfig, _kernel: Any) -> ScheduleConfig:
    return choice


def test_a_tuned_choice_is_marked_and_one_that_does_not_fit_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target({"kind": "vulkan", "max_threads_per_block": 128})
    for threads, fits in ((64, True), (0, False)):
        choice = ScheduleConfig("elementwise", TEMPLATES["elementwise"].parameters(threads, 1))
        doubling = tvm.IRModule({"kernel": doubled(70000)})
        mod = schedule_module(doubling, target, partial(_always, choice))
        assert is_scheduled(mod["kernel"]) and (TUNED in mod["kernel"].attrs) == fits
        assert ("a tuned choice is passed over" in caplog.text) == (not fits)


@T.prim_func(s_tir=True)
def product_and_copy(
    a: T.Buffer((64, 64), "float32"),
    b: T.Buffer((64, 64), "float32"),
    c: T.Buffer((64, 64), "float32"),
):
    unread = T.sblock_alloc_buffer((64, 64), "float32")
    for i, j in T.grid(64, 64):
        with T.sblock("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            unread[vi, vj] = a[vi, vj]
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]


def test_what_a_template_leaves_to_the_host_is_refused() -> None:
    target = Target({"kind": "vulkan", **TARGETS[1]}, host=Target(HOST))
    limits = TargetLimits.of(target)
    choice = next(c for c in choices(product_and_copy, limits) if c.template == "contraction")
    with pytest.raises(NotThisKind, match="leaves unread without threads"):
        schedule_with(product_and_copy, limits, choice)
    scheduled, kind = schedule_function(product_and_copy, limits, target)
    assert kind not in (NONE, "contraction")
    assert not left_to_host(scheduled)


@T.prim_func(s_tir=True)
def loop(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        b[i] = a[i]


def test_kernels_without_threads_are_refused() -> None:
    target = Target({"kind": "vulkan", **TARGETS[1]}, host=Target(HOST))
    with pytest.raises(UnsupportedKernelError, match="kernel 'name' has no schedule"):
        schedule_module(tvm.IRModule({"name": loop}), target)
    claimed = tvm.IRModule({"name": loop.with_attr("tirx.is_scheduled", True)})
    with pytest.raises(UnsupportedKernelError, match="'name' needs threads .* has none for b"):
        schedule_module(claimed, target)


def test_unknown_sizes_get_a_schedule() -> None:
    size = tirx.Var("n", "int64")
    source = te.placeholder((size,), name="source")
    function = te.create_prim_func([source, te.compute((size,), lambda i: source[i] * 2)])
    assert "threadIdx.x" in schedule_function(function, TargetLimits(256, 16384, 32))[0].script()


@pytest.mark.usefixtures("device_info")
def test_missing_attributes_are_those_of_every_device() -> None:
    limits = TargetLimits.of(Target({"kind": "vulkan"}))
    assert limits.threads >= 128
    assert limits.shared_bytes >= 16384
    assert fused(relax.op.nn.relu, [(3,)]).get_global_vars()


@pytest.mark.faulty_templates
def test_a_fault_of_a_schedule_is_told_and_another_one_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What no schedule raises of a kernel that is not its own: the tests fail where it is met."""

    def faulty(*_: Any) -> None:
        raise ValueError("a block is gone")

    function = fused(lambda x: relax.op.exp(x), [(40, 50)])["tir_exp"]
    monkeypatch.setitem(TEMPLATES, "elementwise", replace(TEMPLATES["elementwise"], apply=faulty))
    limits = TargetLimits.of(target())
    assert not can_schedule(faulty, function, limits)
    assert schedule_function(function, limits, target())[1] != "elementwise"
    assert caplog.text.count("passed over: ") == caplog.text.count("a block is gone") >= 2
