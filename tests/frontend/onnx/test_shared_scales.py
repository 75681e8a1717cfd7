"""What is concatenated has one scale where ranges differ little; biases follow; nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx import quantize
from tvm_vision.frontend.onnx.shared_scales import share_scales

SIZE = 12
NAMES = ("left", "right", "joined")


def model(gain: float) -> onnx.ModelProto:
    """Two convolutions, the second's results ``gain`` times as large, concatenated before another;
    the second is read elsewhere too."""
    random = np.random.default_rng(4)
    weights = {
        "w0": random.normal(size=(4, 3, 3, 3)),
        "w1": gain * random.normal(size=(4, 3, 3, 3)),
        "w2": random.normal(size=(4, 8, 1, 1)),
        "w3": random.normal(size=(4, 4, 1, 1)),
        **{f"b{number}": random.normal(size=4) for number in range(4)},
    }
    nodes = [
        helper.make_node("Conv", ["input", "w0", "b0"], ["c0"], "c0", pads=[1] * 4),
        helper.make_node("Relu", ["c0"], ["left"], "left"),
        helper.make_node("Conv", ["input", "w1", "b1"], ["c1"], "c1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["right"], "right"),
        helper.make_node("Concat", ["left", "right"], ["joined"], "joined", axis=1),
        helper.make_node("Conv", ["joined", "w2", "b2"], ["y0"], "y0"),
        helper.make_node("Conv", ["right", "w3", "b3"], ["y1"], "y1"),
    ]
    graph = helper.make_graph(
        nodes, "joined", [helper.make_tensor_value_info("input", TensorProto.FLOAT, image().shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y0", "y1")],
        [numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )  # fmt: skip
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def image() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((1, 3, SIZE, SIZE)).astype("float32")


def quantized(
    gain: float, folder: Path, monkeypatch: pytest.MonkeyPatch, shared: bool = True
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The network in float32 and quantized, with scales shared or not."""
    onnx.save(model(gain), folder / "model.onnx")
    if not shared:
        monkeypatch.setattr(quantize, "share_scales", lambda made: None)
    plain = quantize.plain_onnx(folder / "model.onnx", {})
    return plain, quantize.quantized(plain, [{"input": image()}], calibration="minmax")


def constants(made: onnx.ModelProto) -> dict[str, Any]:
    return {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}


@pytest.mark.parametrize(("gain", "alike"), [(1.0, True), (2.5, True), (30.0, False)])
def test_scales_are_shared_where_ranges_are_alike(
    gain: float, alike: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, made = quantized(gain, tmp_path, monkeypatch)
    values = constants(made)
    scales = {float(values[f"{name}_scale"]) for name in NAMES}
    points = {int(values[f"{name}_zero_point"]) for name in NAMES}
    assert (len(scales) == len(points) == 1) == alike
    assert float(values["right_scale"]) == float(values["joined_scale"])  # the wider one


def test_biases_are_whole_numbers_of_the_new_scales(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else kernels could not add them to their sums."""
    plain, made = quantized(2.5, tmp_path, monkeypatch)
    values, real = constants(made), constants(plain)
    for bias, weights, scale in (("b2", "w2", "joined"), ("b3", "w3", "right")):
        step = (values[f"{weights}_scale"] * values[f"{scale}_scale"]).astype("float32")
        np.testing.assert_array_equal(values[f"{bias}_quantized_scale"], step)
        np.testing.assert_allclose(values[f"{bias}_quantized"] * step, real[bias], atol=step.max())


@pytest.mark.parametrize("gain", [1.0, 2.5])
def test_little_is_lost(gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for shared in (True, False):
        with monkeypatch.context() as patch:
            plain, made = quantized(gain, tmp_path, patch, shared)
        exact, ours = (Reference(each).run({"input": image()}) for each in (plain, made))
        errors.append(
            max(
                float(np.abs(exact[name] - ours[name]).max() / np.abs(exact[name]).max())
                for name in exact
            )
        )
    assert errors[0] < 2 * errors[1] + 0.01


def test_a_network_without_concatenations_stays_as_it_is() -> None:
    plain = model(1.0)
    before = plain.SerializeToString()
    share_scales(plain)
    assert plain.SerializeToString() == before
