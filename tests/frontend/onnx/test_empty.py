"""Tensors without elements within a network: each operator on them as onnxruntime, or refused."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.errors import UnsupportedModelError
from tvm_vision.frontend.onnx.load import import_onnx

FLAT, IMAGE = (2, 4), (1, 3, 4, 4)
REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)


def node(operator, inputs, outputs="r", **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def ints(*values):
    return np.array(values, np.int64)


def splits(*sizes):
    """Parts of x, those with elements joined again in another order."""
    names = [f"p{number}" for number in range(len(sizes))]
    kept = " ".join(name for name, size in zip(names, sizes, strict=True) if size)
    parts = node("Split", "x parts", " ".join(names), axis=1)
    return [parts, node("Concat", kept, axis=1)], {"parts": ints(*sizes)}


# Each: nodes that make r of x [2, 4] and e [2, 0], and constants; r is joined to x along axis 1.
PIECES = {
    "split_first": splits(0, 4),
    "split_middle": splits(1, 0, 3),
    "split_last": splits(4, 0),
    "split_all_but_one": splits(0, 0, 4, 0),
    "split_of_nothing": ([node("Split", "e parts", "p q", axis=1), node("Concat", "q p", axis=1)],
                         {"parts": ints(0, 0)}),
    "split_to_sequence": ([node("SplitToSequence", "x parts", "s", axis=1),
                           node("ConcatFromSequence", "s", axis=1)], {"parts": ints(0, 3, 1)}),
    "broadcast": ([node("Max", "e k")], {"k": np.ones((2, 1), np.float32)}),
    "scatter_nd": ([node("ScatterND", "x none updates")],
                   {"none": np.zeros((0, 2), np.int64), "updates": np.zeros(0, np.float32)}),
    "scatter_elements": ([node("ScatterElements", "x none e", axis=1)],
                         {"none": np.zeros((2, 0), np.int64)}),
    "gather": ([node("Gather", "x none", axis=1)], {"none": np.zeros(0, np.int64)}),
    "matmul": ([node("Transpose", "e", "t", perm=[1, 0]), node("MatMul", "e t")], {}),
    "gemm": ([node("Gemm", "e w bias")],
             {"w": np.zeros((0, 3), np.float32), "bias": np.arange(3, dtype=np.float32)}),
    "gemm_of_data": ([node("Gemm", "e w x")], {"w": np.zeros((0, 4), np.float32)}),
    "pad": ([node("Pad", "e by value")], {"by": ints(0, 1, 0, 2), "value": np.float32(2.5)}),
    "top_0": ([node("TopK", "x none", "r places", axis=1)], {"none": ints(0)}),
    "nonzero": ([node("NonZero", "e", "places"),
                 node("Cast", "places", to=TensorProto.FLOAT)], {}),
    "softmax": ([node("Softmax", "e", axis=1)], {}),
    "reverse": ([node("ReverseSequence", "e none", batch_axis=0, time_axis=1)],
                {"none": ints(0, 0)}),
    **{f"{name}_{axis}": ([node(name, "e axis", "one", keepdims=1), node("Tile", "one by")],
                          {"axis": ints(axis), "by": ints(1 + (axis == 0), 1)})
       for name in REDUCTIONS for axis in (0, 1)},
}  # fmt: skip
PIECES_OF_IMAGES = {
    "depth_to_space": ([node("DepthToSpace", "e", "d", blocksize=2),
                        node("SpaceToDepth", "d", blocksize=2)], {}),
    "suppression": ([node("Reshape", "e boxes", "b", allowzero=1),
                     node("Reshape", "e scores", "s", allowzero=1),
                     node("NonMaxSuppression", "b s most", "found"),
                     node("Shape", "found", "size"), node("Cast", "size", "real", to=1),
                     node("Reshape", "real row", "t"), node("Tile", "t by")],
                    {"boxes": ints(1, 0, 4), "scores": ints(1, 1, 0), "most": np.int64(5),
                     "row": ints(1, 2, 1, 1), "by": ints(1, 1, 4, 4)}),
    "convolution_of_no_images": ([node("Slice", "x zero zero zero", "none"),
                                  node("Conv", "none kernel", "c"),
                                  node("Concat", "c x", axis=0)],
                                 {"kernel": np.ones((3, 3, 1, 1), np.float32)}),
}  # fmt: skip


def model_of(pieces, shape):
    """One model of all pieces, an output for each; values of a piece begin with its name."""
    nodes = [node("Slice", "x zero zero one", "e")]
    weights = [("zero", ints(0)), ("one", ints(1))]
    for piece, (steps, constants) in pieces.items():
        made = {name for step in steps for name in step.output} | set(constants)
        weights += [(f"{piece}/{name}", value) for name, value in constants.items()]
        for step in steps:
            copy = onnx.NodeProto()
            copy.CopyFrom(step)
            copy.input[:] = [f"{piece}/{n}" if n in made else n for n in step.input]
            copy.output[:] = [f"{piece}/{n}" for n in step.output]
            nodes.append(copy)
        nodes.append(node("Concat", f"x {piece}/r", piece, axis=1))
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in weights]
    outputs = [onnx.ValueInfoProto(name=piece) for piece in pieces]
    graph = helper.make_graph(nodes, "empty", given, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    "pieces, shape", [(PIECES, FLAT), (PIECES_OF_IMAGES, IMAGE)], ids=["flat", "images"]
)
def test_as_onnxruntime(pieces, shape):
    model = model_of(pieces, shape)
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    imported = import_onnx(model)
    for target in ("llvm", "vulkan"):
        found = executor(imported, target)(x)
        for piece, ours, theirs in zip(pieces, found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6, err_msg=f"{target}: {piece}")


@pytest.mark.parametrize(
    "step, constants",
    [
        (node("ArgMax", "e", axis=1), {}),
        (node("Conv", "e k"), {"k": np.ones((2, 0, 1), np.float32)}),
    ],
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_what_is_left_is_one_line_with_a_remedy(step, constants):
    """What TVM divides by zero for, which ends the process, or has an error of its own for; newer
    releases of onnxsim fold a convolution of nothing to zeros."""
    shape = (1, *FLAT) if step.op_type == "Conv" else FLAT
    model = model_of({"piece": ([step], constants)}, shape)
    try:
        imported = import_onnx(model)
    except UnsupportedModelError as refused:
        assert re.search("no elements.*: (use|pass)", str(refused))
        return
    assert step.op_type == "Conv"
    x = np.ones(shape, np.float32)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(executor(imported, "llvm")(x)[0], wanted)
