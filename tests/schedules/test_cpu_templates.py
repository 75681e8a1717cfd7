"""The templates of processors: each way of computing a kernel gives what its sums say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi
from tvm.target import Target

from support import window_kernels
from support.compiled import this_processor
from tvm_vision.schedules import (
    NotThisKind,
    ScheduleConfig,
    TargetLimits,
    choices,
    cpu_schedules,
    is_offered,
    limits_of,
    schedule_with,
)
from tvm_vision.topi import nchwc
from tvm_vision.topi.winograd import (
    Tiling,
    transform_image_in_blocks,
    transform_output_in_blocks,
)
from tvm_vision.tuning.measure import compare
from tvm_vision.tuning.worker import Argument, random_array

HERE = this_processor()
LIMITS = limits_of(HERE)
GPU = TargetLimits(threads=128, shared_bytes=16384, subgroup=32)
B = 8  # lanes of a block
CHANNELS = [3, 1, 0, 9, 12, 5, 6, 7, 2]  # of a gather: those of two blocks of the result
TABLE = tuple(CHANNELS + CHANNELS[-1:] * (2 * B - len(CHANNELS)))
Maker = Callable[[], Any]


def convolution(
    size: tuple[int, int], channels: tuple[int, int], kernel: tuple[int, int] = (1, 1), *,
    pad: int = 0, **how: Any,
) -> Maker:  # fmt: skip
    """With a bias and relu behind it."""
    return lambda: window_kernels.convolution(
        size, channels, kernel, pads=(pad, pad), lanes=B, behind=_behind, **how
    )


def depthwise(size: tuple[int, int], channels: int, k: int, stride: int) -> Maker:
    return lambda: window_kernels.depthwise(size, channels, (k, k), stride, lanes=B, behind=_behind)


def pool(size: tuple[int, int]) -> Maker:
    def make() -> Any:
        window = nchwc.SlidingWindow((3, 3), (2, 2), 1, 1, (1, 1))
        x = te.placeholder((1, 3, *size, B), "float32", "x")
        out = [(extent - 1) // 2 + 1 for extent in size]
        return te.create_prim_func([x, nchwc.max_pool(x, window, out)])

    return make


def transformed(m: int, size: tuple[int, int], pads: tuple[int, int], images: int = 1) -> Maker:
    """An image of 2 blocks for Winograd's convolution; its size is that of the result."""

    def make() -> Any:
        tiling = Tiling(m, images, *size, *pads)
        shape = sizes(images, 2, size[0] + 2 - 2 * pads[0], size[1] + 2 - 2 * pads[1], B)
        x = te.placeholder(shape, "float32", "x")
        return te.create_prim_func([x, transform_image_in_blocks(x, tiling)])

    return make


def transformed_back(m: int, size: tuple[int, int], images: int = 1) -> Maker:
    """With a bias and relu behind it."""

    def make() -> Any:
        tiling = Tiling(m, images, *size, 1, 1)
        x = te.placeholder(sizes(1, 2 * tiling.edge**2, 1, tiling.tiles, B), "float32", "x")
        return te.create_prim_func([x, *_behind(transform_output_in_blocks(x, tiling))])

    return make


def gathered() -> Any:
    x = te.placeholder((1, 2, 5, 7, B), "float32", "x")
    table = te.placeholder((2 * B,), "int32", "table")
    return te.create_prim_func([x, table, nchwc.gather([x], table, CHANNELS)])


def product(
    outer: tuple[int, ...], rows: int, terms: int, columns: int,
    right: tuple[int, ...] | None = None, behind: bool = False, dtype: str = "float32",
) -> Maker:  # fmt: skip
    """Of two tensors. right: the axes before the second's matrices. behind: with a sum behind it
    over whose points it has to be, and a function of both."""

    def make() -> Any:
        a = te.placeholder((*outer, rows, terms), dtype, "a")
        axes = outer if right is None else right
        b = te.placeholder((*axes, terms, columns), dtype, "b")
        k = te.reduce_axis((0, terms), "k")

        def term(*at: Any) -> Any:
            *before, m, n = at
            of_b = before[len(before) - len(axes) :]
            places = [0 if size == 1 else place for size, place in zip(axes, of_b, strict=True)]
            return te.sum(a(*before, m, k) * b(*places, k, n), axis=k)

        y = te.compute((*outer, rows, columns), term, "y")
        if not behind:
            return te.create_prim_func([a, b, y])
        mask = te.placeholder((rows, columns), "float32", "mask")
        added = te.compute(y.shape, lambda *at: y(*at) * 0.125 + mask(*at[-2:]), "added")
        both = te.compute(y.shape, lambda *at: te.max(added(*at), y(*at)), "both")
        return te.create_prim_func([a, b, mask, both])

    return make


