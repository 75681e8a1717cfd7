"""ONNX to quantized ONNX: what is rounded and what is not, and that little is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.networks import mobilenet_v2, transformer, yoeo_like
from support.quantized_networks import as_written, network
from tvm_vision.errors import InputError, UnsupportedModelError
from tvm_vision.evaluate import Reference
from tvm_vision.frontend.onnx.bounded import bounded
from tvm_vision.frontend.onnx.graph import inferred
from tvm_vision.frontend.onnx.quantize import (
    check_smaller,
    nodes_before_sums,
    nodes_of_real_numbers,
    plain_onnx,
    plain_signature,
    quantized,
)


def samples(count=4, size=64):
    """Blobs of colour, as the networks' input."""
    random = np.random.default_rng(2)
    coarse = random.uniform(-1, 1, (count, 1, 3, 8, 8)).astype(np.float32)
    scale = size // 8
    return [{"input": c.repeat(scale, axis=2).repeat(scale, axis=3)} for c in coarse]


@pytest.fixture(scope="module")
def yoeo(tmp_path_factory):
    """A network of two heads and a mask, as it is and quantized."""
    path = tmp_path_factory.mktemp("yoeo") / "yoeo.onnx"
    model = yoeo_like(64)
    model.metadata_props.add(key="tvm_vision.test", value="kept")
    onnx.save(model, path)
    plain = plain_onnx(path, {})
    return plain, quantized(plain, samples())


def test_convolutions_are_of_int8_and_what_decodes_stays_real(yoeo):
    plain, made = yoeo
    makers = {name: node for node in made.graph.node for name in node.output}
    readers: dict[Any, Any] = {}
    for node in made.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    constants = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    convolutions = [node for node in made.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == sum(node.op_type == "Conv" for node in plain.graph.node) == 23
    for node in convolutions:
        image, weights = (makers[name] for name in node.input[:2])
        assert image.op_type == weights.op_type == "DequantizeLinear"
        assert constants[weights.input[0]] == TensorProto.INT8
    after = [n for c in convolutions for n in readers[c.output[0]]]
    # Three results: two heads and the logits of the mask.
    assert sum(n.op_type in ("Reshape", "ArgMax") for n in after) == 3
    for node in made.graph.node:
        if node.op_type in ("Sigmoid", "Transpose", "ArgMax", "Reshape"):
            assert all(makers[n].op_type != "DequantizeLinear" for n in node.input[:1])
    assert made.graph.output == plain.graph.output
    used = {name for node in made.graph.node for name in node.input}
    assert {tensor.name for tensor in made.graph.initializer} <= used


def test_little_is_lost_and_metadata_stays(yoeo):
    plain, made = yoeo
    assert [(p.key, p.value) for p in made.metadata_props] == [("tvm_vision.test", "kept")]
    assert made.ByteSize() < 0.3 * plain.ByteSize()
    # A sample that it was not calibrated with.
    x = samples(6)[5]["input"]
    (boxes, mask), (exact, same) = as_written(made, x), as_written(plain, x)
    assert exact.std() > 0.02
    assert np.abs(boxes - exact).max() < 0.01
    assert np.unique(same).size == 3
    assert (mask == same).mean() > 0.95


def test_of_a_transformer_products_by_weights_are_of_int8_and_nothing_else_is_rounded():
    plain = plain_onnx(transformer(), {})
    made = quantized(plain, samples())
    sums = {"Conv", "Gemm", "MatMul"}
    makers = {name: node for node in made.graph.node for name in node.output}
    readers: dict[str, set[str]] = {}
    for node in made.graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    weights = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    rounded = 0
    for node in made.graph.node:
        if node.op_type not in sums:
            continue
        found = [makers.get(name) for name in node.input[:2]]
        if all(maker is not None and maker.op_type == "DequantizeLinear" for maker in found):
            assert weights[found[1].input[0]] == TensorProto.INT8
            rounded += 1
        else:  # of attention
            assert all(m is None or m.op_type != "DequantizeLinear" for m in found)
    assert rounded == 1 + 6 * 2 + 1
    for node in made.graph.node:
        if node.op_type == "DequantizeLinear":
            assert readers[node.output[0]] <= sums
    x = samples(6)[5]["input"]
    (scores,), (exact,) = as_written(made, x), as_written(plain, x)
    assert np.abs(scores - exact).max() < 0.03 * np.abs(exact).max()


def test_nodes_named_stay_real(tmp_path):
    onnx.save(mobilenet_v2(64), tmp_path / "net.onnx")
    plain = plain_onnx(tmp_path / "net.onnx", {})
    first = next(node.name for node in plain.graph.node if node.op_type == "Conv")
    made = quantized(plain, samples(2), keep=[first], calibration="minmax")
    makers = {name: node for node in made.graph.node for name in node.output}
    kept = [
        node.name
        for node in made.graph.node
        if node.op_type in ("Conv", "Gemm") and node.input[1] not in makers
    ]
    assert kept == [first]
    assert made.graph.output[0].name not in {
        name for node in made.graph.node if "Linear" in node.op_type for name in node.output
    }


def small(operator="Relu", opset=17):
    node = helper.make_node(operator, ["input"], ["y"], "only")
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 3, 8, 8))
    made = network([node], image, {"y": TensorProto.FLOAT}, [])
    made.opset_import[0].version = opset
    return made


