"""Slices in place: what counts as one, where they may be, and that the results stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tvm import te, topi

from support.compiled import executor_of
from tvm_vision.compiler import compile_model
from tvm_vision.compiler.graph.slice_in_place import piece_offsets
from tvm_vision.frontend.onnx.load import import_onnx

RANDOM = np.random.default_rng(11)
POOL = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def of(function: Any, shape: Sequence[int], dtype: str = "float32") -> list[int] | None:
    """Where the pieces begin that a function of topi makes of a tensor."""
    x = te.placeholder(shape, dtype, "x")
    made = function(x)
    results = [made] if isinstance(made, te.Tensor) else list(made)
    return piece_offsets(te.create_prim_func([x, *results]))


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda x: topi.split(x, 2, 1), (1, 8, 4, 4), [0, 64]),
        (lambda x: topi.split(x, [1, 5], 0), (6, 3), [0, 3, 15]),
        (lambda x: topi.split(x, 2, 1), (2, 8, 4, 4), None),
        (lambda x: topi.split(x, 2, 3), (1, 8, 4, 4), None),
        (lambda x: topi.strided_slice(x, [0, 3, 0, 0], [1, 5, 4, 4]), (1, 8, 4, 4), [48]),
        (lambda x: topi.strided_slice(x, [0, 3, 1, 0], [1, 4, 3, 4]), (1, 8, 4, 4), [52]),
        (lambda x: topi.strided_slice(x, [0, 3, 0, 1], [1, 4, 4, 3]), (1, 8, 4, 4), None),
        (lambda x: topi.strided_slice(x, [0], [8], [2]), (8,), None),
        (lambda x: topi.squeeze(topi.strided_slice(x, [2, 0], [3, 7]), 0), (4, 7), [14]),
        (lambda x: topi.reshape(topi.strided_slice(x, [2, 0], [4, 6]), (3, 4)), (4, 6), [12]),
        (lambda x: topi.transpose(x, (1, 0)), (4, 6), None),
        (lambda x: topi.transpose(x, (1, 0)), (1, 6), [0]),
        (lambda x: topi.flip(x, 0), (4,), None),
        (lambda x: topi.split(x, 2, 0)[0] * 2.0, (8,), None),
        (lambda x: topi.cast(topi.split(x, 2, 0)[1], "float16"), (8,), None),
        (lambda x: topi.nn.pad(x, [0], [0]), (8,), [0]),
        (lambda x: topi.nn.pad(x, [0], [1]), (8,), None),
    ],
)
def test_what_takes_pieces(function: Any, shape: tuple[int, ...], expected: Any) -> None:
    assert of(function, shape) == expected


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_offsets_are_where_the_numbers_are(data: Any) -> None:
    """A slice is a piece where, and only where, its elements follow each other in memory."""
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    begin = [data.draw(st.integers(0, n - 1)) for n in shape]
    end = [data.draw(st.integers(first + 1, n)) for first, n in zip(begin, shape, strict=True)]
    places = np.arange(np.prod(shape)).reshape(shape)
    taken = places[tuple(slice(*ends) for ends in zip(begin, end, strict=True))].ravel()
    in_one_piece = np.array_equal(taken, taken[0] + np.arange(taken.size))
    found = of(lambda x: topi.strided_slice(x, begin, end), shape)
    assert found == ([int(taken[0])] if in_one_piece else None)


def model(nodes: list[Any], shape: tuple[int, ...], outputs: str, *weights: Any) -> Any:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, shape)],
        [value(name, TensorProto.FLOAT, None) for name in outputs.split()],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def kernel(name: str, *shape: int) -> Any:
    weights = RANDOM.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
    return numpy_helper.from_array(weights.astype(np.float32), name)


def integers(name: str, *values: int) -> Any:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def halves(edge: int) -> Any:
    """Each half of an image's channels is read by a pool."""
    nodes = [
        node("MaxPool", "x", "p", **POOL),
        node("Split", "p", "a b", axis=1),
        node("MaxPool", "a", "c", **POOL),
        node("MaxPool", "b", "d", **POOL),
        node("Sub", "c d", "y"),
    ]
    return model(nodes, (1, 8, edge, edge), "y")