def rows(shape: tuple[int, ...], build: Callable[[Any], Any]) -> Maker:
    """What ``build`` makes of one tensor."""

    def make() -> Any:
        x = te.placeholder(shape, "float32", "x")
        return te.create_prim_func([x, build(x)])

    return make


def normalized(shape: tuple[int, ...]) -> Maker:
    def make() -> Any:
        x = te.placeholder(shape, "float32", "x")
        scale, shift = (te.placeholder(shape[-1:], "float32", name) for name in ("s", "b"))
        y = topi.nn.layer_norm(x, scale, shift, [len(shape) - 1], 1e-5)
        return te.create_prim_func([x, scale, shift, y])

    return make


def elementwise() -> Any:
    x = te.placeholder((7, 11, 24), "float32", "x")
    return te.create_prim_func([x, te.compute(x.shape, lambda *at: te.exp(x(*at)) * 2.0)])


def sizes(*shape: int) -> list[Any]:
    """Of int64, as networks have them."""
    return [tirx.IntImm("int64", size) for size in shape]


def joined(axis: int) -> Maker:
    """Three tensors."""

    def make() -> Any:
        parts = [te.placeholder(sizes(3, 5, 16), "float32", name) for name in "xyz"]
        return te.create_prim_func([*parts, topi.concatenate(parts, axis)])

    return make


def padded() -> Any:
    x = te.placeholder(sizes(2, 9, 37), "float32", "x")
    return te.create_prim_func([x, topi.nn.pad(x, (0, 1, 3), (0, 2, 19), 0.5)])


def mirrored() -> Any:
    x = te.placeholder(sizes(2, 9, 37), "float32", "x")
    return te.create_prim_func([x, topi.nn.mirror_pad(x, (0, 2, 3), (0, 1, 5), "REFLECT")])


def clipped() -> Any:
    """The nearest of 30 columns, by minimum and maximum."""
    x = te.placeholder(sizes(7, 30), "float32", "x")

    def nearest(i: Any, j: Any) -> Any:
        return x(i, te.max(te.min(j - 20, 29), 0))

    return te.create_prim_func([x, te.compute(sizes(7, 70), nearest)])


def pooled(
    shape: tuple[int, ...], kernel: Sequence[int], stride: int, pads: Sequence[int],
    kind: str = "max", dilation: int = 1, channels_last: bool = False, ceiling: bool = False,
) -> Maker:  # fmt: skip
    """A pool and relu behind it. pads: before each axis, then behind each."""

    def make() -> Any:
        rank = len(kernel)
        of_rank = (topi.nn.pool1d, topi.nn.pool2d, topi.nn.pool3d)[rank - 1]
        image = "DHW"[3 - rank :]
        layout = f"N{image}C" if channels_last else f"NC{image}"
        x = te.placeholder(sizes(*shape), "float32", "x")
        y = of_rank(
            x, sizes(*kernel), sizes(*[stride] * rank), sizes(*[dilation] * rank), sizes(*pads),
            kind, ceiling, layout, count_include_pad=False,
        )  # fmt: skip
        zero = tirx.const(0.0, "float32")
        return te.create_prim_func([x, te.compute(y.shape, lambda *at: te.max(y(*at), zero))])

    return make


