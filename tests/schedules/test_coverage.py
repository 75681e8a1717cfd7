"""Which parts of a function's results are never written, and that no schedule leaves any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from support.lowering import HOST
from support.schedule_runs import target
from tvm_vision.errors import UnsupportedKernelError
from tvm_vision.schedules import TargetLimits, schedule_function, schedule_module
from tvm_vision.schedules.coverage import unwritten

SIZES = st.integers(1, 40)


def doubled(*shape: int) -> tirx.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    return te.create_prim_func([x, te.compute(shape, lambda *at: x(*at) * 2.0, name="y")])


def spread(shape: tuple[int, ...], threads: int, along: int) -> Schedule:
    """Over threads, some neighbours each, under a condition where it does not come out even."""
    schedule = Schedule(doubled(*shape))
    fused = schedule.fuse(*schedule.get_loops(schedule.get_sblock("y")))
    group, thread, own = schedule.split(fused, [None, threads, along])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    schedule.unroll(own)
    return schedule


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=4), st.sampled_from([1, 7, 32]), st.integers(1, 4))
def test_all_of_a_result_is_found(shape: list[int], threads: int, along: int) -> None:
    assert unwritten(spread(tuple(shape), threads, along).mod["main"]) == []


@settings(max_examples=20, deadline=None)
@given(SIZES, SIZES, st.integers(1, 7))
def test_an_end_that_is_left_out_is_found(rows: int, columns: int, less: int) -> None:
    written = max(0, columns - less)

    @T.prim_func(private=True)
    def part(x: T.Buffer((rows, columns), "float32"), y: T.Buffer((rows, columns), "float32")):
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for j in T.thread_binding(written, thread="threadIdx.x"):
                y[i, j] = x[i, j]

    assert unwritten(part) == ["y"]


@settings(max_examples=10, deadline=None)
@given(SIZES, SIZES)
def test_gaps_are_found(rows: int, columns: int) -> None:
    @T.prim_func(private=True)
    def gaps(x: T.Buffer((rows, 2 * columns), "float32"), y: T.Buffer((rows, 2 * columns))):
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for j in T.thread_binding(columns, thread="threadIdx.x"):
                y[i, 2 * j] = x[i, 2 * j]

    assert unwritten(gaps) == ["y"]


def test_conditions_and_several_stores_are_put_together() -> None:
    @T.prim_func(private=True)
    def halves(x: T.Buffer((8, 6), "float32"), y: T.Buffer((8, 6), "float32")):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(6, thread="threadIdx.x"):
                if i * 6 + j < 20:
                    y[i, j] = x[i, j]
                else:
                    y[7 - (7 - i), j] = T.float32(0)

    @T.prim_func(private=True)
    def one_half(x: T.Buffer((8, 6), "float32"), y: T.Buffer((8, 6), "float32")):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(6, thread="threadIdx.x"):
                if i * 6 + j < 20:
                    y[i, j] = x[i, j]

    assert unwritten(halves) == []
    assert unwritten(one_half) == ["y"]


def test_nothing_is_said_of_places_that_data_decides() -> None:
    @T.prim_func(private=True)
    def scatter(at: T.Buffer((8,), "int32"), y: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            y[at[i]] = T.float32(1)

    assert unwritten(scatter) == []


def test_a_function_that_comes_with_threads_must_write_its_results() -> None:
    @T.prim_func(private=True)
    def half(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in T.thread_binding(4, thread="threadIdx.x"):
            y[i] = x[i]

    with pytest.raises(UnsupportedKernelError, match="'half' must write all of its results.* y as"):
        schedule_module(tvm.IRModule({"half": half}), target())


def padded_pool(before: int, after: int) -> tirx.PrimFunc:
    x = te.placeholder((1, 6, 9, 9), "float32", "x")
    pooled = topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), "max")
    return te.create_prim_func([x, topi.nn.pad(pooled, (0, before, 0, 0), (0, after, 0, 0), -1.0)])


def widened(kind: str) -> tirx.PrimFunc:
    """A product of one row, or a sum, that all of an image is multiplied by."""
    image = te.placeholder((24, 10, 10), "float32", "image")
    x = te.placeholder((1, 16), "float32", "x")
    w = te.placeholder((16, 24), "float32", "w")
    if kind == "product":
        gate = topi.matmul(x, w)
        inputs = [x, w, image]
    else:
        gate = topi.sum(image, axis=[1, 2], keepdims=False)
        gate = topi.reshape(gate, (1, 24))
        inputs = [image]
    result = te.compute((24, 10, 10), lambda c, i, j: image[c, i, j] * gate[0, c], name="result")
    return te.create_prim_func([*inputs, result])


@pytest.mark.parametrize(
    "function",
    [padded_pool(0, 2), padded_pool(2, 0), padded_pool(1, 3), widened("product"), widened("sum")],
)
def test_every_schedule_writes_all_of_what_follows_a_sum(
    device_info: Any, function: tirx.PrimFunc
) -> None:
    shapes = [tuple(int(n) for n in p.ty.shape) for p in function.params]
    arrays = [np.random.default_rng(i).standard_normal(s).astype("f") for i, s in enumerate(shapes)]
    results = []
    scheduled, kind = schedule_function(function, TargetLimits.of(target()), target())
    assert kind != "none" and unwritten(scheduled) == []
    for made, of, device in (
        (scheduled, target(), tvm.vulkan(0)),
        (function, tvm.target.Target(HOST), tvm.cpu()),
    ):
        with of:
            named = tvm.IRModule({"main": made.with_attr("global_symbol", "main")})
            library = tvm.tirx.build(named, target=of)
        out = tvm.runtime.tensor(np.full(shapes[-1], np.nan, "float32"), device)
        library["main"](*(tvm.runtime.tensor(a, device) for a in arrays[:-1]), out)
        results.append(out.numpy())
    assert np.abs(results[0] - results[1]).max() <= 1e-5 * np.abs(results[1]).max()
