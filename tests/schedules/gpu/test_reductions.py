"""Pools, sums, softmax, normalisations and arg max against numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from support.numpy_operators import average_pool, max_pool, softmax
from support.schedule_runs import check, fused, noise, run
from tvm_vision.devices import known_devices
from tvm_vision.schedules.common import TargetLimits
from tvm_vision.schedules.gpu.reduction import RowShape, RowSums, candidates, default, shape_of
from tvm_vision.schedules.templates import ScheduleConfig, schedule_with

pytestmark = pytest.mark.usefixtures("device_info")

OP, NN = relax.op, relax.op.nn


def times_place(x: Any, axis: int) -> Any:
    """One kernel, which goes through each row again for results that are as long."""
    return OP.multiply(x, OP.astype(OP.argmax(x, axis, keepdims=True), "float32"))


# name: (operator, numpy's, shape, kind)
CASES: dict[str, tuple[Any, Any, tuple[int, ...], str]] = {
    "global pool": (
        lambda x: OP.mean(x, [2, 3]), lambda x: x.mean((2, 3)), (1, 80, 7, 7), "reduction",
    ),
    "global pool, odd": (
        lambda x: OP.mean(x, [2, 3], keepdims=True), lambda x: x.mean((2, 3), keepdims=True),
        (2, 37, 13, 11), "reduction",
    ),
    "sum of all": (lambda x: OP.sum(x), lambda x: x.sum(), (3, 17, 32), "reduction"),
    "mean of all": (lambda x: OP.mean(x), lambda x: x.mean(), (33, 32, 20), "reduction"),
    "short sum of all": (lambda x: OP.sum(x), lambda x: x.sum(), (2, 3), "window"),
    "sum of one": (lambda x: OP.sum(x, [1]), lambda x: x.sum(1), (1, 1), "window"),
    "sum of a prime": (lambda x: OP.sum(x, [1]), lambda x: x.sum(1), (6, 101), "reduction"),
    "sum over the first axis": (
        lambda x: OP.sum(x, [0]), lambda x: x.sum(0), (64, 33), "reduction",
    ),
    "max": (lambda x: OP.max(x, [1]), lambda x: x.max(1), (4, 100, 7), "reduction"),
    "many short sums": (lambda x: OP.sum(x, [1]), lambda x: x.sum(1), (900, 5), "window"),
    "variance": (lambda x: OP.variance(x, [1]), lambda x: x.var(1), (6, 60), "reduction"),
    "arg max of classes": (
        lambda x: OP.argmax(x, 1), lambda x: x.argmax(1), (2, 300), "reduction",
    ),
    "arg max of pixels": (
        lambda x: OP.argmax(x, 1), lambda x: x.argmax(1), (1, 3, 20, 22), "window",
    ),
    "values times the arg max of classes": (
        lambda x: times_place(x, 1), lambda x: x * x.argmax(1, keepdims=True), (2, 300),
        "reduction",
    ),
    "values times the arg max of pixels": (
        lambda x: times_place(x, 1), lambda x: x * x.argmax(1, keepdims=True), (1, 6, 9, 11),
        "reduction",
    ),
    "softmax of classes": (
        lambda x: NN.softmax(x, 1), lambda x: softmax(x, 1), (2, 1000), "reduction",
    ),
    "softmax of pixels": (
        lambda x: NN.softmax(x, 1), lambda x: softmax(x, 1), (2, 5, 9, 11), "reduction",
    ),
    "softmax of one": (lambda x: NN.softmax(x, 1), lambda x: softmax(x, 1), (1, 1), "reduction"),
    "max pool": (
        lambda x: NN.max_pool2d(x, [3, 3], strides=2, padding=1), lambda x: max_pool(x, 3, 2, 1),
        (2, 5, 12, 13), "window",
    ),
    "average pool": (
        lambda x: NN.avg_pool2d(x, [2, 2], strides=2), lambda x: average_pool(x, 2, 2),
        (1, 3, 9, 9), "window",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reduction_equals_numpy(name: str) -> None:
    build, reference, shape, kind = CASES[name]
    x = noise([shape], len(name))[0]
    expected = np.asarray(reference(x.astype("float64")))
    assert check(build, [x], expected) == [kind]


def test_layer_norm_equals_numpy() -> None:
    x, scale, shift = noise([(5, 96), (96,), (96,)])
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift

    def build(x: Any, g: Any, b: Any) -> Any:
        return NN.layer_norm(x, g, b, axes=[-1])

    assert check(build, [x, scale, shift], expected) == ["reduction"]


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    st.integers(0, 3),
    st.sampled_from(["sum", "max", "softmax"]),
)
def test_any_reduction_equals_numpy(shape: list[int], axis: int, kind: str) -> None:
    axis %= len(shape)
    x = noise([shape])[0]
    build, reference = {
        "sum": (lambda v: OP.sum(v, [axis]), lambda v: v.sum(axis)),
        "max": (lambda v: OP.max(v, [axis]), lambda v: v.max(axis)),
        "softmax": (lambda v: NN.softmax(v, axis), lambda v: softmax(v, axis)),
    }[kind]
    check(build, [x], reference(x.astype("float64")))


@pytest.mark.parametrize(
    ("rows", "terms", "along_rows", "threads", "shape"),
    [
        (1000, 2048, True, 1024, RowShape(8, 128, True)),  # few workgroups: more, of more threads
        (1000, 2048, True, 256, RowShape(8, 32, True)),
        (512, 49, True, 1024, RowShape(8, 32, True)),  # more parts would be too short
        (21841, 448, True, 1024, RowShape(32, 8, True)),  # a prime number
        (101, 448, True, 1024, RowShape(8, 32, True)),
        (4096, 25088, True, 1024, RowShape(8, 32, True)),
        (8192, 2048, True, 1024, RowShape(16, 16, True)),
        (1, 36864, False, 1024, RowShape(1, 1024, False)),  # a norm of all of a layer
        (1, 36864, False, 256, RowShape(1, 256, False)),
        (32, 10240, False, 1024, RowShape(1, 512, False)),
        (8, 1000, False, 1024, RowShape(1, 256, False)),
        (8192, 2048, False, 1024, RowShape(4, 32, False)),
        (3152, 768, False, 1024, RowShape(2, 64, False)),  # the device runs these at once
        (784, 192, False, 1024, RowShape(2, 64, False)),
        (3136, 96, False, 1024, RowShape(4, 32, False)),  # more parts would be too short
    ],
)
def test_few_workgroups_have_more_threads(
    rows: int, terms: int, along_rows: bool, threads: int, shape: RowShape
) -> None:
    sums, limits = RowSums((rows,), terms, along_rows), TargetLimits(threads, 32768, 32)
    assert default(sums, limits) == shape
    assert all(c.rows * c.parts <= threads for c in candidates(sums, limits))


@pytest.mark.parametrize(
    ("name", "parts"), [("renoir", (64, 64, 32)), ("phoenix", (64, 64, 64)), ("tgl", (32, 32, 32))]
)
def test_few_rows_are_few_for_the_device(name: str, parts: tuple[int, ...]) -> None:
    """Tokens of a transformer are a workgroup's threads each on a large GPU alone: integrated ones
    have hundreds of them to wait for."""
    own = TargetLimits.of(Target(known_devices()[name].target_config()))
    large = TargetLimits(1024, 49152, 32)
    tokens = [RowSums((rows,), terms, along_rows=False) for rows, terms in
              ((196, 384), (197, 192), (256, 384))]  # fmt: skip
    assert tuple(default(sums, own).parts for sums in tokens) == parts
    assert [default(sums, large).parts for sums in tokens] == [256, 128, 256]
    assert default(RowSums((12,), 384, along_rows=False), own).parts == 256


@pytest.mark.parametrize("name", ["renoir", "phoenix", "tgl"])
@pytest.mark.parametrize("rows", [8, 32, 512])
def test_very_long_rows_have_as_many_threads_as_there_can_be(name: str, rows: int) -> None:
    """Normalizations of large images, of a thread for each 128 terms at the most; but what was
    timed keeps what it had."""
    own = TargetLimits.of(Target(known_devices()[name].target_config()))
    timed = TargetLimits(1024, 49152, 32)
    for terms in (1 << 14, 51200, 1 << 17):
        of_images = RowSums((rows,), terms, along_rows=False)
        assert default(of_images, own) == RowShape(1, 1024, False)
        assert rows < 512 or default(of_images, timed).parts <= 256
        channels_last = default(RowSums((rows,), terms, along_rows=True), own)
        assert channels_last.rows * channels_last.parts == 1024
        assert default(of_images, own) in candidates(of_images, own)
    assert default(RowSums((rows,), (1 << 14) - 1, along_rows=False), own).parts <= 512


@pytest.mark.parametrize("shape", [(40, 9, 1, 1), (1, 40, 9, 1), (40, 9, 1, 7), (40, 9)])
def test_axes_of_one_element_say_nothing_of_neighbours(shape: tuple[int, ...]) -> None:
    """A sum over the axis of 9 reads neighbours in a row of it, but where 7 lie within each."""
    axis = shape.index(9)
    mod = fused(lambda x: OP.sum(x, [axis]), [shape], "float32")
    (function,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    assert shape_of(Schedule(function)).along_rows == (shape[-1] == 7)


@pytest.mark.parametrize("along", [False, True])
def test_heads_of_a_product_are_rows_by_themselves(along: bool) -> None:
    """Its last index is of the head and of the place in it: what counts is which goes by one."""
    heads, width = 3, 40
    x, k = te.placeholder((5, heads * width), name="x"), te.reduce_axis((0, width), name="k")
    summed = te.compute(
        (5, heads), lambda i, h: te.sum(x[i, k * heads + h if along else h * width + k], axis=k)
    )
    assert shape_of(Schedule(te.create_prim_func([x, summed]))).along_rows is along


def test_many_rows_have_a_thread_each_where_those_read_neighbours() -> None:
    """A softmax of attention has tens of thousands of rows, each by itself in memory: a thread for
    each would read places that lie a row apart."""
    limits, rows = TargetLimits(1024, 49152, 32), (16, 12, 197)
    assert RowSums(rows, 197, along_rows=True).suit_threads(limits)
    assert not RowSums(rows, 197, along_rows=False).suit_threads(limits)
    assert RowSums(rows, 8, along_rows=False).suit_threads(limits)  # short
    assert default(RowSums(rows, 197, along_rows=False), limits).parts == 32


@pytest.mark.parametrize(
    ("rows", "terms", "parts"), [(9408, 49, 16), (64, 49, 16), (3136, 32, 16), (784, 96, 16)]
)
def test_no_thread_of_a_short_row_has_less_than_a_few_terms(
    rows: int, terms: int, parts: int
) -> None:
    """Of windows of seven, as Swin's have; but what was timed keeps what it had."""
    sums = RowSums((rows,), terms, along_rows=False)
    tgl = TargetLimits.of(Target(known_devices()["tgl"].target_config()))
    assert default(sums, tgl).parts == parts
    lavapipe = TargetLimits.of(Target(known_devices()["lavapipe"].target_config()))
    assert default(sums, lavapipe).parts == 32