HALVES = halves(16)
ROWS = halves(7)  # 49 pixels of float32: no piece begins at a multiple of 256 bytes
# As in the blocks of YOLOv8: what was split is joined again, with what became of one half.
JOINED = model(
    [
        node("Conv", "x w0", "h"),
        node("Relu", "h", "p"),
        node("Split", "p", "a b", axis=1),
        node("Conv", "b w1", "c", pads=[1, 1, 1, 1]),
        node("Add", "b c", "d"),
        node("Concat", "a b d", "e", axis=1),
        node("Conv", "e w2", "y"),
    ],
    (1, 8, 16, 16),
    "y",
    kernel("w0", 16, 8, 1, 1),
    kernel("w1", 8, 8, 3, 3),
    kernel("w2", 4, 24, 1, 1),
)
# As in a block of Res2Net: what lies in the concatenation already is copied alone, the rest is read
# in place.
PARTLY = model(
    [
        node("Conv", "x w0", "h"),
        node("Relu", "h", "p"),
        node("Split", "p", "a b c", axis=1),
        node("Conv", "a w1", "d", pads=[1, 1, 1, 1]),
        node("Add", "b d", "e"),
        node("Conv", "e w1", "f", pads=[1, 1, 1, 1]),
        node("Concat", "d f c", "g", axis=1),
        node("Conv", "g w2", "y"),
    ],
    (1, 8, 16, 16),
    "y",
    kernel("w0", 24, 8, 1, 1),
    kernel("w1", 8, 8, 3, 3),
    kernel("w2", 4, 24, 1, 1),
)
# As queries and keys that are normalized: each is read twice.
NORMALIZED = model(
    [
        node("Conv", "x w", "h"),
        node("Reshape", "h s", "p"),
        node("Slice", "p one two", "q0"),
        node("Squeeze", "q0 zero", "q"),
        node("ReduceL2", "q", "n", axes=[-1]),
        node("Div", "q n", "m"),
        node("Softmax", "m", "y", axis=-1),
    ],
    (1, 8, 16, 16),
    "y",
    kernel("w", 12, 8, 1, 1),
    integers("s", 3, 4, 256),
    integers("one", 1),
    integers("two", 2),
    integers("zero", 0),
)
ENDS = model(  # pieces of an input, and pieces that are outputs
    [
        node("Split", "x", "a b", axis=1),
        node("MaxPool", "a", "c", **POOL),
        node("Split", "c", "y z", axis=1),
        node("MaxPool", "b", "d", **POOL),
    ],
    (1, 8, 16, 16),
    "y z d",
)


def compiled(onnx_model: Any, target: str, **options: Any) -> Any:
    module, signature = import_onnx(onnx_model)
    return compile_model(module, signature, target=target, **options)


def moves(made: Any) -> int:
    """Kernels that take pieces or join them."""
    names = [kernel["function"] for kernel in made.graph["kernels"]]
    return sum("split" in name or "slice" in name or "concat" in name for name in names)


@pytest.mark.parametrize(
    ("onnx_model", "left", "without"),
    [
        (HALVES, 0, 1),
        (JOINED, 0, 1),
        (PARTLY, 0, 1),
        (NORMALIZED, 0, 1),
        (ROWS, 1, 1),
        (ENDS, 2, 2),
    ],
    ids=["halves", "joined", "partly", "normalized", "rows", "ends"],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_pieces_are_no_kernels(onnx_model: Any, left: int, without: int, precision: str) -> None:
    """Where they can be, and with the results of onnxruntime, in a second frame as well."""
    # Channels last, which devices with matrices may choose, are no pieces.
    given = {"precision": precision, "layout": "nchw"}
    made = compiled(onnx_model, "vulkan", **given)
    assert moves(made) == left
    off = compiled(onnx_model, "vulkan", **given, slice_in_place=False)
    assert moves(off) >= without
    (name,) = [given.name for given in onnx_model.graph.input]
    shape = [n.dim_value for n in onnx_model.graph.input[0].type.tensor_type.shape.dim]
    x = RANDOM.standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString())
    expected = session.run(None, {name: x})
    executor = executor_of(made, tvm.vulkan(0))
    for _ in range(2):
        executor.run(x=x)
        for one, other in zip(executor.outputs().values(), expected, strict=True):
            bound = 1e-5 if precision == "fp32" else 4e-3
            np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


def test_a_piece_that_lies_elsewhere_is_copied_alone() -> None:
    graph = compiled(PARTLY, "vulkan", layout="nchw").graph
    (copy,) = [k for k in graph["kernels"] if k["function"].startswith("copy")]
    assert [graph["tensors"][t]["shape"] for t in copy["args"]] == [[1, 8, 16, 16]] * 2
    assert copy["nodes"] == ["Split_2"]


@pytest.mark.parametrize("onnx_model", [HALVES, JOINED, PARTLY, NORMALIZED])
def test_processors_read_pieces_in_place(onnx_model: onnx.ModelProto) -> None:
    made = compiled(onnx_model, "llvm", layout="nchw")
    assert moves(made) == 0
    x = RANDOM.standard_normal((1, 8, 16, 16)).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString())
    executor = executor_of(made, tvm.cpu(0))
    executor.run(x=x)
    (y,) = executor.outputs().values()
    np.testing.assert_allclose(y, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