def test_older_opsets_are_converted_and_open_shapes_fixed(tmp_path):
    model = mobilenet_v2(64)
    model.opset_import[0].version = 12
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "old.onnx")
    plain = plain_onnx(tmp_path / "old.onnx", {"input": (1, 3, 64, 64)})
    assert plain.opset_import[0].version >= 13
    assert [str(spec) for spec in plain_signature(plain).inputs] == ["input: float32[1, 3, 64, 64]"]
    assert all(node.name for node in plain.graph.node)


def test_what_leads_to_sums():
    model = yoeo_like(64)
    for index, node in enumerate(model.graph.node):
        node.name = f"n{index}"
    names = nodes_before_sums(model)
    rest = [node.op_type for node in model.graph.node if node.name not in names]
    assert sorted(rest) == sorted(
        ["ArgMax", "Cast", "Concat", *["Reshape", "Sigmoid", "Transpose", "Reshape"] * 2]
    )


def test_what_is_left_out_ties_no_nodes_together():
    """What reads nothing for an input does not read what others do not give."""
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))
    kernel = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    most = numpy_helper.from_array(np.array(6, np.float32), "most")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Clip", ["a", "", "most"], ["b"], "clip"),
        helper.make_node("Conv", ["b", "w"], ["c"], "second"),
        helper.make_node("MaxPool", ["c"], ["d", ""], "pool", kernel_shape=[2, 2]),
        helper.make_node("Exp", ["d"], ["y"], "exp"),
    ]
    made = inferred(network(nodes, image, {"y": TensorProto.FLOAT}, [kernel, most]))
    assert nodes_of_real_numbers(made) == {"pool", "exp"}
    assert bounded(made) is made


def test_what_cannot_be_says_why(tmp_path, yoeo):
    plain, _ = yoeo
    onnx.save(small(), tmp_path / "relu.onnx")
    with pytest.raises(UnsupportedModelError, match="this one has none: compile it as it is"):
        quantized(plain_onnx(tmp_path / "relu.onnx", {}), samples(1))
    name = next(node.name for node in plain.graph.node if node.op_type == "Conv")
    with pytest.raises(InputError, match=f"'{name}x' is of none: try {name}"):
        quantized(plain, samples(1), keep=[f"{name}x"])
    with pytest.raises(InputError, match="samples are needed to calibrate with, found none"):
        quantized(plain, [])
    with pytest.raises(InputError, match="a calibration of percentile, minmax, entropy is needed"):
        quantized(plain, samples(1), calibration="max")
    wrong = [{"input": np.zeros((1, 3, 32, 32), np.float32)}]
    with pytest.raises(
        UnsupportedModelError, match="onnxruntime cannot quantize the network .*: check"
    ):
        quantized(plain, wrong)


def test_a_quantized_network_is_not_quantized_again(yoeo, tmp_path):
    onnx.save(yoeo[1], tmp_path / "int8.onnx")
    with pytest.raises(InputError, match=r"int8\.onnx' is quantized already: compile it as it is"):
        plain_onnx(tmp_path / "int8.onnx", {})


def two_products(after, **constants):
    """Two products with one weight, and the nodes ``after`` them; ``constants`` are by name."""
    nodes = [
        helper.make_node("MatMul", ["input", "w"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["b"], "soft"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "second"),
        *after,
    ]
    constants["w"] = np.random.default_rng(4).normal(size=(64, 64)).astype(np.float32)
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 64))
    return network(nodes, image, {"y": TensorProto.FLOAT}, tensors)