def chosen_by_truths(x: list[Any], y: Any) -> Any:
    """Results or their negatives, by a truth that is made of another one."""
    limit = te.placeholder(y.shape, "float32", "limit")
    large = te.compute(y.shape, lambda *at: y(*at) > 0.25, "large")
    both = te.compute(y.shape, lambda *at: tirx.all(large(*at), limit(*at) < 0.5), "both")
    either = te.compute(y.shape, lambda *at: tirx.any(both(*at), limit(*at) < -0.5), "either")
    chosen = te.compute(y.shape, lambda *at: tirx.Select(either(*at), y(*at), -y(*at)), "chosen")
    return te.create_prim_func([*x, limit, chosen])


def pooled_and_chosen() -> Any:
    x = te.placeholder(sizes(2, 3, 13, 37), "float32", "x")
    one = sizes(1, 1)
    return chosen_by_truths([x], topi.nn.pool2d(x, sizes(3, 3), one, one, sizes(1, 1, 1, 1), "max"))


def product_and_chosen() -> Any:
    a = te.placeholder((3, 15, 70), "float32", "a")
    b = te.placeholder((3, 70, 33), "float32", "b")
    k = te.reduce_axis((0, 70), "k")
    y = te.compute((3, 15, 33), lambda i, m, n: te.sum(a(i, m, k) * b(i, k, n), axis=k), "y")
    return chosen_by_truths([a, b], y)


def padded_by_one() -> Any:
    """Padding by what a maximum would see."""
    x = te.placeholder(sizes(2, 3, 9, 21), "float32", "x")
    edges = topi.nn.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 1.0)
    one, none = sizes(1, 1), sizes(0, 0, 0, 0)
    return te.create_prim_func([x, topi.nn.pool2d(edges, sizes(3, 3), one, one, none, "max")])


def permuted(shape: tuple[int, ...], order: Sequence[int], dtype: str = "float32") -> Maker:
    def make() -> Any:
        x = te.placeholder(sizes(*shape), dtype, "x")
        return te.create_prim_func([x, topi.transpose(x, order)])

    return make


def turned_sum() -> Any:
    """Two tensors whose rows are columns, one as it is, and a number for each row and column."""
    x, y = (te.placeholder(sizes(3, 21, 5, 35), "float32", name) for name in "xy")
    plain = te.placeholder(sizes(3, 5, 35, 21), "float32", "plain")
    by_row = te.placeholder(sizes(3, 5, 35, 1), "float32", "by_row")
    by_column = te.placeholder(sizes(21), "float32", "by_column")

    def value(n: Any, i: Any, j: Any, c: Any) -> Any:
        turned = te.max(x(n, c, i, j), 0.0) * y(n, c, i, j) + x(n, c, i, j)
        return turned + plain(n, i, j, c) * by_row(n, i, j, 0) + by_column(c)

    result = te.compute(sizes(3, 5, 35, 21), value)
    return te.create_prim_func([x, y, plain, by_row, by_column, result])


def turned_and_cast() -> Any:
    x = te.placeholder(sizes(40, 37, 3), "uint8", "x")
    y = topi.cast(topi.transpose(x, (2, 1, 0)), "float32")
    return te.create_prim_func([x, te.compute(y.shape, lambda *at: y(*at) * 0.5)])


def turned_parts() -> Any:
    """What is read is a part of each row, and every second row."""
    x = te.placeholder(sizes(4, 30, 20), "float32", "x")
    result = te.compute(sizes(4, 13, 17), lambda n, i, j: x(3 - n, j, 0) + x(n, j, i))
    return te.create_prim_func([x, result])


def chosen() -> Any:
    """Comparisons of every kind, of columns that go up and down by more than one."""
    x = te.placeholder(sizes(7, 90), "float32", "x")

    def value(i: Any, j: Any) -> Any:
        first = tirx.if_then_else(j * 2 <= 33, x(i, j), x(i, j) * 2.0)
        second = tirx.if_then_else(70 - j * 3 > -50, first, first + 1.0)
        third = tirx.if_then_else(tirx.any(j == 60, 64 - j <= 0), second, second - 3.0)
        return tirx.if_then_else(j != 75, third, third * 5.0)

    return te.create_prim_func([x, te.compute(sizes(7, 90), value)])


