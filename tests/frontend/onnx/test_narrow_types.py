"""Numbers that are cast to fewer bits and back: each is rounded, in one kernel or in two."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

FLOAT8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
TYPES = ("BFLOAT16", "FLOAT16", *FLOAT8)
# Ordinary ones, ties, what only just is normal, what is not, and what is beyond the largest.
NUMBERS = np.array(
    [
        *(0.1, -0.7, 1.00390625, 1.01171875, 1.0625, 1.1875, -7.9, 100.2, 255.9, 448, 464, 465),
        *(2**-6, 1.5 * 2**-9, 0.4 * 2**-9, 0.75 * 2**-16, 6e-8, 1e-30, 0, 6e4, 3.39e38),
        *(np.inf, -np.inf, np.nan),
    ],
    np.float32,
)


def casts(types, **attributes):
    """A model of casts from float32 to each type and back."""
    nodes = []
    for name in types:
        narrow = helper.make_node(
            "Cast", ["x"], [name], to=getattr(TensorProto, name), **attributes
        )
        nodes += [narrow, helper.make_node("Cast", [name], [f"y{name}"], to=TensorProto.FLOAT)]
    return model(nodes, [f"y{name}" for name in types])


def rounded_by_scale(name):
    """A model of QuantizeLinear and DequantizeLinear of a float8, which is a saturating cast."""
    zero = helper.make_tensor("zero", getattr(TensorProto, name), [], [0.0])
    scale = numpy_helper.from_array(np.array(0.02, np.float32), "scale")
    ends = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *ends], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *ends], ["y"]),
    ]
    return model(nodes, ["y"], [scale, zero])


def model(nodes, outputs, weights=()):
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, NUMBERS.shape)
        for name in ("x", *outputs)
    ]
    graph = helper.make_graph(nodes, "narrow", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def assert_exact(network, target, **options):
    session = onnxruntime.InferenceSession(network.SerializeToString())
    expected = session.run(None, {"x": NUMBERS})
    results = executor(import_onnx(network), target, **options)(NUMBERS)
    for spec, result, reference in zip(session.get_outputs(), results, expected, strict=True):
        np.testing.assert_array_equal(result, reference, err_msg=spec.name)


@pytest.mark.parametrize("target", ["llvm", "vulkan"])
def test_a_cast_rounds_to_the_numbers_of_its_type(target):
    assert_exact(casts(TYPES), target)


@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_float8_is_quantized_as_onnxruntime_does(name, target):
    assert_exact(rounded_by_scale(name), target)


def test_a_cast_that_does_not_saturate_is_refused():
    with pytest.raises(UnsupportedModelError, match="does not saturate.*leave 'saturate' at 1"):
        import_onnx(casts(FLOAT8[:1], saturate=0))
