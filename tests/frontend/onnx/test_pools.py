"""Pools and convolutions whose windows lie partly outside the image, against onnxruntime."""

import itertools
import operator as operators
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaging.version import Version

from support.conformance.conformance_worker import executor
from support.relax_models import operators_in
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

RANDOM = np.random.default_rng(5)
IMAGES = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (1, 2, 7, 6, 5)}
NEWER = Version(onnxruntime.__version__) >= Version("1.29")
PARTIAL: list[dict[str, Any]] = [
    {"kernel_shape": [2], "strides": [2], "ceil_mode": 1},
    {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1, "dilations": [2]},
    {"kernel_shape": [1], "strides": [3], "ceil_mode": 1},
    {"kernel_shape": [3], "strides": [2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "dilations": [1, 2]},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [3, 3], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [1, 1], "strides": [3, 3], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [3, 1], "auto_pad": "SAME_LOWER", "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "VALID", "ceil_mode": 1},
    {"kernel_shape": [3, 2, 2], "strides": [1, 3, 2], "dilations": [2, 1, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3, 2], "strides": [1, 1, 2], "dilations": [2, 2, 2]},
    {"kernel_shape": [2, 2, 1], "strides": [2, 2, 2], "pads": [1] * 2 + [0, 1, 1, 0]},
    {"kernel_shape": [40], "strides": [40], "pads": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [999, 999], "strides": [999, 999], "ceil_mode": 1},
    {"kernel_shape": [30, 3], "strides": [30, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [30, 31], "strides": [9, 9], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [30, 2, 30], "strides": [30, 1, 30], "ceil_mode": 1},
]


def pads_below_zero(pool):
    """Whether windows of the same number as steps may need less than there is: newer releases of
    onnxruntime refuse to take maxima then."""
    skips = any(map(operators.lt, pool["kernel_shape"], pool.get("strides", [])))
    return skips and pool.get("auto_pad", "").startswith("SAME")


def pools(operator, opset, attributes, shape, dtype=TensorProto.FLOAT):
    """A model of a pool for each of the attributes, y0, y1, ..."""
    names = [f"y{number}" for number in range(len(attributes))]
    nodes = [
        helper.make_node(operator, ["x"], [name], name, **each)
        for name, each in zip(names, attributes, strict=True)
    ]
    graph = helper.make_graph(
        nodes,
        "pools",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def compare(model, x, target):
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    results = executor(import_onnx(model), target)(x)
    for node, result, wanted in zip(model.graph.node, results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5, err_msg=str(node))


@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rank", IMAGES)
@pytest.mark.parametrize(
    ("operator", "opset", "each"),
    [
        ("AveragePool", 19, {"count_include_pad": [0, 1]}),
        ("LpPool", 18, {"p": [1, 2, 3]}),
        ("LpPool", 22, {"p": [2]}),
        ("MaxPool", 12, {}),
        ("MaxPool", 22, {}),
    ],
)
def test_windows_that_lie_partly_outside(operator, opset, each, rank, target):
    """Of pads that differ onnxruntime takes another one where pads count."""
    attributes = [
        {**pool, **dict(zip(each, values, strict=True))}
        for pool in PARTIAL
        for values in itertools.product(*each.values())
        if len(pool["kernel_shape"]) == rank
        and not (
            values == (1,) and operator == "AveragePool" and len(set(pool.get("pads", []))) > 1
        )
        and not (operator == "MaxPool" and NEWER and pads_below_zero(pool))
    ]
    x = RANDOM.standard_normal(IMAGES[rank]).astype(np.float32)
    compare(pools(operator, opset, attributes, x.shape), x, target)


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool", "LpPool"])
def test_a_window_over_all_pixels_has_no_place_beyond_them(operator):
    """Each place of a window is visited, also where nothing lies in it, and a step of padding is
    memory."""
    said = {"kernel_shape": [2560, 2560], "strides": [2560, 2560], "ceil_mode": 1}
    text = str(import_onnx(pools(operator, 19, [said], IMAGES[2]))[0])
    assert "pool2d" in text
    assert "2560" not in text


def test_a_window_over_all_pixels_tells_its_largest_place():
    """A comparison for each place of a window: 160,000 of this one's lie beyond the image."""
    said = {"kernel_shape": [400, 400], "strides": [400, 400], "ceil_mode": 1}
    model = pools("MaxPool", 22, [said], IMAGES[2])
    model.graph.node[0].output.append("places")
    model.graph.output.append(helper.make_empty_tensor_value_info("places"))
    x = RANDOM.standard_normal(IMAGES[2]).astype(np.float32)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for result, wanted in zip(executor(import_onnx(model), "llvm")(x), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bytes_in_windows_that_lie_partly_outside(dtype):
    limits = np.iinfo(dtype)
    x = RANDOM.integers(limits.min, limits.max, IMAGES[2], dtype)
    attributes = [pool for pool in PARTIAL if len(pool["kernel_shape"]) == 2]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    compare(pools("MaxPool", 12, attributes, x.shape, kind), x, "llvm")


def test_powers_beyond_fp16_below_a_root():
    model = pools(
        "LpPool", 18, [{"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1}], IMAGES[2]
    )
    x = 400 * RANDOM.standard_normal(IMAGES[2]).astype(np.float32)
    (result,) = executor(import_onnx(model), "vulkan", precision="fp16")(x)
    (wanted,) = executor(import_onnx(model), "llvm")(x)
    np.testing.assert_allclose(result, wanted, rtol=5e-3)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_powers_of_halves_are_those_of_float32(power):
    """Of windows that lie partly outside, as of those inside."""
    said = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "p": power}
    x = RANDOM.standard_normal((1, 2, 6, 8)).astype(np.float16)
    model = pools("LpPool", 18, [said], x.shape)
    (wanted,) = executor(import_onnx(model), "llvm")(x.astype(np.float32))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    (found,) = executor(import_onnx(model), "llvm")(x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_what_onnx_and_onnxruntime_read_in_two_ways_is_refused():
    pool = {"kernel_shape": [2, 2], "dilations": [2, 1], "auto_pad": "SAME_UPPER"}
    with pytest.raises(UnsupportedModelError, match=r"auto_pad SAME_UPPER of dilated.*with pads"):
        import_onnx(pools("MaxPool", 12, [pool], IMAGES[2]))


SAME = [
    ({"strides": [2], "auto_pad": "SAME_LOWER"}, (4, 3, 3)),
    ({"auto_pad": "SAME_UPPER"}, (4, 3, 4)),
    ({"strides": [2, 2], "auto_pad": "SAME_UPPER", "kernel_shape": [3, 3]}, (4, 3, 3, 3)),
    ({"strides": [2, 3], "auto_pad": "SAME_LOWER"}, (4, 3, 2, 5)),
    ({"strides": [3, 3], "auto_pad": "SAME_UPPER"}, (4, 3, 1, 1)),
    ({"strides": [2, 2], "auto_pad": "SAME_UPPER", "group": 3}, (6, 1, 7, 7)),
    ({"strides": [2, 1, 2], "auto_pad": "SAME_UPPER"}, (4, 2, 3, 3, 2)),
    ({"strides": [1, 2, 2], "auto_pad": "SAME_LOWER", "dilations": [1, 1, 1]}, (4, 2, 2, 4, 3)),
]


@pytest.mark.parametrize(("attributes", "weights"), SAME)
def test_convolutions_whose_pads_follow_from_their_image(attributes, weights):
    """Which are pads of a window, and no zeros around the image before it."""
    shape = IMAGES[len(weights) - 2]
    numbers = numpy_helper.from_array(RANDOM.standard_normal(weights).astype("float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)],
        "same",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numbers],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module, _ = import_onnx(model)
    assert [name for name in operators_in(module) if name] == [f"nn.conv{len(weights) - 2}d"]
    compare(model, RANDOM.standard_normal(shape).astype("float32"), "llvm")
