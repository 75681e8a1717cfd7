"""Operators of onnxruntime's own domain, as its quantizer writes them."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from support.onnx_models import make_model, run_on_cpu
from tvm_vision.frontend.onnx.contributed import DOMAIN
from tvm_vision.frontend.onnx.load import import_onnx

SEED = 11


def rounded(dtype: type, per_channel: bool):
    """x rounded to integers, and those of a weight [3, 4, 2] as numbers, in one file."""
    rng = np.random.default_rng(SEED)
    limits = np.iinfo(dtype)

    def integers(*shape):
        return np.array(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))

    size, axis = ((4,), {"axis": 1}) if per_channel else ((), {})
    scale = np.float32(0.05)
    constants = {
        "scale": np.array(scale), "zero": integers(), "weight": integers(3, 4, 2),
        "scales": np.array(rng.uniform(0.01, 0.1, size), np.float32), "zeros": integers(*size),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], domain=DOMAIN),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], domain=DOMAIN),
        helper.make_node(
            "DequantizeLinear", ["weight", "scales", "zeros"], ["w"], domain=DOMAIN, **axis
        ),
        helper.make_node("Add", ["y", "w"], ["z"]),
    ]
    ends = [("x", (3, 4, 2))], [("z", (3, 4, 2))]
    model = make_model(nodes, *ends, list(constants.items()), opset=17, domain=DOMAIN)
    # Beyond both ends, and halves.
    return model, (rng.integers(-70000, 70000, (3, 4, 2)) / 2).astype(np.float32) * scale


@pytest.mark.parametrize("per_channel", [False, True], ids=["whole", "per channel"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_values_are_rounded_as_onnxruntime_does(dtype, per_channel):
    model, x = rounded(dtype, per_channel)
    module, _ = import_onnx(model)
    (result,) = run_on_cpu(module, x)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