def test_pixels_of_a_small_image_share_their_sums_on_small_gpus() -> None:
    """A norm over channels that come first, of 56x56 pixels: as many threads are few for a GPU of
    eight units, by its model, that wait for each of 40 channels."""
    renoir = TargetLimits.of(Target(known_devices()["renoir"].target_config()))
    assert not RowSums((56, 56), 40, along_rows=True).suit_threads(renoir)
    assert RowSums((112, 112), 40, along_rows=True).suit_threads(renoir)


def test_many_single_sums_that_lie_in_a_row_or_two_of_a_cache_have_a_thread_each() -> None:
    """A convolution of 1x1 with three outputs for each of 416x416 pixels, channels last: in
    workgroups that share a sum it had 173,056 of them, and took four times as long by the model."""
    limits = TargetLimits(1024, 49152, 32)
    assert RowSums((416, 416, 3), 32, along_rows=False).suit_windows(limits)
    assert not RowSums((416, 416, 3), 32, along_rows=False, again=True).suit_windows(limits)
    assert not RowSums((416, 416, 3), 197, along_rows=False).suit_windows(limits)
    assert not RowSums((26, 26, 3), 32, along_rows=False).suit_windows(limits)


def test_long_sums_in_few_workgroups_equal_numpy() -> None:
    left, right = noise([(1, 2048), (2048, 100)])
    expected = left.astype("float64") @ right
    assert check(relax.op.matmul, [left, right], expected) == ["reduction"]


