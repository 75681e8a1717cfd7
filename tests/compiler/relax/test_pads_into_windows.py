"""Zeros around what a convolution reads become its padding; everything else stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from support.compiled import executor_of
from support.relax_models import constant, module_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.channels_last import calls_of
from tvm_vision.compiler.relax.pads_into_windows import pads_into_windows

OP = relax.op
IMAGE = (1, 6, 9, 8)


def padded(
    widths: list[int], twice: bool = False, mode: str = "constant", value: float = 0.0,
    **options: Any,
) -> Any:  # fmt: skip
    """Padding before a convolution; twice: and before something else."""

    def build(builder: relax.BlockBuilder, x: Any) -> Any:
        wide = builder.emit(OP.nn.pad(x, widths, mode, value))
        channels = int(wide.ty.shape[1]) // options.get("groups", 1)
        weights = constant(1, 6, channels, *[3] * (len(IMAGE) - 2))[0]
        result = builder.emit(OP.nn.conv2d(wide, weights, **options))
        return [result, builder.emit(OP.nn.relu(wide))] if twice else result

    return build


@pytest.mark.parametrize(
    ("build", "padding"),
    [
        (padded([0, 0, 0, 0, 1, 1, 1, 1]), [1, 1, 1, 1]),
        (padded([0, 0, 0, 0, 0, 1, 2, 3], strides=2), [0, 2, 1, 3]),
        (padded([0, 0, 0, 0, 0, 1, 0, 1], padding=1, dilation=2), [1, 1, 2, 2]),
        (padded([0, 0, 0, 0, 1, 2, 1, 0], groups=6), [1, 1, 2, 0]),
        (padded([0, 0, 0, 0, 1, 0, 0, 1], twice=True), [1, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_values_stay(build: Any, padding: list[int], target: str) -> None:
    module, signature = module_of(build, IMAGE)
    moved = pads_into_windows(module)
    (convolution,) = calls_of(moved, "relax.nn.conv2d")
    assert list(map(int, convolution.attrs.padding)) == padding
    array = np.random.default_rng(2).standard_normal(IMAGE).astype("f4")
    results = []
    for level in (0, 3):
        compiled = compile_model(module, signature, target=target, opt_level=level)
        executor = executor_of(compiled, tvm.vulkan(0) if target == "vulkan" else tvm.cpu(0))
        executor.set_input(0, array)
        executor.run()
        results.append([executor.get_output(i).numpy() for i in range(len(signature.outputs))])
    for plain, changed in zip(*results, strict=True):
        np.testing.assert_allclose(changed, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        padded([0, 0, 0, 0, 1, 1, 1, 1], value=1.0),
        padded([0, 0, 0, 0, 1, 1, 1, 1], mode="reflect"),
        padded([0, 0, 0, 2, 1, 1, 1, 1]),  # channels
        padded([1, 0, 0, 0, 1, 1, 1, 1]),  # images
        padded([0, 0, 0, 0, 0, 0, -1, 0]),  # takes some away
    ],
)
def test_others_stay(build: Any) -> None:
    module, _ = module_of(build, IMAGE)
    assert pads_into_windows(module).same_as(module)


def test_rows_and_volumes() -> None:
    for shape, widths, padding in (
        ((1, 4, 9), [0, 0, 0, 0, 2, 1], [2, 1]),
        ((1, 4, 5, 6, 7), [0, 0, 0, 0, 1, 0, 0, 2, 3, 1], [1, 0, 3, 0, 2, 1]),
    ):
        rank = len(shape) - 2

        def build(builder: relax.BlockBuilder, x: Any) -> Any:
            wide = builder.emit(OP.nn.pad(x, widths))  # noqa: B023
            weights = constant(1, 3, 4, *[3] * rank)[0]  # noqa: B023
            return builder.emit(getattr(OP.nn, f"conv{rank}d")(wide, weights))  # noqa: B023

        moved = pads_into_windows(module_of(build, shape)[0])
        (convolution,) = calls_of(moved, f"relax.nn.conv{rank}d")
        assert list(map(int, convolution.attrs.padding)) == padding
        assert not calls_of(moved, "relax.nn.pad")
