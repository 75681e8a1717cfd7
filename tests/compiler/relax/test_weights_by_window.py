"""Weights with channels side by side: which convolutions get them, and that results stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from support.compiled import executor_of
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model, prepare
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.weights_by_window import weights_by_window
from tvm_vision.schedules.gpu.contraction import as_product

GPU = {"kind": "vulkan", "keys": ["vulkan", "gpu"], "thread_warp_size": 64}
IMAGE = (1, 16, 9, 11)
# By the axes of the window.
IMAGES = {2: IMAGE, 3: (1, 16, 5, 6, 7)}


def network(*weights: int, **options: Any) -> Any:
    axes = len(weights) - 2
    convolution = getattr(relax.op.nn, f"conv{axes}d")

    def build(builder: Any, x: Any) -> Any:
        return builder.emit(convolution(x, constant(7, *weights)[0], **options))

    return module_of(build, IMAGES[axes])


def layouts(module: tvm.IRModule) -> list[str]:
    calls = [call for axes in IMAGES for call in calls_of(module, f"relax.nn.conv{axes}d")]
    return [str(call.attrs.kernel_layout) for call in calls]


@pytest.mark.parametrize(
    ("weights", "options", "layout"),
    [
        ((8, 16, 3, 3), {"padding": 1}, "OHWI"),
        ((8, 16, 1, 5), {"strides": [2, 1], "dilation": [1, 2]}, "OHWI"),
        ((8, 16, 1, 1), {}, "OIHW"),  # one place: as it is
        ((16, 1, 3, 3), {"groups": 16}, "OIHW"),
        ((16, 8, 3, 3), {"groups": 2}, "OIHW"),
        ((1, 16, 3, 3), {}, "OIHW"),  # no product
        ((8, 16, 3, 3, 3), {"padding": 1}, "ODHWI"),
        ((8, 16, 3, 1, 1), {"strides": [2, 1, 1]}, "ODHWI"),
        ((8, 16, 1, 1, 1), {}, "OIDHW"),
    ],
)
def test_dense_convolutions_with_windows(
    weights: tuple[int, ...], options: dict[str, Any], layout: str
) -> None:
    module, _ = network(*weights, **options)
    assert layouts(weights_by_window(module)) == [layout]


def test_few_channels_are_no_tile_and_odd_ones_no_vectors() -> None:
    for channels in (3, 4, 9, 18):

        def build(builder: Any, x: Any, channels: int = channels) -> Any:
            return builder.emit(relax.op.nn.conv2d(x, constant(1, 8, channels, 3, 3)[0]))

        module, _ = module_of(build, (1, channels, 9, 9))
        assert layouts(weights_by_window(module)) == ["OIHW"]


def test_weights_that_come_as_an_input_stay() -> None:
    def build(builder: Any, x: Any, w: Any) -> Any:
        return builder.emit(relax.op.nn.conv2d(x, w))

    module, _ = module_of(build, IMAGE, (8, 16, 3, 3))
    assert layouts(weights_by_window(module)) == ["OIHW"]


@pytest.mark.parametrize(
    ("device_type", "lanes", "option", "changed"),
    [
        ("integrated", 64, True, True),
        ("integrated", 64, False, False),
        # A card as it was measured, and one of waves, which is as integrated ones are.
        ("discrete", 32, True, False),
        ("discrete", 64, True, True),
        ("cpu", 64, True, False),
    ],
)
def test_for_whom(device_type: str, lanes: int, option: bool, changed: bool) -> None:
    """Their terms are then in another order: channels last."""
    module, _ = network(8, 16, 3, 3, padding=1)
    gpu = {**GPU, "device_type": device_type, "thread_warp_size": lanes}
    target = Target(gpu, host="llvm")
    graph = prepare(module, target=target, weights_by_window=option, winograd="off")
    (kernel,) = graph.kernels
    found = as_product(tvm.s_tir.Schedule(graph.functions[kernel.function]))[2]
    order = [number for number in found.order if found.kinds[number] == "k"]
    assert (order != sorted(order)) is changed


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize(
    ("weights", "options", "precision"),
    [
        # The order is the same for both types: of each number of axes one is of fp16 by default.
        pytest.param(*case, precision, marks=[] if place in quick else [pytest.mark.slow])
        for precision, quick in (("fp32", range(5)), ("fp16", (1, 4)))
        for place, case in enumerate(
            [
                ((8, 16, 3, 3), {"padding": 1}),
                ((24, 16, 3, 3), {"strides": 2, "padding": [1, 0, 2, 1]}),
                ((8, 16, 2, 5), {"strides": [2, 1], "dilation": [1, 2], "padding": [0, 3, 1, 2]}),
                ((8, 16, 3, 3, 3), {"padding": 1}),
                ((24, 16, 2, 1, 3), {"strides": [1, 2, 1], "padding": [1, 0, 2, 0, 1, 1]}),
            ]
        )
    ],
)
def test_results_equal_those_of_the_models_order(
    weights: tuple[int, ...], options: dict[str, Any], precision: str
) -> None:
    module, signature = network(*weights, **options)
    target = {"kind": "vulkan", "from_device": 0, "device_type": "integrated"}
    image = np.random.default_rng(4).random(IMAGES[len(weights) - 2], "float32")
    found = []
    for on in (False, True):
        made = compile_model(
            module, signature, target=target, weights_by_window=on, precision=precision,
            packed_fp16="off", winograd="off",
        )  # fmt: skip
        executor = executor_of(made)
        executor.run(x0=image)
        found.append(executor.outputs()["y0"])
    close = 2e-3 if precision == "fp16" else 1e-6
    assert np.abs(found[0] - found[1]).max() <= close * np.abs(found[0]).max()