def test_what_was_in_fp16_is_kept_in_no_more(tmp_path):
    """Folding makes float32 of it, and not all of it becomes int8."""
    table = np.random.default_rng(5).normal(size=(64, 64)).astype(np.float16)
    after = [
        helper.make_node("Cast", ["t16"], ["t"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["c", "t"], ["y"], "scale"),
    ]
    onnx.save(two_products(after, t16=table), tmp_path / "half.onnx")
    plain = plain_onnx(tmp_path / "half.onnx", {})
    made = quantized(plain, [{"input": np.ones((1, 64), np.float32)}])
    check_smaller(made, tmp_path / "half.onnx")
    floats = [t for t in made.graph.initializer if t.data_type == TensorProto.FLOAT]
    assert max(np.prod(t.dims) for t in floats) <= 64
    assert made.ByteSize() < plain.ByteSize()


def test_a_network_in_fp16_is_quantized_in_float32():
    """As exporters write it, inputs and outputs too; onnxruntime counts no values of fp16."""
    random = np.random.default_rng(5)
    weight = random.normal(size=(64, 64)).astype(np.float16)
    zero = numpy_helper.from_array(np.zeros(1, np.float16))
    nodes = [
        helper.make_node("MatMul", ["input", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "rectify"),
        helper.make_node("Shape", ["b"], ["size"], "size"),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"], "zeros", value=zero),
        helper.make_node("Max", ["b", "zeros"], ["c"], "larger"),
        helper.make_node("MatMul", ["c", "w"], ["d"], "second"),
        helper.make_node("Cast", ["d"], ["e"], "cast", to=TensorProto.FLOAT16),
        helper.make_node("Add", ["e", "d"], ["y"], "sum"),
    ]
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT16, (1, 64))
    tensors = [numpy_helper.from_array(weight, "w")]
    model = network(nodes, image, {"y": TensorProto.FLOAT16}, tensors)
    plain = plain_onnx(model, {})
    kinds = {v.type.tensor_type.elem_type for v in (*plain.graph.input, *plain.graph.output)}
    assert kinds == {TensorProto.FLOAT}
    feed = {"input": random.random((1, 64), np.float32)}
    half = Reference(model).run({"input": feed["input"].astype(np.float16)})["y"]
    np.testing.assert_allclose(Reference(plain).run(feed)["y"], half, rtol=0.02, atol=0.02)
    made = quantized(plain, [feed])
    np.testing.assert_allclose(Reference(made).run(feed)["y"], half, atol=0.05 * np.abs(half).max())


def test_a_file_that_would_grow_is_refused(tmp_path):
    """What was int8 or small in the file, and is float32 once it is folded."""
    after = [
        helper.make_node("Cast", ["t8"], ["t"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["t", "s"], ["scaled"], "scaling"),
        helper.make_node("Mul", ["c", "scaled"], ["y"], "scale"),
    ]
    table = np.random.default_rng(5).integers(-127, 128, (256, 64)).astype(np.int8)
    onnx.save(two_products(after, t8=table, s=np.float32(0.1)), tmp_path / "bytes.onnx")
    plain = plain_onnx(tmp_path / "bytes.onnx", {})
    made = quantized(plain, [{"input": np.ones((1, 64), np.float32)}])
    with pytest.raises(UnsupportedModelError, match=r"would become \d+: compile it as it is"):
        check_smaller(made, tmp_path / "bytes.onnx")


def test_a_file_of_the_newest_format_is_quantized_by_an_older_onnxruntime(tmp_path):
    """onnx stamps what it writes with its own newest version, whatever is in it."""
    model = mobilenet_v2(64)
    model.ir_version = onnx.IR_VERSION
    onnx.save(model, tmp_path / "new.onnx")
    assert plain_onnx(tmp_path / "new.onnx", {}).ir_version < onnx.IR_VERSION


def test_values_that_hardly_differ_have_steps_too():
    """Of a layer that ignores its image, between two that do not: they fill no histogram."""
    random = np.random.default_rng(4)
    weights = [random.standard_normal((8, n, 1, 1)).astype(np.float32) for n in (3, 8, 8)]
    weights[1] *= 1e-8
    constants = [numpy_helper.from_array(value, f"w{i}") for i, value in enumerate(weights)]
    constants.append(numpy_helper.from_array(np.ones(8, np.float32), "b"))
    nodes = [
        helper.make_node("Conv", ["input", "w0"], ["a"], "first"),
        helper.make_node("Conv", ["a", "w1", "b"], ["c"], "even"),
        helper.make_node("Mul", ["a", "c"], ["d"], "product"),
        helper.make_node("Conv", ["d", "w2"], ["y"], "last"),
    ]
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 3, 8, 8))
    plain = network(nodes, image, {"y": TensorProto.FLOAT}, constants)
    told: list[str] = []
    made = quantized(plain, samples(2, 8), tell=told.append)
    assert "calibrating by all values: those of a tensor hardly differ" in told
    x = samples(2, 8)[0]["input"]
    (found,), (exact,) = as_written(made, x), as_written(plain, x)
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
