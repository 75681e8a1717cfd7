"""Small ONNX models of a node or two, and what they come to on the CPU."""

import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
RNG_SEED = 7


def make_model(nodes, inputs, outputs, weights=(), opset=OPSET, domain=""):
    """A model; inputs and outputs are (name, shape) of float32."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def conv_model(batch=1):
    rng = np.random.default_rng(RNG_SEED)
    weight = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    low, high = np.float32(0.0), np.float32(6.0)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[0, 0, 1, 1], strides=[2, 2]),
        helper.make_node("Clip", ["c", "low", "high"], ["y"]),
    ]
    weights = [("w", weight), ("b", bias), ("low", np.array(low)), ("high", np.array(high))]
    return make_model(nodes, [("x", (batch, 3, 8, 8))], [("y", tuple("nchw"))], weights)


def relu_model(shape, **options):
    node = helper.make_node("Relu", ["x"], ["y"])
    return make_model([node], [("x", shape)], [("y", shape)], **options)


def mean_of_channels():
    """The mean of each channel of an image 8x8 is the score of its class."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["y"]),
    ]
    return make_model(nodes, [("x", (1, 3, 8, 8))], [("y", (1, 3))])


def undeclared(model):
    """The same model with nodes between its inputs and those that read them, whose results no
    declaration gives a type."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    for node in changed.graph.node:
        node.input[:] = [f"{name}/within" if name in names else name for name in node.input]
    before = [helper.make_node("Identity", [name], [f"{name}/within"]) for name in names]
    nodes = [*before, *changed.graph.node]
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    del changed.graph.value_info[:]
    if all(entry.domain for entry in changed.opset_import):
        changed.opset_import.add(domain="", version=OPSET)
    return changed


def of_opset(model, opset):
    """The same model, said to be of another version of ONNX's own operators."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    kept = [entry for entry in model.opset_import if entry.domain]
    del changed.opset_import[:]
    changed.opset_import.extend([*kept, helper.make_opsetid("", opset)])
    return changed


def run_on_cpu(module, *arrays):
    """Linked and loaded: in memory TVM would compile all of it once more, and optimize it."""
    import tvm
    from tvm import relax
    from tvm.support import cc

    from support.lowering import HOST
    from tvm_vision.linking import link_library

    def link(path, files, **of_sources):
        # A module without kernels, as of a copy, comes with a source of TVM's.
        if of_sources:
            cc.create_shared(path, files, **of_sources)
        else:
            link_library(path, files)

    made = tvm.compile(module, tvm.target.Target(HOST))
    with tempfile.TemporaryDirectory() as folder:
        made.export_library(f"{folder}/module.so", fcompile=link)
        loaded = tvm.runtime.load_module(f"{folder}/module.so")
    result = relax.VirtualMachine(loaded, tvm.cpu())["main"](*map(tvm.runtime.tensor, arrays))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]


def image(*shape):
    """Numbers from 0 to 1, the same for a shape."""
    return np.random.default_rng(RNG_SEED).random(shape, np.float32)


def assert_equals_onnxruntime(model, *arrays, rtol=1e-4, atol=1e-5):
    """Of a model imported and run on the CPU, inputs in order: results and what is said of them."""
    from tvm_vision.evaluate import Reference
    from tvm_vision.frontend.onnx.load import import_onnx

    module, signature = import_onnx(model)
    reference = Reference(model)
    expected = reference.run(dict(zip(reference.inputs, arrays, strict=True)))
    results = run_on_cpu(module, *arrays)
    for spec, result in zip(signature.outputs, results, strict=True):
        wanted = expected[spec.name]
        assert result.shape == spec.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=atol)