def _behind(y: Any) -> list[Any]:
    bias = te.placeholder((1, y.shape[1], 1, 1, B), "float32", "bias")
    zero = tirx.const(0.0, "float32")
    shape = y.shape
    added = te.compute(shape, lambda n, c, h, w, b: y(n, c, h, w, b) + bias(0, c, 0, 0, b))
    return [bias, te.compute(shape, lambda *at: te.max(added(*at), zero))]


# Templates whose cases are all tried.
WRITTEN_ANEW = ("cpu_transpose", "cpu_pool", "cpu_winograd")
CASES: dict[str, tuple[str, Maker]] = {
    "1x1": ("cpu_window", convolution((7, 9), (19, 40))),
    "1x1 of batches": ("cpu_window", convolution((5, 5), (16, 24), images=3)),
    "3x3": ("cpu_window", convolution((9, 13), (16, 24), (3, 3), pad=1)),
    "3x3, half of it": ("cpu_window", convolution((11, 17), (9, 17), (3, 3), stride=2, pad=1)),
    "dilated": ("cpu_window", convolution((13, 11), (8, 16), (3, 3), pad=2, dilation=2)),
    "long": ("cpu_window", convolution((6, 23), (8, 16), (1, 7))),
    "groups": ("cpu_window", convolution((7, 7), (8, 32), (3, 3), pad=1, groups=2)),
    "depthwise": ("cpu_window", depthwise((13, 15), 21, 3, 1)),
    "depthwise, half": ("cpu_window", depthwise((14, 15), 16, 5, 2)),
    "pool": ("cpu_window", pool((13, 15))),
    "winograd's image": ("cpu_winograd", transformed(4, (13, 18), (1, 1), images=2)),
    "winograd's image of one tile": ("cpu_winograd", transformed(4, (3, 2), (1, 1))),
    "winograd's image without padding": ("cpu_winograd", transformed(2, (9, 6), (0, 0))),
    "winograd's image far from its edges": ("cpu_winograd", transformed(2, (8, 7), (2, 0))),
    "winograd's result": ("cpu_winograd", transformed_back(4, (13, 18), images=2)),
    "winograd's result of whole tiles": ("cpu_winograd", transformed_back(4, (8, 12))),
    "winograd's result of small tiles": ("cpu_winograd", transformed_back(2, (7, 4))),
    "gather": ("cpu_gather", gathered),
    "product": ("cpu_product", product((3,), 15, 70, 33, behind=True)),
    "attention's": ("cpu_product", product((2, 3), 49, 16, 49)),
    "product of few rows": ("cpu_product", product((2,), 3, 40, 197)),
    "product of few columns": ("cpu_product", product((4,), 7, 5, 5)),
    "product by one matrix": ("cpu_product", product((3,), 20, 33, 24, right=())),
    "product by one of a batch": ("cpu_product", product((3,), 20, 33, 24, right=(1,))),
    "product without a batch": ("cpu_product", product((), 130, 64, 77)),
    "product of one term": ("cpu_product", product((2,), 9, 1, 19)),
    "product, chosen by truths": ("cpu_product", product_and_chosen),
    "softmax": ("cpu_rows", rows((2, 3, 49), topi.nn.softmax)),
    "softmax of whole vectors": ("cpu_rows", rows((70, 64), topi.nn.softmax)),
    "softmax of a row": ("cpu_rows", rows((1, 1000), topi.nn.softmax)),
    "layer normalization": ("cpu_rows", normalized((2, 37, 50))),
    "mean": ("cpu_rows", rows((5, 3, 77), lambda x: topi.sum(x, -1, keepdims=True) / 77.0)),
    "largest": ("cpu_rows", rows((130, 33), lambda x: topi.max(x, -1))),
    "least of short rows": ("cpu_nest", rows((9, 7), lambda x: topi.min(x, -1))),
    "softmax along another axis": ("cpu_nest", rows((3, 40, 6), lambda x: topi.nn.softmax(x, 1))),
    "product of three columns": ("cpu_nest", product((3,), 15, 70, 3)),
    "product of doubles": ("cpu_nest", product((3,), 15, 70, 48, dtype="float64")),
    "elementwise": ("cpu_nest", elementwise),
    "joined rows": ("cpu_pieces", joined(-1)),
    "joined channels": ("cpu_nest", joined(0)),
    "padded": ("cpu_pieces", padded),
    "mirrored": ("cpu_pieces", mirrored),
    "nearest inside": ("cpu_pieces", clipped),
    "every second from a place": ("cpu_pieces", chosen),
    "pool in order": ("cpu_pool", pooled((2, 3, 13, 37), (3, 3), 2, (1, 1, 1, 1))),
    "pool without edges": ("cpu_pool", pooled((2, 3, 12, 34), (2, 2), 2, (0, 0, 0, 0))),
    "pool of few columns": ("cpu_pool", pooled((2, 3, 6, 5), (3, 3), 1, (1, 1, 1, 1))),
    "pool by threes": ("cpu_pool", pooled((1, 3, 31, 40), (3, 2), 3, (1, 0, 2, 1), ceiling=True)),
    "pool by fives": ("cpu_pool", pooled((1, 3, 31, 50), (5, 5), 5, (2, 2, 2, 2))),
    "pool, dilated": ("cpu_pool", pooled((1, 3, 19, 40), (3, 3), 1, (2, 2, 2, 2), dilation=2)),
    "pool of large windows": ("cpu_pool", pooled((1, 3, 20, 20), (9, 9), 1, (4, 4, 4, 4))),
    "pool of rows": ("cpu_pool", pooled((2, 3, 70), (4,), 2, (1, 2))),
    "pool of volumes": ("cpu_pool", pooled((1, 2, 7, 9, 24), (3, 3, 3), 2, (1,) * 6)),
    "pool of channels last": (
        "cpu_pool",
        pooled((2, 9, 11, 19), (3, 3), 2, (1, 1, 1, 1), channels_last=True),
    ),
    "average pool in order": ("cpu_pool", pooled((2, 3, 13, 37), (3, 3), 2, (1, 0, 1, 2), "avg")),
    "pool, chosen by truths": ("cpu_pool", pooled_and_chosen),
    "pool of one result": ("cpu_nest", pooled((2, 3, 7, 7), (7, 7), 1, (0, 0, 0, 0))),
    "pool that sees its edges": ("cpu_nest", padded_by_one),
    "transposed": ("cpu_transpose", permuted((70, 53), (1, 0))),
    "transposed, few rows": ("cpu_transpose", permuted((100, 3), (1, 0))),
    "transposed, few columns": ("cpu_transpose", permuted((3, 100), (1, 0))),
    "transposed, four by five": ("cpu_transpose", permuted((2, 4, 5), (0, 2, 1))),
    "transposed, pages apart": ("cpu_transpose", permuted((256, 130), (1, 0))),
    "channels last": ("cpu_transpose", permuted((2, 19, 7, 9), (0, 2, 3, 1))),
    "channels first": ("cpu_transpose", permuted((2, 7, 9, 19), (0, 3, 1, 2))),
    "heads": ("cpu_transpose", permuted((1, 37, 3, 16), (0, 2, 1, 3))),
    "heads' keys": ("cpu_transpose", permuted((1, 37, 3, 16), (0, 2, 3, 1))),
    "first axis last": ("cpu_transpose", permuted((9, 10, 11), (1, 2, 0))),
    "last axis first": ("cpu_transpose", permuted((9, 1, 10, 11), (3, 0, 1, 2))),
    "all axes reversed": ("cpu_transpose", permuted((5, 4, 6, 7), (3, 2, 1, 0))),
    "long copies": ("cpu_transpose", permuted((3, 2, 5000), (1, 0, 2))),
    "transposed bytes": ("cpu_transpose", permuted((45, 70), (1, 0), "int8")),
    "transposed halves": ("cpu_transpose", permuted((45, 70), (1, 0), "float16")),
    "transposed doubles": ("cpu_transpose", permuted((45, 70), (1, 0), "float64")),
    "a sum of transposed": ("cpu_transpose", turned_sum),
    "transposed and cast": ("cpu_transpose", turned_and_cast),
    "a row and a column of one": ("cpu_nest", turned_parts),
}


