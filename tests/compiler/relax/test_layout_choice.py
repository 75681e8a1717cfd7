"""Which order of channels a network gets, beside what was measured of both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from support.relax_models import constant, module_of
from tvm_vision.compiler.relax.channels_last import calls_of, convolutions_of
from tvm_vision.compiler.relax.layout_choice import layout_on_gpu, microseconds_gained

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
MEASURED = json.loads((RESULTS / "nvidia-h100-layouts.json").read_text())["rows"]


def regret(row):
    """What a network takes as it is compiled, over the better of both orders."""
    last = microseconds_gained(row["dense"], row["grouped"], row["gates"], row["turns"]) >= 0
    return row["nhwc" if last else "nchw"] / min(row["nchw"], row["nhwc"])


@pytest.mark.parametrize("row", MEASURED, ids=[row["name"] for row in MEASURED])
def test_no_network_loses_much_by_the_order_it_gets(row):
    assert regret(row) < 1.02


def test_the_orders_chosen_are_the_faster_ones_all_in_all():
    assert np.exp(np.mean(np.log([regret(row) for row in MEASURED]))) < 1.002


@pytest.mark.parametrize(("kind", "worse"), [("dense", False), ("grouped", True), ("gates", True)])
def test_each_part_counts_in_one_direction(kind, worse):
    row = {"dense": 10**9, "grouped": 10**8, "gates": 4, "turns": 0}
    more = microseconds_gained(**{**row, kind: 2 * row[kind]})
    assert (more < microseconds_gained(**row)) == worse


@pytest.mark.parametrize(
    ("size", "measured", "turned"),
    [
        ((1, 64), False, False),
        ((16, 64), False, True),
        ((4, 16, 16), False, True),
        ((4, 1, 64), False, True),
        ((1, 1, 64), False, False),
        ((16, 64), True, True),
        ((4, 16, 16), True, True),
    ],
)
def test_rows_keep_their_order_where_nobody_measured(size, measured, turned):
    """Dense convolutions one after the other, whose ends are turned."""
    kernel = [min(axis, 3) for axis in size]
    convolve = relax.op.nn.conv3d if len(size) == 3 else relax.op.nn.conv2d

    def build(builder, x):
        for seed in range(12):
            weights = constant(seed, 16, 16, *kernel)[0]
            x = builder.emit(convolve(x, weights, padding=[k // 2 for k in kernel]))
        return x

    module, _ = module_of(build, (1, 16, *size))
    made = layout_on_gpu(module, "auto", matrices=True, measured=measured)
    assert str(convolutions_of(made)[0].attrs.data_layout).endswith("C") == turned


@pytest.mark.parametrize(("size", "turned"), [(7, True), (13, False)])
def test_large_windows_of_each_channel_keep_their_order(size, turned):
    """Of as many multiplications as smaller windows they lose more: rows lie in shared memory."""

    def build(builder, x):
        for seed in range(6):
            x = builder.emit(relax.op.nn.conv2d(x, constant(seed, 512, 512, 1, 1)[0]))
            each = constant(seed, 512, 1, size, size)[0]
            x = builder.emit(relax.op.nn.conv2d(x, each, padding=size // 2, groups=512))
        return x

    module, _ = module_of(build, (1, 512, 14, 14))
    made = layout_on_gpu(module, "auto", matrices=True, measured=True)
    assert str(convolutions_of(made)[0].attrs.data_layout).endswith("C") == turned


@pytest.mark.parametrize(("channels", "turned"), [(64, True), (4, False)])
def test_bytes_of_dense_convolutions_pay_for_turns_within(channels, turned):
    """As in a U-Net: between its convolutions images grow by turns that have no layout."""

    def convolved(builder, x, outputs, seed):
        inputs = int(x.ty.shape[1])
        weights = np.random.default_rng(seed).integers(-9, 9, (outputs, inputs, 3, 3))
        weights = relax.const(weights.astype("int8"), "int8")
        sums = builder.emit(relax.op.nn.conv2d(x, weights, padding=1, out_dtype="int32"))
        return builder.emit(relax.op.astype(sums, "int8"))

    def build(builder, x):
        for seed in range(3):
            size = int(x.ty.shape[2])
            x = convolved(builder, x, 4 * channels, seed)
            x = builder.emit(relax.op.reshape(x, (1, channels, 2, 2, size, size)))
            x = builder.emit(relax.op.permute_dims(x, [0, 1, 4, 2, 5, 3]))
            x = builder.emit(relax.op.reshape(x, (1, channels, 2 * size, 2 * size)))
            x = convolved(builder, x, channels, seed)
        return x

    module, _ = module_of(build, (1, channels, 8, 8), dtype="int8")
    made = layout_on_gpu(module, "auto", matrices=False, measured=False)
    assert {str(call.attrs.data_layout)[-1] == "C" for call in convolutions_of(made)} == {turned}


@pytest.mark.parametrize(
    ("measured", "matrices", "blocks", "inner", "turned"),
    [
        (False, False, 5, 4, True),
        (False, True, 5, 4, True),
        (False, False, 2, 4, False),  # few turns are saved
        (True, False, 5, 4, True),
        (True, False, 5, 1024, False),  # what dense convolutions of float32 lose is more
    ],
)
def test_blocks_whose_products_have_channels_last_get_them(
    measured, matrices, blocks, inner, turned
):
    """As ConvNeXt: a window, a product of what it gives with channels last, and a residual."""

    def build(builder, x):
        for seed in range(blocks):
            wide = builder.emit(relax.op.nn.conv2d(x, constant(seed, inner, 8, 7, 7)[0], padding=3))
            back = relax.op.nn.conv2d(wide, constant(seed, 8, inner, 7, 7)[0], padding=3)
            rows = builder.emit(relax.op.permute_dims(builder.emit(back), [0, 2, 3, 1]))
            product = builder.emit(relax.op.matmul(rows, constant(seed, 8, 8)[0]))
            product = builder.emit(relax.op.permute_dims(product, [0, 3, 1, 2]))
            x = builder.emit(relax.op.add(x, product))
        return x

    module, _ = module_of(build, (1, 8, 32, 32))
    made = layout_on_gpu(module, "auto", matrices=matrices, measured=measured)
    layouts = {str(call.attrs.data_layout) for call in calls_of(made, "relax.nn.conv2d")}
    assert layouts == {"NHWC" if turned else "NCHW"}