@pytest.mark.parametrize(
    ("shape", "window", "outputs"),
    [((1, 96, 20, 20), 5, 1), ((1, 61, 9, 14), 3, 2), ((1, 16, 6, 7, 9), 3, 1)],
    ids=["5x5", "channels that parts leave a rest of", "three axes"],
)
def test_threads_share_the_channels_of_windows_of_few_results(
    shape: tuple[int, ...], window: int, outputs: int
) -> None:
    """Heads for flow, depth or one score at few pixels: each term's place was three quotients of
    one number, by the model of renoir 17 times as long as its arithmetic."""
    axes = len(shape) - 2
    x, weights = noise([shape, (outputs, shape[1], *[window] * axes)], 7)
    convolution = {2: NN.conv2d, 3: NN.conv3d}[axes]
    mod = fused(lambda *of: convolution(*of, padding=window // 2), [x.shape, weights.shape])
    ((name, function),) = (
        (name, f) for name, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)
    )
    limits = TargetLimits.of(Target(known_devices()["renoir"].target_config()))
    sums = shape_of(Schedule(function))
    assert sums.axes == (shape[1], *[window] * axes)
    chosen = default(sums, limits)
    assert chosen.one_axis and chosen in candidates(sums, limits)
    assert not default(sums, TargetLimits(1024, 49152, 32)).one_axis  # what was measured
    made, before = (
        schedule_with(function, limits, ScheduleConfig("reduction", of))
        for of in (chosen, replace(chosen, one_axis=False))
    )
    assert quotients(made) < quotients(before)
    border = [(0, 0), (0, 0), *[(window // 2, window // 2)] * axes]
    padded = np.pad(x.astype("float64"), border)
    wanted = np.zeros((shape[0], outputs, *shape[2:]))
    for place in np.ndindex(*[window] * axes):
        own = [slice(n, n + extent) for n, extent in zip(place, shape[2:], strict=True)]
        part, factors = (slice(None), slice(None), *own), (slice(None), slice(None), *place)
        wanted += np.einsum("nc...,oc->no...", padded[part], weights[factors])
    mod.update_func(name, made)
    found = run(mod, [x, weights])
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def quotients(function: tirx.PrimFunc) -> int:
    """Divisions and remainders that are written in a function."""
    text = function.script()
    return sum(text.count(sign) for sign in (" // ", " % "))