def arguments_of(function: Any) -> list[np.ndarray]:
    """Random values; the last, which is written, has NaN where nothing is."""
    buffers = function.params
    shapes = [(tuple(int(n) for n in b.ty.shape), str(b.ty.dtype)) for b in buffers]
    last = len(shapes) - 1
    return [
        random_array(Argument(*shape, i == last, TABLE if shape[1] == "int32" else ()), i)
        for i, shape in enumerate(shapes)
    ]


def results(functions: Sequence[Any], target: Target) -> list[np.ndarray]:
    """What each of several functions makes of the same values."""
    named = {f"f{i}": f.with_attr("global_symbol", f"f{i}") for i, f in enumerate(functions)}
    with target, tvm.transform.PassContext(opt_level=3):
        library = tvm.tirx.build(tvm.IRModule(named), target=target)
    found = []
    for name in named:
        tensors = [tvm.runtime.tensor(array) for array in arguments_of(functions[0])]
        library[name](*tensors)
        found.append(tensors[-1].numpy())
    return found


def check(function: Any, template: str, tried: Sequence[ScheduleConfig]) -> None:
    """Against the sums as they are written, by the measure that tuning has: 1e-3 of the largest."""
    assert {choice.template for choice in tried} == {template}
    (wanted,) = results([function], HERE)
    made = [schedule_with(function, LIMITS, choice) for choice in tried]
    for choice, found in zip(tried, results(made, HERE), strict=True):
        assert compare([found], [wanted]) == "", choice


