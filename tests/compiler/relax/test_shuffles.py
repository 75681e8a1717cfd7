"""Channels that are dealt out go along with channels last, where networks are of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

from support.interpreter import run
from support.quantized_networks import Quantized, as_written
from support.relax_models import constant, module_of, operators_in
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.relax.channels_last import channels_last, convolutions_of, transposes
from tvm_vision.compiler.relax.shuffles import with_stand_ins
from tvm_vision.frontend.onnx.load import import_onnx

OP = relax.op
CHANNELS = 12


def shuffled(groups: int, order: list[int] | None = None) -> Any:
    """Channels of an image or a volume dealt out between two convolutions."""

    def build(builder: Any, x: Any) -> Any:
        sizes = [int(size) for size in x.ty.shape]
        window = [1] * (len(sizes) - 2)
        convolve = OP.nn.conv3d if len(window) == 3 else OP.nn.conv2d
        first, last = constant(0, CHANNELS, sizes[1], *window)[0], constant(1, 8, CHANNELS, *window)
        x = builder.emit(convolve(x, first))
        x = builder.emit(OP.reshape(x, (sizes[0], groups, CHANNELS // groups, *sizes[2:])))
        turn = order or [0, 2, 1, *range(3, len(sizes) + 1)]
        x = builder.emit(OP.permute_dims(x, turn))
        x = builder.emit(OP.reshape(x, (sizes[0], CHANNELS, *sizes[2:])))
        return builder.emit(convolve(x, last[0]))

    return build


@pytest.mark.usefixtures("device_info")
@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (2, 5, 3, 4, 5)])
@pytest.mark.parametrize("groups", [2, 3, 12])
def test_results_are_the_same_without_turns_between(shape: Any, groups: int) -> None:
    image = np.random.default_rng(groups).standard_normal(shape).astype("float32")
    module, signature = module_of(shuffled(groups), shape)
    turned = channels_last(module, shuffles=True)
    # The ends, and the shuffle's own, but for one of single channels, which moves nothing.
    assert transposes(turned) == 2 + (groups < CHANNELS)
    assert {str(call.attrs.data_layout)[-1] for call in convolutions_of(turned)} == {"C"}
    plain = compile_model(module, signature, target="vulkan", layout="nchw")
    last = compile_model(turned, signature, target="vulkan", layout="nchw")
    (expected,), (found,) = run(plain, [image]), run(last, [image])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((1, 5, 6, 6), [0, 2, 1, 4, 3]),
        ((1, 5, 6, 6), [0, 1, 2, 4, 3]),
        ((1, 5, 6, 6, 6), [0, 2, 1, 3, 5, 4]),
    ],
)
def test_what_turns_more_than_channels_stays(shape: Any, order: list[int]) -> None:
    module, _ = module_of(shuffled(3, order), shape)
    assert operators_in(with_stand_ins(module)) == operators_in(module)


@pytest.mark.parametrize("to", [(1, 12, 36), (1, 6, 2, 6, 6), (1, 6, 12, 6)])
def test_what_does_not_come_back_stays(to: tuple[int, ...]) -> None:
    def build(builder: Any, x: Any) -> Any:
        x = builder.emit(OP.reshape(x, (1, 2, 6, 6, 6)))
        return builder.emit(OP.reshape(builder.emit(OP.permute_dims(x, [0, 2, 1, 3, 4])), to))

    module, _ = module_of(build, (1, 12, 6, 6))
    assert operators_in(with_stand_ins(module)) == operators_in(module)


def blocks_of_bytes() -> onnx.ModelProto:
    """As ShuffleNet has them: half of the channels go through three convolutions, and both halves
    are dealt out."""
    scale, q = 0.03, Quantized((1, 16, 8, 8), seed=4, dtype=np.int8)
    grouped, back, axis = (
        q.constant(np.array(sizes)) for sizes in ([1, 2, 8, 8, 8], [1, 16, 8, 8], [1])
    )

    def half(x: str, begin: int) -> str:
        ends = [q.constant(np.array([at])) for at in (begin, begin + 8)]
        return q.rounded(q.node("Slice", x, *ends, axis), scale, 0)

    x = q.rounded("x", scale, 0)
    for _ in range(4):
        y = half(x, 8)
        for groups, window in ((1, 1), (8, 3), (1, 1)):
            pads = [window // 2] * 4
            y = q.conv(y, 8, 8 // groups, window, window, scale=scale, group=groups, pads=pads)
            y = q.rounded(y, scale, 0)
        x = q.rounded(q.node("Concat", half(x, 0), y, axis=1), scale, 0)
        x = q.rounded(q.node("Reshape", x, grouped), scale, 0)
        x = q.rounded(q.node("Transpose", x, perm=[0, 2, 1, 3, 4]), scale, 0)
        x = q.rounded(q.node("Reshape", x, back), scale, 0)
    return q.model(x)


@pytest.mark.usefixtures("device_info")
def test_bytes_lie_side_by_side_between_shuffles() -> None:
    model = blocks_of_bytes()
    module, signature = import_onnx(model)
    made = compile_model(module, signature, target="vulkan", int8="on", layout="nhwc")
    shapes = [value.shape for value in made.params.values()]
    assert shapes.count((3, 3, 1, 8)) == 4  # those of channels by themselves, channels last
    x = np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype("float32")
    (found,), (expected,) = run(made, [x]), as_written(model, x)
    # Steps of 0.03; a number half way between two may be either.
    assert np.abs(found - expected).max() < 0.031
    assert (np.abs(found - expected) > 0.01).mean() < 0.01