@pytest.mark.parametrize(
    "name",
    ["1x1", "groups", "depthwise, half", "gather", "product", "attention's", "product of few rows",
     "product of few columns", "product by one matrix", "product by one of a batch",
     "product without a batch", "product of one term", "product, chosen by truths",
     "softmax", "softmax of whole vectors", "softmax of a row", "layer normalization", "mean",
     "largest", "joined rows", "joined channels", "padded", "mirrored", "nearest inside",
     "every second from a place",
     *(name for name, (template, _) in CASES.items() if template in WRITTEN_ANEW)],
)  # fmt: skip
def test_some_candidates_are_right(name: str) -> None:
    """The likeliest, one from the middle and the least likely; the slow test tries all."""
    template, make = CASES[name]
    function = make()
    offered = choices(function, LIMITS)
    check(function, template, [offered[0], offered[len(offered) // 2], offered[-1]])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_candidates_are_right(name: str) -> None:
    template, make = CASES[name]
    function = make()
    offered = choices(function, LIMITS)
    for start in range(0, len(offered), 16):
        check(function, template, offered[start : start + 16])


@pytest.mark.parametrize("name", CASES)
def test_the_first_candidate_is_what_an_untuned_network_gets(name: str) -> None:
    function = CASES[name][1]().with_attr("global_symbol", "f")
    plain = cpu_schedules(tvm.IRModule({"f": function}), HERE)["f"]
    first = choices(function, LIMITS)[0]
    tvm.ir.assert_structural_equal(schedule_with(function, LIMITS, first), plain)


def test_candidates_differ_in_every_number() -> None:
    """A number that never varies would be none to tune."""
    for template, varied in (
        ("cpu_window", {"blocks", "pixels", "rows", "unroll", "parallel"}),
        ("cpu_gather", {"parallel"}),
        ("cpu_product", {"rows", "vectors", "packed", "together", "unroll", "parallel"}),
        ("cpu_rows", {"vectors", "parallel"}),
        ("cpu_pieces", {"vectors", "parallel"}),
        ("cpu_pool", {"vectors", "parallel"}),
        ("cpu_winograd", {"parallel"}),
        ("cpu_transpose", {"columns", "rows", "parallel"}),
        ("cpu_nest", {"channels", "vectors", "threads_from"}),
    ):
        found: dict[str, set[Any]] = {name: set() for name in varied}
        for kind, make in CASES.values():
            for choice in choices(make(), LIMITS) if kind == template else ():
                for name, value in choice.to_dict()["parameters"].items():
                    found[name].add(value)
        assert all(len(values) > 1 for values in found.values()), found


@pytest.mark.parametrize(
    ("size", "kernel", "few"),
    [((128, 96), (1, 1), True), ((16, 24), (1, 1), False), ((128, 96), (3, 3), False)],
)
def test_a_large_image_is_read_once_by_all_channels(
    size: tuple[int, int], kernel: tuple[int, int], few: bool
) -> None:
    """Some rows of it at a time, which are in the cache when the next channels read them."""
    pad = kernel[0] // 2
    function = convolution(size, (8 * B, 8 * B), kernel, pad=pad)()
    rows = choices(function, LIMITS)[0].to_dict()["parameters"]["rows"]
    whole = size[0] * size[1] // 64 if kernel == (1, 1) else size[0]
    assert (1 < rows < whole) == few


@pytest.mark.parametrize("name", ["3x3", "gather", "product", "softmax"])
def test_what_is_not_offered_is_no_schedule(name: str) -> None:
    """Records can hold anything, and are of other processors."""
    function = CASES[name][1]()
    first = choices(function, LIMITS)[0]
    assert ScheduleConfig.from_dict(first.to_dict()) == first
    strange = {"blocks": 10**9, "rows": 0, "vectors": 10**6, "channels": 0, "parallel": "often"}
    for field, value in strange.items():
        if not hasattr(first.parameters, field):
            continue
        odd = ScheduleConfig(first.template, replace(first.parameters, **{field: value}))
        assert not is_offered(function, LIMITS, odd)
        with pytest.raises(NotThisKind, match="offered"):
            schedule_with(function, LIMITS, odd)


def test_a_template_is_for_its_kind_of_device() -> None:
    function = elementwise()
    of_gpu, of_processor = choices(function, GPU)[0], choices(function, LIMITS)[0]
    for limits, choice in ((LIMITS, of_gpu), (GPU, of_processor)):
        assert not is_offered(function, limits, choice)
        with pytest.raises(NotThisKind, match="another kind of device"):
            schedule_with(function, limits, choice)


@pytest.mark.parametrize("operator", ["scatter_elements", "scatter_nd"])
def test_llvm_warns_of_no_mark(operator: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever compiles a network with a scatter would read it."""
    data, places = te.placeholder((2, 9)), te.placeholder((2, 2), "int64")
    if operator == "scatter_nd":
        values = te.placeholder((2,))
        made = topi.scatter_nd(data, places, values, "update")
    else:
        values = te.placeholder((2, 2))
        made = topi.scatter_elements(data, places, values, axis=1)
    module = tvm.IRModule({"main": te.create_prim_func([data, places, values, made])})
    target = Target("llvm")
    tvm.compile(cpu_schedules(module, target), target)
    assert "Warning" not in capfd.readouterr().err


def chain() -> Any:
    x = te.placeholder((64, 48), "float32", "x")
    doubled = te.compute(x.shape, lambda *at: x[at] * 2.0, "doubled")
    return te.create_prim_func([x, te.compute(x.shape, lambda *at: doubled[at] + 1.0, "out")])


def turned() -> Any:
    x = te.placeholder((64, 48), "float32", "x")
    doubled = te.compute(x.shape, lambda *at: x[at] * 2.0, "doubled")
    return te.create_prim_func([x, te.compute((48, 64), lambda i, j: doubled[j, i], "out")])


IN_STEPS = [chain, turned, convolution((9, 9), (2, 2), (3, 3), pad=1), pool((9, 9))]


@pytest.mark.parametrize("make", IN_STEPS)
def test_schedules_meet_no_errors_of_tvm(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a process takes it as long as some kernels."""
    met = []
    append = tvm_ffi.core._WITH_APPEND_BACKTRACE

    def seen(error: Any, trace: Any) -> Any:
        met.append(error)
        return append(error, trace)

    monkeypatch.setattr(tvm_ffi.core, "_WITH_APPEND_BACKTRACE", seen)
    with pytest.raises(AttributeError):
        tvm.ir.Op.get("tirx.no_such_operator")
    assert len(met) == 1  # that errors are seen at all
    cpu_schedules(tvm.IRModule({"kernel": make()}), HERE)
    assert len(met) == 1
